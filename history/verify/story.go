package verify

import (
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
)

// story is the state of one task: the fold, and beside it a plain reading of the facts, which tells
// the valid references of each.
type story struct {
	id   task.ID
	spot spot
	now  folded
	brief

	// cut says that its state is unknown, because it may have begun before the range.
	cut  bool
	kept bool // among the open ones
	// lone says that it was reopened behind all that was carried: it goes with the front, and whoever reopened
	// it hears that, unless it is carried in time.
	lone bool

	open      uint64 // epoch of the running attempt, 0 for none
	openOffer uint64 // the offer that it holds, 0 if unknown
	openOn    findings.Session
	held      int64  // when the log stored the session's claim of it, in nanoseconds; 0 if unknown
	asked     bool   // it was asked to stop
	attempt   int32  // number of the latest attempt, or unknown
	turn      uint64 // the fact since which it waits; 0 since its birth
	byOthers  bool   // a component other than a scheduler opened the turn
	granted   uint64 // the turn for which limits last admitted it, plus one; 0 for none
	rated     uint64 // the rate of its queue under which they did

	limit findings.Bounds

	repeated uint64   // the sequence of the last birth, if there are several
	rivals   []uint64 // births with another content
	reborn   *[]rebirth

	other uint32 // the spec for repeated decisions; 0 for its own
	kin   kin
	made  *made // the steps of its function; nil for none

	offers   []offer
	turns    []turn // without the turn of a birth that was itself an offer
	attempts []attempt
}

// brief is the part of a story that stays when the rest follows from the fold.
type brief struct {
	end, bornAt uint64        // the sequences of its end, 0 while it lives, and of its first birth
	birth       wish          // the content of the first birth
	key         findings.Word // its unique key; 0 for none
	job         findings.Word // only of a task with a breaker; else 0
	size        uint32        // of its result, in bytes
	// told has a bit for each rule whose violation was reported for this life.
	told uint16
	// born says that a birth was seen, undue that a birth was itself an offer.
	born, undue bool
	// old says that the task may have begun before the range. A birth in the range proves nothing,
	// because it may repeat an earlier one; a claim of the first attempt does.
	old    bool
	seen   bool // the read model has a row of it
	result bool // a result was accepted in this life
	child  bool // it is a child
}

// unknown is the number of an attempt before the range. anyDue is the due time of a turn that
// depends on facts before it.
const (
	unknown                = -1
	anyDue  findings.Stamp = -1
)

// offer is an offer in the log: its sequence, and the turn it is for.
type offer struct{ seq, after uint64 }

// turn is a wait for the next attempt, since the fact at a sequence.
type turn struct {
	since   uint64
	due     findings.Stamp
	attempt int32
}

// attempt is a started attempt, with its epoch.
type attempt struct {
	epoch  uint64
	number int32
	on     findings.Word // its node; 0 if unknown
	own    bool          // it ended by its own report
}

