package pages

import (
	"context"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/output"
)

var taskPage = page{name: "task", path: "/tasks/{id}", verb: rights.TaskGet, show: showTask, inFiles: true}

// Bounds of what the page of a task shows.
const (
	shownLines   = 200
	shownRecords = 50
	shownFacts   = 200
)

type taskData struct {
	task.Task
	Why      *view.Explanation
	Duty     *dutySaid
	WhyWrong panel
	Live     *output.Live
	Lanes    []lane
	From, To time.Time
	// Graph is its steps and children; nil for a task without, and what is wrong with it.
	Graph      *graphData
	GraphWrong panel
	// Good is the run of its job before it that ended well; nil for none.
	Good  *task.Task
	Tries []task.Try
	Late  []wording.LateWord
	Facts []fact
	Steps list[task.Taken]
	// Older is how many facts are not shown.
	Older   int
	Output  outputPanel
	Records recordsPanel
	// Says is why it is in its state.
	Says    string
	Buttons []button
}

// lane is a line of the timeline, its bars in thousandths of the whole.
type lane struct {
	Name  string
	State task.State
	Took  time.Duration
	Bars  []bar
	// Waits are the thin bars of a lane of a whole; Link are the parts of the path to its task.
	Waits []bar
	Link  []string
	// Skipped says that it never ran.
	Skipped bool
}

type bar struct {
	X, Width float64
	Title    string
	State    string // whose colour it has, if not its line's
}

// span is the time of the lanes of a timeline.
type span struct{ from, to time.Time }

// bar is the part of it between two times, at least so wide.
func (s span) bar(from, to time.Time, least float64, title string) bar {
	at := func(t time.Time) float64 {
		return float64(t.Sub(s.from)) / float64(max(s.to.Sub(s.from), time.Millisecond)) * 1000
	}
	x := min(at(from), 1000-least)
	return bar{X: x, Width: max(at(to)-x, least), Title: title}
}

// axisOf are the quarters of a time, as spans since it began.
func axisOf(from, to time.Time) (quarters []time.Duration) {
	for i := range 5 {
		quarters = append(quarters, to.Sub(from)*time.Duration(i)/4)
	}
	return quarters
}

// fact is a fact about the task.
type fact struct {
	Seq                      uint64
	At                       time.Time
	Type, About, Says, Actor string
}

func showTask(ctx context.Context, l *look) (any, error) {
	id, err := taskIn(l.r)
	if err != nil {
		return nil, err
	}
	records, err := view.All(ctx, l.View, view.Task(id))
	if err != nil {
		return nil, err
	}
	d := &taskData{Task: events.FoldTask(id, records), Tries: wording.Tries(records), Late: wording.LateWords(records)}
	d.Says = wording.Said(&d.Task)
	l.Title = "Task " + id.Short()
	if d.Job != "" {
		l.Title += " of " + d.Job
	}
	if l.May(string(rights.TaskWhy)) {
		if d.Why, err = view.Why(ctx, l.View, id, l.Rules); err == nil {
			d.Duty = dutyOf(d.Why, l)
		}
		d.WhyWrong.fail(err)
	}
	if live, err := l.Sight.Live(ctx, id); err == nil && live.Epoch == d.Epoch && d.Task.Live() {
		d.Live = &live
	}
	d.timeline(view.Phases(records, l.Now), wording.StepPhases(d.Durable, l.Now))
	printed := d.graph(ctx, l)
	d.Good, _ = l.lastGood(ctx, &d.Task) // where lists cannot tell, the head says less
	d.Steps.columns = wording.StepColumns(l.Now)
	d.Steps.Rows = d.Durable.Taken()
	if l.May(string(rights.TaskEvents)) {
		d.Facts, d.Older = factsOf(records)
	}
	d.Buttons = l.buttons("tasks", string(id), &d.Task)
	if l.Live {
		return d, nil // the rest has its own stream, or does not change
	}
	of := &d.Task
	if len(printed) == 1 {
		of = &printed[0].Task
	}
	if len(printed) > 1 {
		d.Output.interleave(ctx, l, printed)
	} else if err := d.Output.find(ctx, l, of); err != nil {
		return nil, err
	}
	d.Records.find(ctx, l, &d.Task)
	return d, nil
}

