package simulation

import (
	"errors"
	"fmt"

	"millrace/events"
	"millrace/task"
)

// The promises, each as a plain reading of the records of one task. They share nothing with
// [task.Evolve]: a rule that is wrong there is not wrong here in the same way. Honest programs
// write everything by compare-and-set on what they have read, so a fact of theirs that would have
// to be ignored is a fault, even if it does no harm.

// story is what the log holds of one task, in order.
type story []events.Record

// stranger is the actor in facts that no honest program wrote. Nothing may follow from them.
const stranger = "stranger"

// told visits the facts of a story that count. The first error ends it.
func (s story) told(visit func(r *events.Record) error) error {
	for i := range s {
		r := &s[i]
		if r.Err != nil || r.Fact.Event == nil || r.Fact.Actor == stranger {
			continue
		}
		if err := visit(r); err != nil {
			return fmt.Errorf("%w at %d", err, r.Seq)
		}
	}
	return nil
}

// Each promise is broken by an error that wraps one of these.
var (
	errI2 = errors.New("I-2: every accepted submission reaches exactly one terminal state")
	errI3 = errors.New("I-3: no two live epochs of a task are accepted, and at most one result is")
	errI5 = errors.New("I-5: cancelled implies that the exit was seen")
	errI7 = errors.New("I-7: cause precedes effect")
	errI8 = errors.New("I-8: the fold says what the log says")
	// errOwed: in a history without faults, an actor did not do what it owed.
	errOwed = errors.New("owed: nobody does what somebody else should have done")
	// errEvidence belongs to I-3: an attempt whose late end was kept as refused was accepted as
	// well.
	errEvidence = errors.New("evidence: what is kept as late was refused")
	// errVerify is about a whole history, each decision of which is made again.
	errVerify = errors.New("package verify finds a broken rule")
)

// promises are those that hold after every step.
var promises = []func(story) error{oneEnd, oneEpoch, exitSeen, causeFirst, evidence, stepsOnce}

// lasting are those that also hold where the log has lost a part of the story.
var lasting = []func(story) error{oneEnd, oneEpoch, exitSeen}

func broken(promise error, format string, args ...any) error {
	return fmt.Errorf("%w: %s", promise, fmt.Sprintf(format, args...))
}

// ends tells whether an event is the end of a life.
func ends(e any) bool {
	switch e := e.(type) {
	case task.AttemptFinished, task.CancelConfirmed, task.GivenUp, task.Concluded:
		return true
	case task.AttemptFailed:
		return e.Retry == nil
	}
	return false
}

// ended is where the present life of the task ended, 0 if it goes on.
func ended(s story) uint64 {
	var at uint64
	_ = s.told(func(r *events.Record) error {
		switch _, reopened := r.Fact.Event.(task.Reopened); {
		case reopened:
			at = 0
		case ends(r.Fact.Event):
			at = r.Seq
		}
		return nil
	})
	return at
}

// oneEnd checks that a life ends once, and that nothing happens in it afterwards.
func oneEnd(s story) error {
	var end uint64
	return s.told(func(r *events.Record) error {
		switch r.Fact.Event.(type) {
		case task.Submitted, task.Queued, task.Due, task.AttemptLate:
			return nil // none of them is a transition
		case task.Dismissed:
			if end == 0 {
				return broken(errI2, "dismissed before its end")
			}
			return nil
		case task.Reopened:
			if end == 0 {
				return broken(errI2, "reopened before its end")
			}
			end = 0
			return nil
		}
		if end != 0 {
			return broken(errI2, "%s after the end at %d", r.Fact.Type, end)
		}
		if ends(r.Fact.Event) {
			end = r.Seq
		}
		return nil
	})
}

// kept checks that a task is recorded if a client was told that it is.
func kept(id task.ID, s story) error {
	for i := range s {
		if _, birth := s[i].Fact.Event.(task.Submitted); birth {
			return nil
		}
	}
	return broken(errI2, "the log holds no birth of %s, which was accepted", short(id))
}

// over: the task has come to an end.
func over(s story) error {
	if ended(s) == 0 {
		return broken(errI2, "it has not ended, and nobody does anything about it")
	}
	return nil
}