// visit reads a readable fact.
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
			if e.Exit != nil && *e.Exit != 0 {
				s.found(v, ExitSeen, []uint64{e.Epoch, r.Seq}, "%s with the exit code %d: only 0 is a success", r.Fact.Type, *e.Exit)
			}
			s.drew(v, e.Drawn)
			s.result = true
			s.over(r)
		}
	case task.AttemptFailed:
		if !s.lives(v, r) || !s.ends(v, r, e.Epoch, e.Attempt, true) {
			return
		}
		if !s.triedAgain() {
			s.drew(v, e.Drawn)
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
			s.drew(v, e.Drawn)
			s.waits(v, r, time.Time{})
		}
	case task.AttemptStepped:
		if s.lives(v, r) {
			s.remembers(v, &e, r)
		}
	case task.AttemptParked:
		if s.lives(v, r) {
			s.parked(v, &e, r)
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
	case task.Collapsed:
		if s.lives(v, r) {
			s.postponed(v, task.Postponed{Due: e.Due}, r)
		}
	case task.Throttled:
		if s.lives(v, r) {
			s.moved(v, r)
			s.byOthers = false // admitting it is up to the schedulers
		}
	case task.Unheld:
		if s.lives(v, r) {
			s.unparked(true, e.Inputs)
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

// begin checks that in a whole log the first fact of a task is a birth.
func (s *story) begin(v *Verifier, r *events.Record) {
	s.strange(v, r)
	if s.born || !v.whole() {
		return
	}
	v.book.Checked[CauseFirst]++
	s.found(v, CauseFirst, []uint64{r.Seq}, "%s before any birth (task.submitted) of the task", r.Fact.Type)
}

// lives checks that an ended life has no further facts (I-2).
func (s *story) lives(v *Verifier, r *events.Record) bool {
	if s.end == 0 {
		return true
	}
	s.found(v, OneEnd, []uint64{s.end, r.Seq}, "%s after the task's end at %d, and no task.reopened between them", r.Fact.Type, s.end)
	return false
}

// parental tells whether the task has children instead of attempts.
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
		s.bornAt, s.birth = r.Seq, s.firstWish(v.tasks, &e, r)
		s.derived(v, &e, r)
		s.bornOutside(v, &e, r)
		s.holds(v, &e.Work, r)
		s.heldFirst(v, &e, r)
		s.kin.copied = v.tasks.digests.Text(string(e.RetryOf))
		s.child, s.kin.needs = e.Parent != "", v.tasks.wants(e.Needs)
		if e.Spec.Guarded() {
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
	s.byOthers = s.byOthers || s.turn == 0 && len(e.Holds) == 0 // offering a held task is up to the schedulers
	if e.Spec.Parental() {
		return // it is not an offer, and none follows
	}
	since := uint64(0)
	if r.Kind == events.KindChain {
		s.turn, since = r.Seq, r.Seq // an offer that refers to it follows
	}
	if !e.Offers() || since > 0 {
		v.book.Checked[NoScheduler]++
		s.turns = append(s.turns, turn{since: since, due: findings.StampOf(e.Due), attempt: 1})
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
	s.turns = append(s.turns, turn{since: r.Seq, due: findings.StampOf(due), attempt: next})
}

// moved opens a turn on another route, with the same attempt and due time.
func (s *story) moved(v *Verifier, r *events.Record) {
	if s.open != 0 {
		s.found(v, CauseFirst, []uint64{s.open, r.Seq}, "moved while epoch %d runs", s.open)
		return
	}
	// If births differ, the writer may have read either.
	was := s.turn
	open := slices.ContainsFunc(s.turns, func(t turn) bool { return t.since == was && t.due != s.now.due })
	s.waits(v, r, time.Time{})
	moved := &s.turns[len(s.turns)-1]
	if moved.due = s.now.due; s.old || s.cut || open {
		moved.due = anyDue
	}
}

// postponed opens a turn for the same attempt, with its own due time.
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
	s.cut = s.cut && s.now.state == task.Unknown // whether it has children, is not known then
	s.end, s.result, s.told, s.asked = 0, false, 0, false
	s.unparked(false, nil)
	s.triedAgain()
	s.livesAgain(v, r)
	if s.parental() {
		return
	}
	s.waits(v, r, time.Time{})
}

// scheduler is the actor of schedulers' facts.
const scheduler = "scheduler"

// found reports a fault of a task, once for each rule and life: further faults may follow from the
// first.
func (s *story) found(v *Verifier, rule Rule, seqs []uint64, format string, args ...any) {
	s.finding(v, rule, Finding{Seqs: seqs}, format, args...)
}

// finding is found with a given Finding to complete.
func (s *story) finding(v *Verifier, rule Rule, f Finding, format string, args ...any) {
	if s.told&(1<<rule) != 0 {
		return
	}
	s.told |= 1 << rule
	look := "`millrace task events " + string(s.id) + "`"
	if n := len(f.Seqs); n > 0 && f.Seqs[n-1] > 0 {
		look += ", and `millrace events show " + fmt.Sprint(f.Seqs[n-1]) + "`"
	}
	f.Task, f.What, f.Look = s.id, fmt.Sprintf(format, args...), look
	v.book.Find(rule, f)
}
