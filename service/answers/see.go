package answers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Sight is the world at a moment, for callers that show more of it than one answer.
type Sight struct {
	view.View
	// Sums are of the same place in the log.
	Sums view.Summed
	// Point is the place in the log that lists reflect, and Last where the log ends.
	Point view.Point
	Last  uint64
	// Past tells that the moment is in the past. Now is the time by which things are judged.
	Past bool
	Now  time.Time
	// Rules are the service's rules of judgement.
	Rules view.Rules
	// Log reads what no view holds.
	Log Log

	service *Service // nil for the past, and without a service
}

// Log is the log behind a view, and the printed output of tasks.
type Log interface {
	// Page returns at most most records from a sequence on; none behind the log's end.
	Page(ctx context.Context, from uint64, most int) ([]events.Record, error)
	// Messages returns the records at these sequences that exist, in no particular order.
	Messages(ctx context.Context, seqs []uint64) ([]events.Record, error)
	// PointAt returns the place of a moment; false if the log begins later.
	PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error)
	// First returns where the log begins; 1 if it is empty.
	First(ctx context.Context) (uint64, error)
	// Printout returns what a task has printed until a time; the zero time means now.
	Printout(ctx context.Context, id task.ID, until time.Time) (Printout, error)
	// Decisions returns the decisions on ticks of a schedule from a time on.
	Decisions(ctx context.Context, name string, from time.Time) ([]events.Record, error)
}

// fewRecords is how many records are read one by one. Before the NATS server sends a batch it counts
// how many messages follow in the log: it walks over all subjects of the first half of the log, or
// over a block, which it then unpacks anew for the batch.
const fewRecords = 128

// closeBy is how many times as many records are read at once rather than single ones.
const closeBy = 3

// RecordsAt returns the records at sequences, in the order of the log.
func RecordsAt(ctx context.Context, log Log, seqs []uint64) (found []events.Record, err error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	first, last := slices.Min(seqs), slices.Max(seqs)
	if len(seqs) > fewRecords && last-first < closeBy*uint64(len(seqs)) { // reading all is cheaper
		found, err = RecordsBetween(ctx, log, first, last)
		found = slices.DeleteFunc(found, func(r events.Record) bool { return !slices.Contains(seqs, r.Seq) })
	} else {
		found, err = log.Messages(ctx, seqs)
	}
	slices.SortFunc(found, func(a, b events.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return found, err
}

// RecordsBetween returns the records from one sequence to another.
func RecordsBetween(ctx context.Context, log Log, from, to uint64) (all []events.Record, err error) {
	if from <= to && to-from < fewRecords {
		seqs := make([]uint64, 0, fewRecords)
		for seq := from; seq <= to; seq++ {
			seqs = append(seqs, seq)
		}
		return RecordsAt(ctx, log, seqs)
	}
	for from <= to {
		records, err := log.Page(ctx, from, int(to-from+1)) // they are few
		if err != nil || len(records) == 0 {
			return all, err
		}
		for i := range records {
			if records[i].Seq > to {
				return append(all, records[:i]...), nil
			}
		}
		all = append(all, records...)
		from = records[len(records)-1].Seq + 1
	}
	return all, nil
}

// served is the log behind a service.
type served struct{ *client.Client }

func (s served) Page(ctx context.Context, from uint64, most int) ([]events.Record, error) {
	return s.Store().Page(ctx, from, most)
}

func (s served) First(ctx context.Context) (uint64, error) {
	records, err := s.Page(ctx, 1, 1)
	if err != nil || len(records) == 0 {
		return 1, err
	}
	return records[0].Seq, nil
}

func (s served) Messages(ctx context.Context, seqs []uint64) ([]events.Record, error) {
	return s.Log().Messages(ctx, seqs)
}

func (s served) Printout(ctx context.Context, id task.ID, until time.Time) (Printout, error) {
	p, err := s.Store().Printout(ctx, id, until)
	return Printout{p.Lines, p.Last, stored{s.Client, &p}}, err
}

// Bounds of what people and handlers are told of the output of a task.
const (
	toldLines = 10
	toldBytes = 300 // of a line
)

// Telling returns what handlers are told of a task that has ended: its last lines, and where it is on the pages,
// whose address is link.
func Telling(c *client.Client, link string) func(context.Context, task.ID) (lines []string, at string, err error) {
	return func(ctx context.Context, id task.ID) (lines []string, at string, err error) {
		if link != "" {
			at = link + "/tasks/" + string(id)
		}
		lines, err = LastLines(ctx, served{c}, id)
		return lines, at, err
	}
}

// LastLines returns the last lines that a task has printed, for whoever is told of its end.
func LastLines(ctx context.Context, log Log, id task.ID) (last []string, err error) {
	p, err := log.Printout(ctx, id, time.Time{})
	if err != nil || p.Lines == 0 {
		return nil, err
	}
	_, lines, err := p.Window(ctx, max(1, p.Lines-toldLines+1), toldLines)
	for i := range lines {
		last = append(last, value.Cut(lines[i].Text, toldBytes))
	}
	return last, err
}

// stored is a printout in the stream of output.
type stored struct {
	client *client.Client
	p      *client.Printout
}

func (s stored) Window(ctx context.Context, from, most int) (lead, lines []client.NumberedLine, err error) {
	return s.client.Store().Window(ctx, s.p, from, most)
}

func (s stored) Search(ctx context.Context, from, most int, back bool, m output.Match) (hits []client.NumberedLine, reached int, err error) {
	return s.client.Store().Search(ctx, s.p, from, most, back, m)
}

func (s served) Decisions(ctx context.Context, name string, from time.Time) ([]events.Record, error) {
	return s.Store().Decisions(ctx, name, from)
}

// See lets a caller look at the world at a moment: a sequence of the log or a time, "" for the
// present; a moment before the log's beginning is its beginning. It takes a place at the desk while look runs. [ProblemOf] explains the error.
func (d *Desk) See(ctx context.Context, caller, at string, look func(context.Context, *Sight) error) error {
	seat, err := d.sit(caller, len(at))
	if err != nil {
		return err
	}
	defer d.leave(seat)
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, seatKey{}, seat), patience)
	defer cancel()
	sight, err := d.service.as(caller).See(ctx, at)
	if err == nil {
		err = look(ctx, sight)
	}
	return d.blame(err)
}

