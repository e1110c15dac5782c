package pages

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
)

var (
	eventsPage = page{name: "events", path: "/events", entry: "Events", verb: rights.EventList, show: showEvents, inFiles: true}
	eventPage  = page{name: "event", path: "/events/{seq}", verb: rights.EventList, show: showEvent, inFiles: true}
)

// Bounds of what is read of the log for a page.
const (
	shownEvents = 100
	readEvents  = 5_000 // records, of which a filter may choose few
	readAtOnce  = 500
	readTraced  = 500 // records that an index names, of which few may be chosen nevertheless
	askedTasks  = 300 // after so many of which the job, queue or schedule was looked up, no more is read
	shownCauses = 50
)

type eventsData struct {
	panel
	factsAsked
	Types []string
	Rows  []factRow
	// Next is the Before of the page of older facts; 0 if there are none. Read is how far this page
	// has read.
	Next, Read uint64
	// First tells whether the newest are here.
	First bool
	// Begins is the first sequence that the log keeps, if it has forgotten what was before, and Holds
	// what its horizon will not pass; nil if nothing does, or if that is not known.
	Begins uint64
	Holds  *client.HorizonHold
	Chosen bool
}

// factRow is a fact in the list of all.
type factRow struct {
	fact
	Thing string   // what it is about
	Link  []string // the parts of the path to the page of that; nil for none
}

// factsAsked are the fields of the form above the list.
type factsAsked struct{ Type, Task, Node, Queue, Job, Schedule, Actor, Since, Until string }

func (l *look) factsAsked() factsAsked {
	get := func(name string) string { return strings.TrimSpace(l.Asked(name)) }
	return factsAsked{get("type"), strings.ToUpper(get("task")), get("node"), get("queue"), get("job"), get("schedule"), get("actor"), get("since"), get("until")}
}

// factChoice chooses facts of the log.
type factChoice struct {
	view.FactFilter
	job, schedule, actor string
	since, until         time.Time
}