// oneEpoch checks that an attempt starts only when none is open, or takes over the open one under
// the very offer whose lease expired, and that an attempt is ended only by itself.
func oneEpoch(s story) error {
	var epoch, offer, last uint64 // of the open attempt, and of the latest
	results := 0
	own := func(of uint64) error {
		if epoch == 0 || of != epoch {
			return broken(errI3, "epoch %d speaks, and the open one is %d", of, epoch)
		}
		epoch = 0
		return nil
	}
	return s.told(func(r *events.Record) error {
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			switch {
			case r.Seq <= last:
				return broken(errI3, "epochs do not grow: %d after %d", r.Seq, last)
			case epoch == 0 && e.TookOver != nil:
				return broken(errI3, "it takes over %d, and no attempt is open", e.TookOver.Epoch)
			case epoch != 0 && (e.TookOver == nil || e.TookOver.Epoch != epoch):
				return broken(errI3, "it starts while %d is open", epoch)
			case epoch != 0 && e.Offer != offer:
				return broken(errI3, "it takes over with offer %d, and the lease of %d is that of offer %d", e.Offer, epoch, offer)
			}
			epoch, offer, last = r.Seq, e.Offer, r.Seq
		case task.AttemptAdopted:
			if epoch == 0 || e.Epoch != epoch {
				return broken(errI3, "epoch %d is adopted, and the open one is %d", e.Epoch, epoch)
			}
		case task.AttemptFinished:
			if results++; results > 1 {
				return broken(errI3, "it is the second result of one life")
			}
			return own(e.Epoch)
		case task.AttemptFailed:
			return own(e.Epoch)
		case task.AttemptReleased:
			return own(e.Epoch)
		case task.AttemptParked:
			return own(e.Epoch)
		case task.AttemptLost:
			return own(e.Epoch)
		case task.CancelConfirmed:
			if e.Epoch != 0 {
				return own(e.Epoch)
			}
			epoch = 0 // whether it may be open is I-5
		case task.GivenUp:
			epoch = 0
		case task.Reopened:
			results = 0
		}
		return nil
	})
}

// exitSeen checks that a task is cancelled only when no attempt is open, or by the word of the open
// one.
func exitSeen(s story) error {
	var epoch uint64
	return s.told(func(r *events.Record) error {
		switch e := r.Fact.Event.(type) {
		case task.AttemptStarted:
			epoch = r.Seq
		case task.AttemptFinished, task.AttemptFailed, task.AttemptReleased, task.AttemptParked, task.AttemptLost, task.GivenUp:
			epoch = 0
		case task.CancelConfirmed:
			if epoch != 0 && e.Epoch != epoch {
				return broken(errI5, "epoch %d was open, and epoch %d confirms", epoch, e.Epoch)
			}
			epoch = 0
		}
		return nil
	})
}

// evidence checks that an epoch whose end was accepted has no end that was refused.
func evidence(s story) error {
	accepted := map[uint64]bool{}
	return s.told(func(r *events.Record) error {
		switch e := r.Fact.Event.(type) {
		case task.AttemptFinished:
			accepted[e.Epoch] = true
		case task.AttemptFailed:
			accepted[e.Epoch] = true
		case task.AttemptReleased:
			accepted[e.Epoch] = true
		case task.AttemptParked:
			accepted[e.Epoch] = true
		case task.CancelConfirmed:
			accepted[e.Epoch] = true
		case task.AttemptLate:
			if accepted[e.Epoch] {
				return broken(errEvidence, "the end of epoch %d was accepted before", e.Epoch)
			}
		}
		return nil
	})
}

// agrees checks that the fold of a task says what a plain reading says.
func agrees(t *task.Task, s story) error {
	if end := ended(s); t.State.Terminal() != (end != 0) {
		return broken(errI8, "the fold says %s, the log has the end at %d", t.State, end)
	}
	var epoch uint64
	for i := range s {
		if _, start := s[i].Fact.Event.(task.AttemptStarted); start && s[i].Fact.Actor != stranger {
			epoch = s[i].Seq
		}
	}
	if t.Epoch != epoch {
		return broken(errI8, "the fold says epoch %d, the last start is at %d", t.Epoch, epoch)
	}
	return nil
}
