package wording

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/events"
	"millrace/internal/cli/term"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// Brief describes a task's state in a few words. A time in it is in UTC.
func Brief(t *task.Task) string {
	words := []string{t.State.String()}
	switch t.State {
	case task.Pending:
		if on, own := t.Route.Node(); own {
			words = append(words, "for node "+on)
		} else {
			words = append(words, "in queue "+t.QueueName())
		}
	case task.Scheduled, task.Retrying:
		words = append(words, "until "+value.Clock(t.Due.UTC()))
	case task.Running, task.Cancelling:
		if t.Epoch > 0 {
			words = append(words, "on "+t.Node)
		} else if t.Children != nil {
			words = append(words, fmt.Sprintf("as %d children", len(t.Children.Names)))
		}
	}
	if t.Attempt > 1 && t.Live() {
		words = append(words, fmt.Sprintf("(attempt %d)", t.Attempt))
	}
	return strings.Join(words, " ")
}

// Ending describes how a task ended, in one line.
func Ending(t *task.Task) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", t.ID, StateAndReason(t))
	if t.Attempt > 0 {
		fmt.Fprintf(&b, " on attempt %d at %s", t.Attempt, t.Node)
		if t.Ran > 0 {
			fmt.Fprintf(&b, " after %s", Span(t.Ran.Std()))
		}
	}
	if said := SaidHere(t); said != "" {
		if byPerson(t) { // the state stands before it
			said = strings.TrimPrefix(said, "cancelled ")
		}
		b.WriteString(": " + term.Printable(said))
	}
	return b.String()
}

// Said says why a task is in its state: of one that a person has cancelled who did, and why; else what its
// message says. Times in it are in UTC.
func Said(t *task.Task) string {
	text := view.Flat(t.Message)
	if !byPerson(t) {
		return text
	}
	who := "cancelled" + by(t.CancelAsked.By) + because(t.CancelAsked.Reason)
	if text == "" || text == t.CancelAsked.Reason {
		return who
	}
	return who + "; " + text
}

// SaidHere is [Said] with the times of Millrace on this machine's clock. Those of programs stay.
func SaidHere(t *task.Task) string {
	if t.State == task.Error || t.State == task.Retrying || t.Live() {
		return Said(t)
	}
	return Clocks(Said(t))
}

// Code is the code of a task's reason, beside which [Said] stands; "" if that says more.
func Code(t *task.Task) string {
	if byPerson(t) {
		return ""
	}
	return t.Reason
}

// byPerson tells whether a person has cancelled a task: a scheduler does so to the children of others.
func byPerson(t *task.Task) bool {
	return (t.State == task.Cancelled || t.State == task.Cancelling) && t.CancelAsked != nil && !events.IsPart(t.CancelAsked.By)
}

