package verify

import (
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/verify/limits"
	"millrace/verify/thin"
)

// story is what is known of one task: the fold, and beside it a plain reading
// of the facts, which says what each of them may refer to.
type story struct {
	id  task.ID
	now folded

	// born is whether a birth was seen, undue whether one of them was an offer itself.
	born, undue bool
	// old is whether the task may have begun before the range. A birth in the range
	// proves nothing, for it may have been submitted before, too; a claim of the
	// first attempt does. cut is whether its state is not known yet for that reason.
	old, cut bool
	// seen is whether the read model has a row of it.
	seen bool
	// told has a bit for each rule that this life is known to break.
	told uint16
	kept bool // among the open ones

	open      uint64 // epoch of the attempt that runs, 0 for none
	openOffer uint64 // the offer that it holds, 0 if that is not known
	openOn    limits.Session
	held      int64 // when the log stored that the session has it, in nanoseconds; 0 if that is not known
	asked     bool  // to stop
	attempt   int32 // the latest, or unknown
	result    bool  // a result was accepted in this life
	end       uint64
	turn      uint64 // the fact since which it waits; 0 since its birth
	byOthers  bool   // somebody else than a scheduler opened the turn

	limit limits.Bounds
	key   thin.Word // its unique key; 0 for none

	bornAt   uint64   // the sequence of its first birth
	repeated uint64   // and that of the last one, if there are several
	birth    wish     // what the first asks for
	rivals   []uint64 // births that ask for something else
	reborn   *[]rebirth
	job      thin.Word // of a task with a breaker; 0 for any other

	other uint32 // the spec with which decisions about it are made again; 0 for its own

	size  uint32 // of its result, in bytes
	child bool   // of another task
	kin   kin

	offers   []offer
	turns    []turn // without the one since a birth that was an offer itself
	attempts []attempt
}

// unknown is the number of an attempt before the range, and anyDue the due of a
// turn that depends on facts before it.
const (
	unknown            = -1
	anyDue  thin.Stamp = -1
)

// offer is one that is in the log: at a sequence, good for a turn.
type offer struct{ seq, after uint64 }

// turn is a wait for the next attempt, since a fact at a sequence.
type turn struct {
	since   uint64
	due     thin.Stamp
	attempt int32
}

// attempt is one that started, at its epoch.
type attempt struct {
	epoch  uint64
	number int32
	own    bool // it ended by its own word
}

// visit reads a fact that was understood.
func (s *story) visit(v *Verifier, r *events.Record) {
	if r.Kind != events.KindChain {
		switch e := r.Fact.Event.(type) {
		case task.Submitted:
			s.submitted(v, e, r)
		case task.Queued:
			s.begin(v, r)
			s.queued(v, e, r)
		case task.Due:
			s.begin(v, r)
			s.due(v, e, r)
		}
		return
	}
	if e, ok := r.Fact.Event.(task.Submitted); ok {
		s.submitted(v, e, r)
		return
	}
	s.begin(v, r)
	switch e := r.Fact.Event.(type) {
	case task.Expanded:
		v.births.expects(s.id, e.Names)
	case task.AttemptLate:
		s.late(v, e, r)
	case task.Reopened:
		s.reopened(v, r)
	case task.Dismissed:
		s.dismissed(v, r)
	case task.AttemptStarted:
		s.bound(v, &e, r)
		if s.lives(v, r) {
			s.started(v, e, r)
		}
	case task.AttemptAdopted:
		if s.lives(v, r) {
			s.adopted(v, e, r)
		}
	case task.AttemptFinished:
		if s.result && s.end != 0 {
			s.found(v, OneEpoch, []uint64{s.end, r.Seq}, "a second result, of epoch %d, in a life whose result was accepted at %d", e.Epoch, s.end)
			return
		}
		if s.lives(v, r) && s.ends(v, r, e.Epoch, e.Attempt, true) {
			s.result = true
			s.over(r)
		}
	case task.AttemptFailed:
		if !s.lives(v, r) || !s.ends(v, r, e.Epoch, e.Attempt, true) {
			return
		}
		if e.Retry == nil {
			s.over(r)
			return
		}
		v.book.Checked[CauseFirst]++
		if e.Retry.Attempt != e.Attempt+1 {
			s.found(v, CauseFirst, []uint64{r.Seq}, "attempt %d is followed by a plan for attempt %d", e.Attempt, e.Retry.Attempt)
		}
		s.waits(v, r, e.Retry.Due)
	case task.AttemptReleased:
		if s.lives(v, r) && s.ends(v, r, e.Epoch, e.Attempt, true) {
			s.waits(v, r, time.Time{})
		}
	case task.AttemptLost:
		if s.lives(v, r) && s.ends(v, r, e.Epoch, e.Attempt, false) {
			s.waits(v, r, time.Time{})
		}
	case task.Reassigned:
		if s.lives(v, r) {
			s.moved(v, r)
		}
	case task.Postponed:
		if s.lives(v, r) {
			s.postponed(v, e, r)
		}
	case task.Throttled:
		if s.lives(v, r) {
			s.moved(v, r)
			s.byOthers = false // to admit it is the schedulers' business
		}
	case task.Unheld:
		if s.lives(v, r) {
			s.moved(v, r)
		}
	case task.CancelRequested:
		if s.lives(v, r) && !s.parental() {
			s.askedToStop(v, r)
		}
	case task.CancelConfirmed:
		if s.lives(v, r) {
			s.cancelled(v, e, r)
		}
	case task.Concluded:
		if s.lives(v, r) {
			s.over(r)
		}
	case task.GivenUp:
		if s.lives(v, r) {
			s.leaves(v, s.open, false)
			s.over(r)
		}
	}
}

