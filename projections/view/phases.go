package view

import (
	"time"

	"millrace/events"
	"millrace/task"
)

// Phase is a period of a task's life in which it waited for one condition, or one attempt worked.
type Phase struct {
	// Name is the state in which it waited, or [task.PhaseSetup], [task.PhaseRun] or
	// [task.PhaseStop].
	Name string `json:"phase"`
	// Reason is the code of the wait: the rule that held the task, or the failure before the
	// back-off.
	Reason string `json:"reason,omitempty"`
	// Attempt and Node are those of the working attempt; a parent runs without one.
	Attempt int       `json:"attempt,omitempty"`
	Node    string    `json:"node,omitempty"`
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	// Seq is the fact that began the phase, or reported it.
	Seq uint64 `json:"seq"`
}

// is tells whether two phases have the same name, reason, attempt and node.
func (p *Phase) is(o *Phase) bool {
	return p.Name == o.Name && p.Reason == o.Reason && p.Attempt == o.Attempt && p.Node == o.Node
}

// Phases returns the phases of a task by its facts, from its birth to its end, or to now if it has
// not ended. Each begins where the one before it ends, regardless of the writers' clocks. The time
// between an end and a reopening is a phase as well. The durations of an attempt's setup and stop
// are known once it has ended.
func Phases(records []events.Record, now time.Time) []Phase {
	var all []Phase
	var t task.Task
	attempt := 0 // where the phases of the present attempt begin
	for i := range records {
		r := records[i].Task()
		was := t
		t = task.Evolve(t, r)
		if t.State == task.Unknown {
			continue
		}
		if was.Live() && (!t.Live() || t.Epoch != was.Epoch) {
			all = append(all[:attempt], measured(all[attempt:], t.Usage, t.Since)...)
		}
		next := phaseOf(&t)
		if next.Seq = r.Seq; t.Epoch != was.Epoch || !was.Live() {
			attempt = len(all)
		}
		if n := len(all); n == 0 || !all[n-1].is(&next) {
			all = append(all, next)
		}
	}
	if n := len(all); n > 0 && t.State.Terminal() {
		all, now = all[:n-1], all[n-1].From
	}
	return adjoin(all, now)
}

// phaseOf is the present phase of a task.
func phaseOf(t *task.Task) Phase {
	p := Phase{Name: t.State.String(), From: t.Since}
	switch t.State {
	case task.Running, task.Cancelling:
		if p.Name = task.PhaseRun; t.State == task.Cancelling {
			p.Name = task.PhaseStop
		}
		if t.Epoch > 0 {
			p.Attempt, p.Node = t.Attempt, t.Node
		}
	case task.Pending: // whatever preceded, it waits for a node
	default:
		p.Reason = t.Reason
	}
	return p
}

// measured divides the phases of an ended attempt by its worker's measurements: setup, run, and a
// stop if it was asked to end.
func measured(attempt []Phase, u *task.Usage, end time.Time) []Phase {
	if u == nil || u.Setup+u.Stop == 0 || len(attempt) == 0 {
		return attempt
	}
	setup, run, stop := attempt[0], attempt[0], attempt[len(attempt)-1]
	setup.Name, run.Name = task.PhaseSetup, task.PhaseRun
	run.From = setup.From.Add(u.Setup.Std())
	if stop.Name != task.PhaseStop {
		stop.Name, stop.From = task.PhaseStop, end
	}
	if ended := run.From.Add(u.Run.Std()); u.Stop > 0 && ended.Before(stop.From) {
		stop.From = ended
	}
	return []Phase{setup, run, stop}
}

// adjoin makes each phase end where the next one begins, within birth and end. It omits phases
// without duration, except runs: attempts count, however short.
func adjoin(all []Phase, end time.Time) []Phase {
	if len(all) == 0 {
		return nil
	}
	last := all[0].From
	if end.Before(last) {
		end = last
	}
	for i := range all {
		last = earlier(later(all[i].From, last), end)
		all[i].From = last
	}
	var whole []Phase
	for i := range all {
		p := all[i]
		if p.To = end; i+1 < len(all) {
			p.To = all[i+1].From
		}
		switch n := len(whole); {
		case n > 0 && whole[n-1].is(&p):
			whole[n-1].To = p.To
		case p.From.Before(p.To) || p.Name == task.PhaseRun:
			whole = append(whole, p)
		}
	}
	return whole
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