func by(actor string) string {
	if actor == "" {
		return ""
	}
	return " by " + actor
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// StateAndReason is the state with its reason code, for example error/exit.
func StateAndReason(t *task.Task) string { return State(t.State, t.Reason) }

// State leaves out reasons that say no more than the state.
func State(s task.State, code string) string {
	tells := s.Terminal() && code != value.User || s == task.Held
	if code == "" || !tells {
		return s.String()
	}
	return s.String() + "/" + code
}

// Phase names a phase: what was awaited, or which attempt was at work, and where.
func Phase(p *view.Phase) string {
	switch {
	case p.Attempt > 0:
		return fmt.Sprintf("%s %d on %s", p.Name, p.Attempt, p.Node)
	case p.Reason != "":
		return p.Name + "/" + p.Reason
	}
	return p.Name
}

// Retry describes a retry policy.
func Retry(r *job.Retry) string {
	text := fmt.Sprintf("up to %d", r.Max)
	if len(r.On) > 0 {
		text += ", on " + strings.Join(r.On, ", ")
	}
	if len(r.NotOn) > 0 {
		text += ", not on " + strings.Join(r.NotOn, ", ")
	}
	if r.AvoidNode {
		text += ", elsewhere"
		if r.AvoidWait > 0 {
			text += " for up to " + r.AvoidWait.String()
		}
	}
	if r.Budget > 0 {
		text += ", within " + r.Budget.String()
	}
	return text
}

// Tries returns the attempts in the facts of a task.
func Tries(records []events.Record) []task.Try {
	history := make([]task.Recorded, len(records))
	for i := range records {
		history[i] = records[i].Task()
	}
	return task.Tries(history)
}

// Keep says how long a task and what it leaves is kept; "" if it does not say.
func Keep(k job.Keep) string {
	var parts []string
	for _, f := range []struct {
		name string
		d    value.Duration
	}{
		{"finished", k.Finished}, {"error", k.Error}, {"cancelled", k.Cancelled}, {"abnormal", k.Abnormal}, {"all", k.All},
		{"done", k.Done}, {"failed", k.Failed}, {"logs", k.Logs},
	} {
		if f.d > 0 {
			parts = append(parts, f.name+" "+f.d.String())
		}
	}
	return strings.Join(parts, ", ")
}

// Resources describes the bounds of a task's processes; "" for none.
func Resources(r job.Resources) string {
	var parts []string
	say := func(there bool, format string, v any) {
		if there {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	say(r.Memory > 0, "memory %v", r.Memory)
	say(r.CPU > 0, "cpu %g", r.CPU)
	say(r.PIDs > 0, "pids %d", r.PIDs)
	say(r.FileSize > 0, "file_size %v", r.FileSize)
	say(r.Output > 0, "output %v", r.Output)
	return strings.Join(parts, ", ")
}

// Dismissal says who dismissed a task, when and why; "" if it was not dismissed.
func Dismissal(d *task.Dismissal, now time.Time) string {
	if d == nil {
		return ""
	}
	return Words("by "+d.By+" "+Moment(d.At, now), d.Reason)
}

// SuspectField says that the node of a task is in doubt.
func SuspectField(t *term.Table, d *node.Doubt) {
	if d != nil {
		t.Add(term.Dim("suspect"), term.Tinted(Clocks(d.String()), term.Yellow))
	}
}

// StateCell is the state of a task.
func StateCell(s task.State) term.Cell {
	return term.Tinted(s.String(), map[task.State]term.Colour{
		task.Running: term.Blue, task.Retrying: term.Yellow, task.Cancelling: term.Yellow, task.Cancelled: term.Yellow,
		task.Finished: term.Green, task.Error: term.Red, task.Abnormal: term.Purple,
	}[s])
}

// TaskRow is a task in a list, with what the list says of it.
type TaskRow struct {
	task.Task
	// Says is how far it is, why it ended, or what it waits for, and Depth how far it stands below others.
	Says  string
	Depth int
	// Doubt tells that its node may be lost ("suspect"), or that no node takes it ("unserved").
	Doubt string
}

// TaskRowOf is a task of a page, with what the page knows of it beside the log.
func TaskRowOf(page *client.ListPage, t *task.Task) TaskRow {
	row := TaskRow{Task: *t}
	if doubt := page.Suspects[t.ID]; doubt != nil {
		row.Says, row.Doubt = doubt.String(), "suspect"
	} else if why := page.Unserved[t.ID]; why != "" {
		row.Says, row.Doubt = why, "unserved"
	} else if live := page.Live[t.ID]; live != nil {
		row.Says = strings.TrimSpace(live.Text())
	} else if whole := page.Wholes[t.ID]; whole != nil {
		row.Says = whole.Text()
	}
	return row
}

// stateOf is the state of a task with its reason, and what puts it in doubt.
func stateOf(r *TaskRow) term.Cell {
	c := StateCell(r.State)
	if c.Text = StateAndReason(&r.Task); r.Doubt != "" {
		return term.Tinted(c.Text+", "+r.Doubt, term.Yellow)
	}
	return c
}

// TaskColumns are those of lists of tasks, at a moment, in the order of files. short is how a terminal shows an id.
func TaskColumns(now time.Time, short func(task.ID) string) []term.Column[TaskRow] {
	type row = *TaskRow
	type column = term.Column[TaskRow]
	text := func(title string, of func(row) string) column { return term.Text(title, 0, of) }
	when := func(title string, at func(row) time.Time) column { return ages(title, 0, now, at) }
	filed := func(c column, of func(row) string) column { c.File = of; return c }
	named := func(name string, c column) column { c.Name = name; return c }
	return []column{
		filed(term.Tints("STATE", 0, stateOf), func(r row) string { return r.State.String() }),
		filed(text("ID", func(r row) string { return short(r.ID) }), func(r row) string { return string(r.ID) }),
		filed(text("WHAT", func(r row) string { return strings.Repeat("  ", r.Depth) + term.Cut(r.What(), 40) }), func(r row) string {
			if r.Spec != nil {
				return r.Spec.Text()
			}
			return r.Job
		}),
		text("JOB", func(r row) string { return r.Job }),
		text("STEP", func(r row) string { return r.Step }),
		text("WHY", func(r row) string { return strings.TrimSpace(Code(&r.Task) + " " + r.Says) }),
		named("attempt", term.Number("TRY", 1, func(r row) string { return unlessZero(r.Attempt, strconv.Itoa) })),
		term.Text("NODE", 4, func(r row) string { return r.Node }),
		filed(term.Text("QUEUE", 2, func(r row) string { return r.WaitsIn() }), func(r row) string { return r.QueueName() }),
		term.Number("PRIORITY", 0, func(r row) string { return strconv.Itoa(r.Route.Priority()) }),
		text("LABELS", func(r row) string { return Pairs(r.Labels) }),
		named("params", text("PARAMETERS", func(r row) string { return string(r.Params) })),
		text("SCHEDULE", func(r row) string { return r.Schedule }),
		text("PARENT", func(r row) string { return string(r.Parent) }),
		text("BATCH", func(r row) string { return r.Batch }),
		when("SUBMITTED", func(r row) time.Time { return r.SubmittedAt }),
		when("STARTED", func(r row) time.Time { return r.StartedAt }),
		when("ENDED", func(r row) time.Time { return r.EndedAt }),
		named("ran", term.Number("RAN, S", 0, func(r row) string {
			return unlessZero(r.Ran.Std().Seconds(), func(s float64) string { return strconv.FormatFloat(s, 'f', 3, 64) })
		})),
		term.Number("EXIT", 0, func(r row) string {
			if r.Exit == nil {
				return ""
			}
			return strconv.Itoa(*r.Exit)
		}),
		text("RESULT", func(r row) string { return string(r.Result) }),
		when("SINCE", func(r row) time.Time { return r.Since }),
	}
}

// MessageColumns are those of lists of messages that cannot be read.
var MessageColumns = []term.Column[client.Unreadable]{
	term.Text("MESSAGE", 0, func(m *client.Unreadable) string { return strconv.FormatUint(m.Seq, 10) }),
	term.Text("SUBJECT", 0, func(m *client.Unreadable) string { return m.Place }),
	term.Text("WHY", 0, func(m *client.Unreadable) string { return term.Cut(m.Reason, 80) }),
}
