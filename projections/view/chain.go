package view

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Cause is a fact that led to a task's present state.
type Cause struct {
	// Why names its role for the task, in a word or two.
	Why string
	events.Record
}

// Causes are the facts that led to a task's present state, in the order of the log.
type Causes struct {
	Of []Cause
	// Left is how many are left out, between the first and the latest ones of each task.
	Left int
	// Missing are tasks among its origins without facts in the log.
	Missing []task.ID
}

const (
	// maxCauses is how many causes a task contributes, and maxLineage how many ancestors do:
	// parents, originals of copies, and the tasks whose ends made others.
	maxCauses  = 20
	maxLineage = 20
)

// Chain finds the causes of a task's state: from its schedule or submitter, through its parents and
// the tasks of which it is a copy, its needs, attempts, retries and takeovers. For its ancestors,
// only earlier facts count. The error wraps [task.ErrUnknown] if there is no such task.
func Chain(ctx context.Context, v View, id task.ID) (*Causes, error) {
	c := &Causes{}
	until := uint64(0)
	for n := 0; id != "" && n < maxLineage; n++ {
		records, err := All(ctx, v, Task(id))
		if n > 0 && (unknown(err) || err == nil && records[0].Seq > until) {
			c.Missing = append(c.Missing, id)
			break
		}
		if err != nil {
			return nil, err
		}
		if n > 0 {
			records = slices.DeleteFunc(records, func(r events.Record) bool { return r.Seq > until })
		}
		t := events.FoldTask(id, records)
		led := steps(records)
		if len(led) > maxCauses {
			c.Left += len(led) - maxCauses
			led = append(led[:1:1], led[len(led)-maxCauses+1:]...)
		}
		c.Of = append(c.Of, led...)
		if len(led) == 0 {
			break
		}
		if err := c.outside(ctx, v, &t, records); err != nil {
			return nil, err
		}
		id, until = cmp.Or(t.Parent, t.RetryOf, t.After), led[0].Seq
	}
	slices.SortStableFunc(c.Of, func(a, b Cause) int { return cmp.Compare(a.Seq, b.Seq) })
	c.Of = slices.CompactFunc(c.Of, func(a, b Cause) bool { return a.Seq == b.Seq })
	return c, nil
}

// outside adds causes that lie on no ancestor's chain: the schedule, the decision on its tick, the
// ends of its needs.
func (c *Causes) outside(ctx context.Context, v View, t *task.Task, records []events.Record) error {
	birth, last := records[0].Seq, records[len(records)-1].Seq
	if t.Schedule != "" && t.Parent == "" && t.RetryOf == "" {
		defined, err := All(ctx, v, Definition(task.Named(task.DefSchedule, t.Schedule)))
		if err != nil {
			return err
		}
		c.latest("schedule", defined, func(r *events.Record) bool {
			_, applied := r.Fact.Event.(task.DefinitionApplied)
			return applied && r.Seq < birth
		})
		decided, err := All(ctx, v, Tick(t.Schedule, t.Tick))
		if err != nil {
			return err
		}
		c.latest("tick", decided, func(r *events.Record) bool { return r.Seq < birth })
	}
	if t.Needs == nil || slices.Contains(t.Holds, task.HoldNeeds) {
		return nil
	}
	for _, need := range t.Needs.Of[:min(len(t.Needs.Of), lookedFor)] {
		needed, err := All(ctx, v, Task(need.Task))
		switch {
		case unknown(err):
			c.Missing = append(c.Missing, need.Task)
		case err != nil:
			return err
		default:
			var k task.Task
			c.latest("need met", needed, func(r *events.Record) bool {
				was := k.State
				k.Apply(r.Task())
				return r.Seq < last && k.State.Terminal() && !was.Terminal()
			})
		}
	}
	return nil
}

// latest adds the last record that counts, if there is one.
func (c *Causes) latest(why string, records []events.Record, counts func(*events.Record) bool) {
	var last *events.Record
	for i := range records {
		if counts(&records[i]) {
			last = &records[i]
		}
	}
	if last != nil {
		c.Of = append(c.Of, Cause{why, *last})
	}
}

// steps returns the facts that changed a task, the birth first.
func steps(records []events.Record) (led []Cause) {
	var t task.Task
	for i := range records {
		was := t
		t = task.Evolve(t, records[i].Task())
		if why := stepOf(&was, &t, &records[i]); why != "" {
			led = append(led, Cause{why, records[i]})
		}
	}
	return led
}

// stepOf names the role of a fact that changed a task's state; "" if it changed nothing.
func stepOf(was, is *task.Task, r *events.Record) string {
	moved := was.State != is.State || was.Epoch != is.Epoch || was.Turn != is.Turn
	switch e := r.Fact.Event.(type) {
	case task.Submitted:
		switch {
		case was.State != task.Unknown:
			return ""
		case is.Parent != "":
			return "child"
		case is.RetryOf != "":
			return "copy"
		}
		return "submitted"
	case task.Kept:
		if was.State == task.Unknown {
			return "carried"
		}
		return ""
	case task.Queued, task.Due:
		if was.State == is.State {
			return ""
		}
		return "offered"
	case task.AttemptStarted:
		switch {
		case !moved:
			return ""
		case e.TookOver != nil:
			return "takeover"
		}
		return "attempt"
	case task.Expanded:
		return "expanded"
	case task.Reopened:
		if moved {
			return "another life"
		}
		return ""
	}
	switch {
	case !moved:
		return ""
	case is.State.Terminal():
		return "end"
	case is.State == task.Retrying:
		return "retry"
	case was.Live() && is.State == task.Cancelling:
		return "stop asked"
	case was.Live():
		return "put back"
	case was.State == task.Held:
		return "opened"
	}
	return "moved"
}

// Tick names the tick of a schedule. A decision on several ticks is about each of them.
func Tick(name string, tick time.Time) Ref {
	return Ref{Decisions, name + " " + tick.UTC().Format(time.RFC3339Nano)}
}

// TickOf returns the schedule and the tick that a reference names.
func TickOf(ref Ref) (name string, tick time.Time, err error) {
	name, text, _ := strings.Cut(ref.ID, " ")
	if tick, err = time.Parse(time.RFC3339Nano, text); err != nil {
		err = wrong{fmt.Errorf("%s: %w", ref, value.Plainly(err))}
	}
	return name, tick, err
}

// isAbout tells whether a record is about the referenced subject.
func isAbout(ref Ref, r *events.Record) bool {
	if ref.Kind != Decisions {
		return RefOf(r) == ref
	}
	name, tick, err := TickOf(ref)
	return err == nil && r.Kind == events.KindTick && r.Fact.Schedule == name && schedule.Decides(r.Fact.Event, tick)
}
