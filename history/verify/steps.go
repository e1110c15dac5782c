package verify

import (
	"encoding/json"
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
)

// The steps of a function are made once (I-3): each fact that records some names the place of its first
// one, and only the attempt that runs records any. So no step is recorded twice, and none is left out.

// made are the steps that a task's function has done.
type made struct {
	failed []bool // for each step whether it failed
	open   bool   // the last one is tried again
	waits  *task.Park
	before *wants // the needs of the task itself, while it waits for children
}

// next is the place of the step that is done next.
func (m *made) next() int {
	if m.open {
		return len(m.failed) - 1
	}
	return len(m.failed)
}

func (m *made) add(failed, open bool) {
	m.failed, m.open = append(m.failed[:m.next():m.next()], failed), open
}

// steps returns what is known of the steps of a task; first is the place that a fact names, for a task whose
// beginning is not known.
func (s *story) steps(v *Verifier, first int) *made {
	if s.made == nil {
		s.made = &made{}
		if s.old || s.cut || !v.whole() {
			s.made.failed = make([]bool, min(max(first, 0), task.MaxSteps))
		}
	}
	return s.made
}

// stepped reads the steps of a fact of the running attempt.
func (s *story) stepped(v *Verifier, steps []task.Step, first int, r *events.Record) {
	m := s.steps(v, first)
	v.book.Checked[OneEpoch]++
	if len(steps) > 0 && first != m.next() {
		s.found(v, OneEpoch, []uint64{r.Seq}, "step %s is recorded as step %d, and %d were done before: each is made once", called(&steps[0]), first+1, m.next())
	}
	for i := range steps {
		m.add(steps[i].Error != "", steps[i].Open)
	}
}

func called(s *task.Step) string { return fmt.Sprintf("%s %q", s.Kind, s.Name) }

// remembers checks that the attempt which records steps is the one that runs.
func (s *story) remembers(v *Verifier, e *task.AttemptStepped, r *events.Record) {
	if !s.ran(v, r, e.Epoch, e.Attempt, false) {
		return
	}
	if s.open != e.Epoch && !s.cut {
		s.found(v, OneEpoch, []uint64{e.Epoch, r.Seq}, "%s of epoch %d, which does not run any more", r.Fact.Type, e.Epoch)
		return
	}
	s.stepped(v, e.Steps, e.First, r)
}

// parked ends an attempt whose function waits.
func (s *story) parked(v *Verifier, e *task.AttemptParked, r *events.Record) {
	if !s.ends(v, r, e.Epoch, e.Attempt, true) {
		return
	}
	s.stepped(v, e.Steps, e.First, r)
	park := e.Park
	s.steps(v, e.First).waits = &park
	due := park.Until
	switch park.Kind {
	case task.StepCall:
		s.made.before, s.kin.needs = s.kin.needs, v.tasks.wants(&task.Needs{Of: park.Of})
		due = time.Time{}
	case task.StepAwait:
		due = time.Time{}
	}
	s.waits(v, r, due)
	s.byOthers = s.byOthers && !due.IsZero() // whoever opens a hold offers it
}

// unparked ends the wait of the function, with the step behind it done if done is set.
func (s *story) unparked(done bool, inputs json.RawMessage) {
	if s.made == nil || s.made.waits == nil {
		return
	}
	m, park := s.made, s.made.waits
	if m.waits = nil; park.Kind == task.StepCall {
		m.before, s.kin.needs = nil, m.before
	}
	if done && park.Kind != task.StepDo {
		m.add(park.Kind == task.StepAwait && len(inputs) == 0, false)
	}
}

// triedAgain forgets a last step that failed, when its attempt has.
func (s *story) triedAgain() {
	if s.made == nil {
		return
	}
	if n := len(s.made.failed); n > 0 && s.made.failed[n-1] {
		s.made.failed, s.made.open = s.made.failed[:n-1], false
	}
}

// carriedSteps takes over the steps of a task that was carried.
func (s *story) carriedSteps(v *Verifier, is *task.Task) {
	if is.Durable == nil {
		return
	}
	m := &made{}
	for i := range is.Durable.Steps {
		m.add(is.Durable.Steps[i].Error != "", is.Durable.Steps[i].Open)
	}
	if p := is.Durable.Parked; p != nil {
		if m.waits = &p.Park; p.Kind == task.StepCall {
			m.before = v.tasks.wants(p.Before)
		}
	}
	s.made = m
}