func (s *Service) See(ctx context.Context, at string) (*Sight, error) {
	v, _, err := s.sight(ctx, at)
	if as[before](err) {
		first, bad := served{s.Client}.First(ctx)
		if bad != nil {
			return nil, bad
		}
		v, _, err = s.sight(ctx, strconv.FormatUint(first, 10))
	}
	if err != nil {
		return nil, err
	}
	is := &Sight{View: v, Sums: s.Model, Past: at != "", Now: s.now(), Log: served{s.Client}, service: s}
	if is.Last, err = s.Client.Last(ctx); err != nil {
		return nil, err
	}
	if is.Past {
		is.Sums, _ = v.(view.Summed) // it is a [view.Whole]
		if is.Point, err = v.Point(ctx); err != nil {
			return nil, err
		}
		is.Now = is.Point.At
	} else {
		is.Point = view.Point{Seq: s.Model.Reached(), At: is.Now}
	}
	is.Rules = s.rulesAt(at, is.Now)
	return is, nil
}

func (s *Service) rules(now time.Time) view.Rules {
	return view.Rules{Task: s.Rules, Node: s.Nodes, Now: now, Holders: holders}
}

// rulesAt are the rules for a moment that a request asks about, "" for the present, which was at a
// time.
func (s *Service) rulesAt(at string, now time.Time) view.Rules {
	r := s.rules(now)
	if at == "" {
		r.Task.Watched = s.watched()
	}
	return r
}

// Rules returns the service's rules at a time.
func (d *Desk) Rules(now time.Time) view.Rules { return d.service.rules(now) }

// Live returns the progress that a task's program last reported; its epoch is 0 if it never did,
// and for the past.
func (s *Sight) Live(ctx context.Context, id task.ID) (output.Live, error) {
	if s.Past {
		return output.Live{}, nil
	}
	return s.service.Client.Live(ctx, id)
}

// Printout gives access to the lines that a task has printed up to a moment, numbered from 1.
type Printout struct {
	// Lines is the number of the last one.
	Lines int
	// Last is the sequence of the last message, 0 for none: a follower goes on after it.
	Last uint64
	Printed
}