// choice parses the form. The error says which field is wrong.
func (a *factsAsked) choice(now time.Time) (c factChoice, err error) {
	c.FactFilter = view.FactFilter{Task: task.ID(a.Task), Node: a.Node}
	for name := range strings.SplitSeq(a.Type, ",") {
		if name = strings.TrimSpace(name); name != "" {
			c.Types = append(c.Types, name)
		}
	}
	c.Queue, c.job, c.schedule, c.actor = a.Queue, a.Job, a.Schedule, a.Actor
	for _, t := range []struct {
		name, text string
		into       *time.Time
	}{{"since", a.Since, &c.since}, {"until", a.Until, &c.until}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = view.ParsePast(t.text, now); err != nil {
			return c, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return c, c.Validate()
}

// belongs is what must be known of a fact's task.
type belongs struct{ queue, job, schedule string }

// asksTask tells whether the choice depends on the task of a fact.
func (c *factChoice) asksTask() bool { return c.Queue != "" || c.job != "" || c.schedule != "" }

// wants tells whether a record is chosen; of returns what its task belongs to.
func (c *factChoice) wants(r *events.Record, of func(*events.Record) belongs) bool {
	if !r.IsFact() && r.Err == nil {
		return false // a probe of the log
	}
	f := &r.Fact
	if c.actor != "" && f.Actor != c.actor || !c.since.IsZero() && r.Stored.Before(c.since) || !c.until.IsZero() && r.Stored.After(c.until) {
		return false
	}
	own := belongs{f.Queue, f.Job, f.Schedule}
	switch f.Def.Kind() {
	case task.DefJob:
		own.job = f.Def.Name()
	case task.DefSchedule:
		own.schedule = f.Def.Name()
	}
	plain := c.FactFilter
	plain.Queue = ""
	if traits := view.TraitsOf(r, ""); !plain.Wants(&traits) {
		return false
	}
	if f.Task != "" && c.asksTask() {
		own = of(r)
	}
	return (c.Queue == "" || own.queue == c.Queue) && (c.job == "" || own.job == c.job) && (c.schedule == "" || own.schedule == c.schedule)
}

// Chooses tells whether anything is left out.
func (c *factChoice) Chooses() bool { return c.sifts() || !c.since.IsZero() || !c.until.IsZero() }

// sifts tells whether anything is left out between the times.
func (c *factChoice) sifts() bool { return c.FactFilter.Chooses() || c.asksTask() || c.actor != "" }

func showEvents(ctx context.Context, l *look) (any, error) {
	d := &eventsData{factsAsked: l.factsAsked(), Types: view.TypeNames()}
	c, err := d.choice(l.Now)
	if err != nil {
		d.fail(client.Wrong(err))
		return d, nil
	}
	d.Chosen = c.Chooses()
	before, _ := strconv.ParseUint(l.Asked("before"), 10, 64) // not a number means the end
	end := l.Point.Seq
	if before > 0 && before <= end {
		end = before - 1
	}
	d.First = before == 0
	if !c.until.IsZero() {
		p, found, err := l.Log.PointAt(ctx, view.Moment{At: c.until})
		if err != nil || !found {
			d.fail(err)
			return d, nil
		}
		end = min(end, p.Seq)
	}
	d.fail(d.find(ctx, l, &c, end))
	if d.Next > 0 || d.Wrong != nil {
		return d, nil
	}
	if _, there, err := l.Log.PointAt(ctx, view.Moment{Seq: 1}); err == nil && !there {
		if begins, err := l.Log.First(ctx); err == nil && begins > 1 {
			d.Begins = begins
		}
		var h client.Horizon
		if d.Begins > 0 && l.file == nil && !l.Past && l.site.server.Desk.Ask(ctx, l.caller.Name, rights.LogHorizon, struct{}{}, &h) == nil {
			d.Holds = cmp.Or(h.Held, h.Holds)
		}
	}
	return d, nil
}

// find reads the log backwards from a sequence, until the page is full or enough was read.
func (d *eventsData) find(ctx context.Context, l *look, c *factChoice, end uint64) error {
	known := map[task.ID]belongs{}
	of := func(r *events.Record) belongs {
		is, there := known[r.Fact.Task]
		if !there {
			if t, err := view.GetTask(ctx, l.View, r.Fact.Task); err == nil {
				is = belongs{t.QueueName(), t.Job, t.Schedule}
			}
			known[r.Fact.Task] = is
		}
		return is
	}
	if c.Task != "" { // its facts lie together
		records, err := view.All(ctx, l.View, view.Task(c.Task))
		if errors.Is(err, task.ErrUnknown) {
			err = nil
		}
		n := sort.Search(len(records), func(i int) bool { return records[i].Seq > end })
		d.sift(c, records[:n], of)
		return err
	}
	if c.traced() {
		if err := d.trace(ctx, l, c, end, of); !errors.Is(err, view.ErrUnindexed) {
			return err
		}
	}
	read, most := 0, uint64(readAtOnce)
	if !c.sifts() {
		most = shownEvents + 1 // they suffice, unless some are unreadable
	}
	for end > 0 {
		from := end - min(end, most) + 1
		records, err := answers.RecordsBetween(ctx, l.Log, from, end)
		if err != nil || !d.sift(c, records, of) {
			return err
		}
		if read += len(records); from > 1 && (read >= readEvents || len(known) >= askedTasks) {
			d.Next, d.Read = from, from
			return nil
		}
		end = from - 1
		if len(records) == 0 { // much of the log may have been deleted
			most = min(2*most, readAtOnce)
		}
	}
	return nil
}

// sift adds the chosen ones of records to the page, the last first, and tells whether it takes more.
func (d *eventsData) sift(c *factChoice, records []events.Record, of func(*events.Record) belongs) (more bool) {
	for i := range slices.Backward(records) {
		r := &records[i]
		switch {
		case !c.since.IsZero() && r.Stored.Before(c.since):
			return false
		case len(d.Rows) == shownEvents:
			d.Next = r.Seq + 1
			return false
		case c.wants(r, of):
			d.Rows = append(d.Rows, factRowOf(r))
		}
	}
	return true
}

// traced tells whether the choice leaves out what an index tells.
func (c *factChoice) traced() bool {
	return len(c.Types) > 0 || c.Node != "" || c.actor != "" || c.asksTask()
}

// trace reads the facts before a sequence that an index names.
func (d *eventsData) trace(ctx context.Context, l *look, c *factChoice, end uint64, of func(*events.Record) belongs) error {
	tracer, ok := l.Sums.(answers.Tracer)
	if !ok {
		return view.ErrUnindexed
	}
	asked := view.Trace{Types: c.Types, Node: c.Node, Queue: c.Queue, Job: c.job, Schedule: c.schedule, Actor: c.actor}
	for before, read := end+1, 0; ; {
		seqs, err := tracer.Traces(ctx, asked, before, shownEvents+1)
		if err != nil {
			return err
		}
		records, err := answers.RecordsAt(ctx, l.Log, seqs)
		if err != nil {
			return err
		}
		more := d.sift(c, records, func(r *events.Record) belongs {
			if view.RefOf(r).Kind != view.Tasks {
				return of(r)
			}
			return belongs{c.Queue, c.job, c.schedule} // the index knows
		})
		if !more || len(seqs) <= shownEvents {
			return nil
		}
		before = seqs[shownEvents]
		if read += len(seqs); read >= readTraced {
			d.Next, d.Read = before, before
			return nil
		}
	}
}

func factRowOf(r *events.Record) factRow {
	row := factRow{fact: factOf(r)}
	row.Thing, row.Link = aboutOf(r)
	return row
}

// aboutOf returns what a record is about, and the path of its page.
func aboutOf(r *events.Record) (thing string, link []string) {
	f := &r.Fact
	switch {
	case r.Err != nil || !r.IsFact():
		return r.Place, nil
	case f.Task != "":
		return "task " + f.Task.Short(), []string{"tasks", string(f.Task)}
	case f.Node != "":
		return "node " + string(f.Node), []string{"nodes", string(f.Node)}
	case f.Def.Kind() == task.DefJob:
		return "job " + f.Def.Name(), []string{"jobs", f.Def.Name()}
	case f.Def.Kind() == task.DefSchedule:
		return "schedule " + f.Def.Name(), []string{"schedules", f.Def.Name()}
	case f.Def.Kind() == task.DefCalendar:
		return "calendar " + f.Def.Name(), []string{"calendars", f.Def.Name()}
	case f.Def.Kind() == task.DefBundle:
		return "files " + f.Def.Name(), []string{"files", f.Def.Name()}
	case f.Def != "":
		return f.Def.Kind() + " " + f.Def.Name(), nil
	case f.Job != "":
		return "breaker of job " + f.Job, []string{"jobs", f.Job}
	case f.Queue != "":
		return "queue " + f.Queue, []string{"queues"}
	case f.Schedule != "":
		return "planned runs of schedule " + f.Schedule, []string{"schedules", f.Schedule}
	case f.Scope != "":
		return "limits of " + string(f.Scope), []string{"queues"}
	case f.Key != "":
		return "key " + f.Key, nil
	}
	return cmp.Or(f.About(), r.Place), nil
}

type eventData struct {
	factRow
	Stored  time.Time
	Subject string
	Corr    string
	Task    task.ID
	// Text is the message as it was written, and Error why it is unreadable.
	Text, Error string
	Causes      []causeRow
	CausesWrong panel
	Missing     []task.ID
	// Before and After are the neighbouring facts about the same thing.
	Before, After *factRow
}

// causeRow is a fact that led to another one.
type causeRow struct {
	Why string
	factRow
}

func showEvent(ctx context.Context, l *look) (any, error) {
	seq, err := strconv.ParseUint(l.r.PathValue("seq"), 10, 64)
	if err != nil || seq == 0 {
		return nil, client.Wrongf("%q is no sequence of the log", l.r.PathValue("seq"))
	}
	records, err := l.Log.Page(ctx, seq, 1)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 || records[0].Seq != seq || seq > l.Point.Seq && l.Past {
		return nil, fmt.Errorf("message %d: %w", seq, client.ErrNoMessage)
	}
	r := &records[0]
	l.Title = fmt.Sprintf("Fact #%d", seq)
	d := &eventData{factRow: factRowOf(r), Stored: r.Stored, Subject: r.Place, Corr: r.Fact.Corr, Task: r.Fact.Task, Text: rawText(r.Raw), Error: r.Unreadable()}
	d.CausesWrong.fail(d.findCauses(ctx, l, r))
	return d, nil
}

// findCauses finds what led to a fact: on the chain of its thing, and for a task also what led to
// its state then.
func (d *eventData) findCauses(ctx context.Context, l *look, r *events.Record) error {
	ref := view.RefOf(r)
	if ref.Kind == 0 || ref.Kind == view.Nodes && node.ID(ref.ID).Validate() != nil {
		return nil
	}
	chain, err := view.All(ctx, l.View, ref)
	if err != nil {
		return err
	}
	for i := range chain {
		switch row := factRowOf(&chain[i]); {
		case chain[i].Seq < r.Seq:
			d.Before = &row
		case chain[i].Seq > r.Seq && d.After == nil:
			d.After = &row
		}
		if r.Fact.Cause != "" && chain[i].Fact.ID == r.Fact.Cause {
			d.Causes = append(d.Causes, causeRow{"the fact that it names as its cause", factRowOf(&chain[i])})
		}
	}
	if ref.Kind != view.Tasks {
		return nil
	}
	led, err := view.Chain(ctx, l.View, task.ID(ref.ID))
	if err != nil {
		return err
	}
	d.Missing = led.Missing
	for i := range led.Of {
		c := &led.Of[i]
		if c.Seq < r.Seq && !slices.ContainsFunc(d.Causes, func(had causeRow) bool { return had.Seq == c.Seq }) {
			d.Causes = append(d.Causes, causeRow{c.Why, factRowOf(&c.Record)})
		}
	}
	slices.SortStableFunc(d.Causes, func(a, b causeRow) int { return cmp.Compare(a.Seq, b.Seq) })
	d.Causes = d.Causes[max(len(d.Causes)-shownCauses, 0):]
	return nil
}