// graph reads the steps and children of a task, which take the place of its own timeline if it has one of none
// but waits. It returns the tasks whose output stands beside them.
func (d *taskData) graph(ctx context.Context, l *look) (printed []*graphRow) {
	if d.Task.Children == nil && d.Durable == nil || !l.May(string(rights.TaskTree)) {
		return nil
	}
	g := &graphData{ID: d.ID, All: l.Asked("fold") == "none"}
	if g.Many = l.manyBelow(ctx, d.ID); g.Many {
		d.Graph = g
		return nil
	}
	if err := g.read(ctx, l, &d.Task, mostBeside); err != nil {
		d.GraphWrong.fail(err)
		return nil
	}
	d.Graph = g
	if d.Task.Children != nil && g.Large == 0 {
		g.gantt(l.Now)
		d.Lanes, d.From, d.To = g.Lanes, g.From, g.To
	}
	return g.choose(l.Asked("step"))
}

// Ended says how a task has ended, and after what time; "" if it has not, or never ran.
func (d *taskData) Ended(now time.Time) string {
	took := tookOf(&d.Task, now)
	if !d.State.Terminal() || took <= 0 {
		return ""
	}
	word := d.State.String()
	if d.State == task.Error {
		word = "failed"
	}
	return word + " after " + wording.Span(took)
}

// goodKey is a task at a moment.
type goodKey struct {
	id task.ID
	at string
}

// lastGood is [view.LastGood], asked once for a task at a moment.
func (l *look) lastGood(ctx context.Context, t *task.Task) (*task.Task, error) {
	return l.site.good.get(goodKey{t.ID, l.inFile() + " " + l.At}, func() (*task.Task, error) { return view.LastGood(ctx, l.View, t) })
}

// dutySaid says who must act next and how, by when, and what follows otherwise.
type dutySaid struct {
	Who     string // "" if nobody must act
	What    string
	By      time.Time
	Overdue bool
	Else    string
}

func dutyOf(e *view.Explanation, l *look) *dutySaid {
	switch {
	case e.LivesAgain:
		return &dutySaid{What: "The task has ended, and a retry of its parent asks for it again: the scheduler must reopen it"}
	case e.State == task.Error, e.State == task.Abnormal:
		return &dutySaid{What: "The task has failed, and Millrace does not run it again by itself. Retry runs it once more"}
	case e.State.Terminal():
		return &dutySaid{What: "The task has ended. Nothing is left to do"}
	}
	who, what := e.Who, e.What
	if e.Limits != nil {
		what = wording.LimitDuty(&e.Folded, e.Limits, l.Now)
	}
	if who == "server" {
		who = "The NATS server"
	}
	return &dutySaid{Who: who, What: what, By: e.By, Overdue: e.Overdue, Else: e.Else}
}

// timeline lays out phases, and the steps of a function.
func (d *taskData) timeline(phases, steps []view.Phase) {
	if len(phases) == 0 {
		return
	}
	d.From, d.To = phases[0].From, phases[len(phases)-1].To
	over := span{d.From, d.To}
	for _, of := range wording.Lanes(append(phases, steps...)) {
		row := lane{Name: of.Name, State: d.colourOf(&of.Phases[0]), Took: of.Took()}
		for _, p := range of.Phases {
			row.Bars = append(row.Bars, over.bar(p.From, p.To, 2, of.Name+": "+wording.Span(p.To.Sub(p.From))))
		}
		d.Lanes = append(d.Lanes, row)
	}
}

// colourOf returns the state whose colour a phase has: a run that has ended has that of its end.
func (d *taskData) colourOf(p *view.Phase) task.State {
	if p.Name != task.PhaseRun {
		return wording.PhaseState(p.Name)
	}
	if p.Attempt == 0 && d.State.Terminal() {
		return d.State // of a parent
	}
	outcome := ""
	for i := range d.Tries {
		// The phase names the fact that began it or one after that, and a retry may count attempts anew.
		if t := &d.Tries[i]; t.Attempt == p.Attempt && t.Epoch <= p.Seq {
			outcome = t.Outcome
		}
	}
	switch outcome {
	case task.TryFinished, task.TryParked:
		return task.Finished
	case task.TryFailed:
		return task.Error
	case task.TryCancelled, task.TryReleased:
		return task.Cancelled
	case task.TryLost, task.TryTakenOver, task.TryAbnormal:
		return task.Abnormal
	}
	return task.Running
}

// factsOf returns the latest facts, the newest first, and how many older ones there are.
func factsOf(records []events.Record) (facts []fact, older int) {
	for i := len(records) - 1; i >= 0 && len(facts) < shownFacts; i-- {
		facts = append(facts, factOf(&records[i]))
	}
	return facts, len(records) - len(facts)
}

func factOf(r *events.Record) fact {
	return fact{Seq: r.Seq, At: wording.FactTime(r), Type: wording.FactType(r), About: wording.AttemptAndNode(r), Says: wording.FactWords(r), Actor: wording.Actor(r)}
}