// Printed reads these lines.
type Printed interface {
	// Window returns at most most lines from a number on, and the lines before the first one in its
	// message.
	Window(ctx context.Context, from, most int) (lead, lines []client.NumberedLine, err error)
	// Search finds the next matching lines, at most most of them, from a number on, or with back
	// the one before it, until ctx ends. reached is the number of the last line that it looked at.
	Search(ctx context.Context, from, most int, back bool, m output.Match) (hits []client.NumberedLine, reached int, err error)
}

// searchFor bounds the time of a search; the next one continues where it ended.
const searchFor = 3 * time.Second

// Search is [Printed.Search] within searchFor.
func (p *Printout) Search(ctx context.Context, from, most int, back bool, m output.Match) (hits []client.NumberedLine, reached int, err error) {
	ctx, cancel := context.WithTimeout(ctx, searchFor)
	defer cancel()
	return p.Printed.Search(ctx, from, most, back, m)
}

// Printout finds the lines that a task has printed up to the moment of the sight.
func (s *Sight) Printout(ctx context.Context, id task.ID) (Printout, error) {
	until := time.Time{}
	if s.Past {
		until = s.Now
	}
	return s.Log.Printout(ctx, id, until)
}

// Kept returns roughly the first most records of one attempt of a task; more tells that there are others.
func (s *Sight) Kept(ctx context.Context, id task.ID, epoch uint64, most int) (items []json.RawMessage, more bool, err error) {
	err = s.service.Client.Store().KeptOf(ctx, []task.ID{id}, client.OutputStart{}, false, func(_ uint64, b output.Records) error {
		if b.Epoch != epoch {
			return nil
		}
		if len(items) >= most {
			more = true
			return errEnough
		}
		items = append(items, b.Items...)
		return nil
	})
	if more {
		err = nil
	}
	return items, more, err
}

// Overdue returns at most most tasks whose own deadline has passed, the longest overdue first, and
// none of the past.
func (s *Sight) Overdue(ctx context.Context, most int) (tasks []task.Task, err error) {
	if s.service == nil || s.service.Deadlines == nil {
		return nil, nil
	}
	ids, err := s.service.Deadlines.Due(ctx, s.Now, most)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		is, err := s.Get(ctx, view.Task(id))
		if err != nil {
			return nil, err
		}
		tasks = append(tasks, *is.Task)
	}
	return tasks, nil
}

// Ticks reports on the latest ticks of a schedule after one time and until another, at most most of
// them.
func (s *Sight) Ticks(ctx context.Context, of *schedule.Stored, since, until time.Time, most int) ([]client.TickReport, error) {
	at := view.Point{At: s.Now}
	if s.Past {
		at = s.Point
	}
	return client.TicksOf(ctx, s.Log.Decisions, s.View, at, of, since, until, most)
}

// Ask performs a verb of the service for a caller that may use it. request and into are the
// endpoint's types or their JSON forms; into may be nil.
func (d *Desk) Ask(ctx context.Context, caller string, verb rights.Verb, request, into any) error {
	return d.ask(ctx, &seat{desk: d, caller: caller}, verb, request, into)
}

// Act is [Desk.Ask] for one act on a task, of which the caller has been given no more: if the task is not, or no longer,
// as is says, the error wraps [task.ErrMovedOn].
func (d *Desk) Act(ctx context.Context, caller string, verb rights.Verb, request any, is func(*task.Task) bool) error {
	return d.ask(ctx, &seat{desk: d, caller: caller, while: is}, verb, request, nil)
}

func (d *Desk) ask(ctx context.Context, s *seat, verb rights.Verb, request, into any) error {
	body, err := value.JSON(request)
	if err != nil {
		return badRequest{err}
	}
	for _, e := range endpoints {
		if e.Verb != verb {
			continue
		}
		answer, err := d.seated(ctx, s, e, body)
		if err != nil || into == nil {
			return err
		}
		text, err := Encode(answer)
		if err != nil {
			return err
		}
		return json.Unmarshal(text, into)
	}
	return badRequest{fmt.Errorf("the service knows no %s", verb)}
}

// Again looks every so often until ctx ends. Of failures in a row it warns of the first, in the words of warning.
func Again(ctx context.Context, every time.Duration, log *slog.Logger, warning string, look func(context.Context) error) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	failing := false
	for {
		err := look(ctx)
		if err != nil && ctx.Err() == nil && !failing {
			log.Warn(warning, "error", err)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
