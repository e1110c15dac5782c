package pages

import (
	"cmp"
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
)

var (
	comparePage = page{name: "compare", path: "/tasks/{id}/compare", verb: rights.TaskDiff, show: showComparison}
	diffPage    = page{name: "diff", path: "/diff", verb: rights.LogDiff, show: showDifference}
)

type comparison struct {
	Of   task.Task
	With task.ID
	// From and Until are moments of the task, if it is compared with itself.
	From, Until string
	// Offered tells that nobody chose what it is compared with.
	Offered bool
	// Changes are the fields that differ, and Always those of them that do so between any two runs.
	Changes, Always []view.Change
	Wrong           string
	Asked           bool
	// Printed is what both tasks have printed last; marked are the lines of which the other one has none.
	Printed []outputPanel
	// Runs are tasks like it, the newest first, and Moments are facts about it.
	Runs      []like
	RunsWrong panel
	Moments   []fact
}

// like is a task with which another one may be compared.
type like struct {
	task.Task
	// Is is what it is to the other one, such as the previous run; "" for nothing special.
	Is string
}

// Bounds of what is offered for a comparison.
const (
	shownLater   = 3 // runs after the task
	shownEarlier = 5
	shownMoments = 10
)

// showComparison shows how a task differs from another one, or from its past: unless the caller says
// otherwise from the moment of the page, from the last good run if it has failed, or from the run before.
func showComparison(ctx context.Context, l *look) (any, error) {
	id, err := taskIn(l.r)
	if err != nil {
		return nil, err
	}
	l.Title = "Compare task " + id.Short()
	d := &comparison{From: l.Asked("from"), Until: l.Asked("until")}
	if l.Live {
		return d, nil // it does not change by itself
	}
	if d.Of, err = view.GetTask(ctx, l.View, id); err != nil {
		return nil, err
	}
	if l.May(string(rights.TaskEvents)) {
		records, err := view.All(ctx, l.View, view.Task(id))
		if err != nil {
			return nil, err
		}
		facts, _ := factsOf(records)
		d.Moments = facts[:min(len(facts), shownMoments)]
	}
	d.Runs, err = runsLike(ctx, l.View, &d.Of)
	d.RunsWrong.fail(err)
	if good, err := l.lastGood(ctx, &d.Of); err == nil && good != nil {
		i := slices.IndexFunc(d.Runs, func(run like) bool { return run.ID == good.ID })
		if i < 0 {
			i, d.Runs = len(d.Runs), append(d.Runs, like{Task: *good})
		}
		if d.Runs[i].Is == "" || d.Of.State.Failed() {
			d.Runs[i].Is = lastGoodRun
		}
	}
	with := strings.TrimSpace(l.Asked("with"))
	if with == "" && d.From == "" {
		with = d.offer(l)
	}
	if d.Asked = with != "" || d.From != ""; d.Asked {
		if err := d.compare(ctx, l, with); err != nil {
			d.Wrong = err.Error()
		}
	}
	return d, nil
}

// compare compares the task with another one, as of the moment of the page, or with itself at another
// moment.
func (d *comparison) compare(ctx context.Context, l *look, with string) (err error) {
	if with == "" {
		request := map[string]string{"id": string(d.Of.ID), "at": d.From}
		if d.Until != "" {
			request["until"] = d.Until
		}
		var answer struct{ Changes []view.Change }
		err = l.ask(ctx, rights.TaskDiff, request, &answer)
		d.Changes = answer.Changes
		return err
	}
	if d.With, err = l.taskNamed(ctx, with); err != nil {
		return err
	}
	other, err := view.GetTask(ctx, l.View, d.With)
	if err != nil {
		return err
	}
	all, err := view.DiffItems(view.Item{Task: &d.Of}, view.Item{Task: &other})
	d.Changes, d.Always = view.Telling(all)
	if err != nil || !l.May(string(rights.TaskOutput)) {
		return err
	}
	d.Printed = make([]outputPanel, 2)
	for i, t := range []*task.Task{&d.Of, &other} {
		of := []*graphRow{{Task: *t}}
		if t.Children != nil {
			g := &graphData{ID: t.ID}
			if err := g.read(ctx, l, t, mostBeside); err != nil {
				return err
			}
			of = g.printing(0)
		}
		d.Printed[i].interleave(ctx, l, of)
		d.Printed[i].Of = *t
	}
	markOwn(d.Printed[0].Lines, d.Printed[1].Lines)
	return nil
}

// digits are what lines may differ in.
var digits = regexp.MustCompile(`[0-9]+`)