// begin: in a whole log, the first fact of a task is one of its births.
func (s *story) begin(v *Verifier, r *events.Record) {
	if s.born || !v.whole() {
		return
	}
	v.book.Checked[CauseFirst]++
	s.found(v, CauseFirst, []uint64{r.Seq}, "%s before any birth (task.submitted) of the task", r.Fact.Type)
}

// lives: nothing happens in a life that has ended (I-2).
func (s *story) lives(v *Verifier, r *events.Record) bool {
	if s.end == 0 {
		return true
	}
	s.found(v, OneEnd, []uint64{s.end, r.Seq}, "%s after the task's end at %d, and no task.reopened between them", r.Fact.Type, s.end)
	return false
}

// parental tells whether the task lives by its children: no attempt of it ever starts.
func (s *story) parental() bool {
	live := s.now.state == task.Running || s.now.state == task.Cancelling
	return live && s.now.epoch == 0
}

// over ends the life of the task.
func (s *story) over(r *events.Record) {
	s.end, s.open, s.cut = r.Seq, 0, false
	s.offers = nil
}

func (s *story) submitted(v *Verifier, e task.Submitted, r *events.Record) {
	if !s.born && !s.cut {
		v.book.Checked[OneEnd]++
	}
	if s.born {
		s.again(v, &e, r)
	} else {
		s.bornAt, s.birth = r.Seq, v.tasks.wish(&e)
		s.derived(v, &e, r)
		s.bornOutside(v, &e, r)
		s.holds(v, &e.Work, r)
		s.child, s.kin.needs = e.Parent != "", v.tasks.wants(e.Needs)
		if e.Spec != nil && e.Spec.Breaker != nil {
			s.job = v.tasks.words.Number(e.Job)
		}
	}
	s.born = true
	work := s.work(v, &e.Work)
	if len(s.limit) == 0 {
		s.limit = v.terms.Of(work)
	}
	if len(s.kin.onNode) == 0 {
		s.kin.onNode = v.terms.OnNode(work)
	}
	s.byOthers = s.byOthers || s.turn == 0 && len(e.Holds) == 0 // to offer what is held is the schedulers' business
	if e.Spec.Parental() {
		return // it is no offer, and none follows
	}
	since := uint64(0)
	if r.Kind == events.KindChain {
		s.turn, since = r.Seq, r.Seq // an offer follows, and refers to it
	}
	if !e.Offers() || since > 0 {
		v.book.Checked[NoScheduler]++
		s.turns = append(s.turns, turn{since: since, due: thin.StampOf(e.Due), attempt: 1})
		return
	}
	s.undue = true
	if s.end == 0 {
		s.offers = append(s.offers, offer{seq: r.Seq})
	}
}

// waits opens a turn.
func (s *story) waits(v *Verifier, r *events.Record, due time.Time) {
	v.book.Checked[NoScheduler]++
	s.turn, s.byOthers = r.Seq, r.Fact.Actor != scheduler && len(s.limit) == 0 // to admit it is
	next := s.attempt + 1
	if s.attempt == unknown {
		next = unknown
	}
	s.turns = append(s.turns, turn{since: r.Seq, due: thin.StampOf(due), attempt: next})
}

// moved opens a turn elsewhere, for the same attempt and due as before.
func (s *story) moved(v *Verifier, r *events.Record) {
	if s.open != 0 {
		s.found(v, CauseFirst, []uint64{s.open, r.Seq}, "moved while epoch %d runs", s.open)
		return
	}
	// Of births that differ, either may be the one that was read.
	was := s.turn
	open := slices.ContainsFunc(s.turns, func(t turn) bool { return t.since == was && t.due != s.now.due })
	s.waits(v, r, time.Time{})
	moved := &s.turns[len(s.turns)-1]
	if moved.due = s.now.due; s.old || s.cut || open {
		moved.due = anyDue
	}
}

// postponed opens a turn for the same attempt, with a due of its own.
func (s *story) postponed(v *Verifier, e task.Postponed, r *events.Record) {
	if s.open != 0 {
		s.found(v, CauseFirst, []uint64{s.open, r.Seq}, "postponed while epoch %d runs", s.open)
		return
	}
	s.waits(v, r, e.Due)
}

func (s *story) reopened(v *Verifier, r *events.Record) {
	if s.end == 0 && !s.cut {
		s.found(v, OneEnd, []uint64{r.Seq}, "reopened, and the life before has not ended")
		return
	}
	s.end, s.result, s.cut, s.told, s.asked = 0, false, false, 0, false
	s.livesAgain(v, r)
	if s.parental() {
		return
	}
	s.waits(v, r, time.Time{})
}

// scheduler is the actor in what a scheduler writes.
const scheduler = "scheduler"

// found tells of a task, once for each rule and life: what follows from a first
// mistake says nothing new.
func (s *story) found(v *Verifier, rule Rule, seqs []uint64, format string, args ...any) {
	s.finding(v, rule, Finding{Seqs: seqs}, format, args...)
}

// finding is found, where there is more to say.
func (s *story) finding(v *Verifier, rule Rule, f Finding, format string, args ...any) {
	if s.told&(1<<rule) != 0 {
		return
	}
	s.told |= 1 << rule
	f.Seqs = slices.DeleteFunc(f.Seqs, func(seq uint64) bool { return seq == 0 })
	look := "`millrace task events " + string(s.id) + "`"
	if len(f.Seqs) > 0 {
		look += ", and `millrace events show " + fmt.Sprint(f.Seqs[len(f.Seqs)-1]) + "`"
	}
	f.Task, f.What, f.Look = s.id, fmt.Sprintf(format, args...), look
	v.book.Find(rule, f)
}