// markOwn marks the lines of each side of which the other side has none but for numbers.
func markOwn(a, b []line) {
	in := func(lines []line) map[string]bool {
		all := map[string]bool{}
		for i := range lines {
			all[digits.ReplaceAllString(lines[i].Text, "0")] = true
		}
		return all
	}
	ofA, ofB := in(a), in(b)
	for _, side := range []struct {
		lines []line
		other map[string]bool
	}{{a, ofB}, {b, ofA}} {
		for i := range side.lines {
			side.lines[i].Mark = !side.other[digits.ReplaceAllString(side.lines[i].Text, "0")]
		}
	}
}

// Other is what the other task is to it, such as the last good run; "" for nothing special.
func (d *comparison) Other() string {
	i := slices.IndexFunc(d.Runs, func(run like) bool { return run.ID == d.With })
	if i < 0 {
		return ""
	}
	return d.Runs[i].Is
}

// offer chooses what the task is compared with: itself since the moment of the page, the last good run if it has
// failed, or the previous run; nothing if there is none.
func (d *comparison) offer(l *look) (with string) {
	if d.Offered = true; l.Past {
		d.From = strconv.FormatUint(l.Point.Seq, 10)
		return ""
	}
	for _, is := range []string{lastGoodRun, previousRun} {
		i := slices.IndexFunc(d.Runs, func(run like) bool { return run.Is == is })
		if i >= 0 && (is == previousRun || d.Of.State.Failed()) {
			return string(d.Runs[i].ID)
		}
	}
	return ""
}

const previousRun, lastGoodRun = "the previous run", "the last good run"

// runsLike finds the runs of a task's job before and after it, the newest first, and the task that it
// is a copy of. Runs like a step are the same step of other runs.
func runsLike(ctx context.Context, v view.View, t *task.Task) (all []like, err error) {
	whole, name := t, ""
	if t.Parent != "" {
		parent, err := view.GetTask(ctx, v, t.Parent)
		if err != nil {
			return nil, err
		}
		for child, id := range birth.ChildIDs(&parent) {
			if id == t.ID {
				whole, name = &parent, child
			}
		}
	}
	add := func(id task.ID, is string) error {
		if name != "" {
			id = birth.ChildID(id, name)
		}
		run, err := view.GetTask(ctx, v, id)
		if errors.Is(err, task.ErrUnknown) { // that run had no such step
			return nil
		}
		all = append(all, like{run, is})
		return err
	}
	for _, side := range []view.Filter{{OldestFirst: true, Limit: shownLater}, {Limit: shownEarlier}} {
		if side.Job, side.After, side.Roots = whole.Job, whole.ID, whole.Parent == ""; side.Job == "" {
			break
		}
		page, err := v.List(ctx, view.Query{Kind: view.Tasks, Filter: side})
		if err != nil {
			return all, err
		}
		is := previousRun
		if side.OldestFirst {
			is = "the next run"
		}
		for i := range page.Tasks {
			if err := add(page.Tasks[i].ID, is); err != nil {
				return all, err
			}
			is = ""
		}
		if side.OldestFirst {
			slices.Reverse(all)
		}
	}
	if of := t.RetryOf; of != "" && !slices.ContainsFunc(all, func(run like) bool { return run.ID == of }) {
		name = ""
		err = add(of, "the task that it copies")
	}
	return all, err
}

type differenceData struct {
	panel
	client.Difference
	// From is the asked moment. Queue and Job choose the tasks.
	From, Queue, Job string
	// Numbers are how many tasks were and are in each state.
	Numbers []stateNumbers
}

// stateNumbers are how many tasks were in a state, and are in it.
type stateNumbers struct {
	State   task.State
	Was, Is int
}

const (
	differsSince = 10 * time.Minute // before the page's moment, by default
	shownStepped = 50
)

// showDifference shows what has changed from a moment on up to that of the page.
func showDifference(ctx context.Context, l *look) (any, error) {
	l.Title = "What has changed"
	d := &differenceData{From: strings.TrimSpace(l.Asked("from")), Queue: l.Asked("queue"), Job: l.Asked("job")}
	if l.Live {
		return d, nil // it takes long, and does not change by itself
	}
	since, err := answers.MomentOf(cmp.Or(d.From, differsSince.String()), l.Now)
	if err == nil && d.From != view.End {
		p, found, err := l.Log.PointAt(ctx, since)
		if err == nil && !found { // the log is younger
			p.Seq, err = l.Log.First(ctx)
		}
		if err != nil {
			return nil, err
		}
		if d.From == "" || !found {
			d.From = strconv.FormatUint(p.Seq, 10)
		}
	}
	request := client.DiffRequest{At: d.From, Until: view.End, Queue: d.Queue, Job: d.Job, Limit: shownStepped}
	if l.Past {
		request.Until = strconv.FormatUint(l.Point.Seq, 10)
	}
	d.fail(l.ask(ctx, rights.LogDiff, request, &d.Difference))
	for _, s := range task.States() {
		if n, ok := d.Counts[s.String()]; ok {
			d.Numbers = append(d.Numbers, stateNumbers{s, n[0], n[1]})
		}
	}
	return d, nil
}
