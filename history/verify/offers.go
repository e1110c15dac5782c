package verify

import (
	"slices"
	"strings"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
)

// What an offer says of its task is what the log says: a worker runs the offer, and reads no more.
// And what an offer or a start opens must have been opened by a fact: a limit by its admission for
// that turn (I-4), needs and a signal by theirs (I-7).

// grants notes the admissions of a fact.
func (v *Verifier) grants(r *events.Record) {
	e, _ := r.Fact.Event.(task.Granted)
	for i := range e.Grants {
		g := &e.Grants[i]
		if s, ok := v.tasks.open[g.Task]; ok {
			s.granted, s.rated = g.Turn+1, g.Rated
		}
	}
}

// opens checks what a fact opens that offers or starts the task. K is the task before it.
func (s *story) opens(v *Verifier, k *task.Task, r *events.Record) {
	if r.Err != nil || !s.born || s.old || s.cut || s.end != 0 || len(s.rivals) > 0 || !k.Waiting() {
		return
	}
	switch e := r.Fact.Event.(type) {
	case task.Queued:
		if r.Kind != events.KindChain && e.After == k.Turn && e.After < r.Seq {
			s.offeredAs(v, k, &e, r)
		}
	case task.AttemptStarted:
		if len(k.Holds) > 0 {
			rule := CauseFirst
			if slices.Contains(k.Holds, task.HoldLimit) {
				rule = Limits
			}
			s.found(v, rule, []uint64{k.Turn, r.Seq}, "it starts while it is held by %s", strings.Join(k.Holds, " and "))
		}
	}
}

// offeredAs checks an offer for the present turn.
func (s *story) offeredAs(v *Verifier, k *task.Task, e *task.Queued, r *events.Record) {
	holds := k.Holds
	if k.Offered || slices.Contains(holds, task.HoldSignal) {
		holds = nil // it opens nothing
	}
	rated := k.Rated
	if slices.Contains(holds, task.HoldLimit) {
		if rated = s.rated; s.granted != k.Turn+1 {
			if v.whole() || !v.before(k.Turn) {
				s.found(v, Limits, []uint64{k.Turn, r.Seq}, "it is offered past its limits: no limit.granted admits it for the turn since %d", k.Turn)
			}
			return
		}
	}
	freed := slices.Contains(holds, task.HoldNeeds) // I-11 compares what that sets
	bound := freed || s.repeated > 0                // each of two births has its own bounds
	work := findings.Digest(0)
	if s.birth != (wish{}) {
		work = v.tasks.digests.Work(&task.Task{Work: e.Work}) ^ s.kin.copied
	}
	for _, c := range []struct {
		differs bool
		what    string
	}{
		{work != s.birth.work, "other work than its birth"},
		{e.Route != k.Route, "another route than the one on which it waits"},
		{e.Rated != rated, "another rate of its queue than the one that admitted it"},
		{!freed && !v.book.Hides(e.Inputs) && v.tasks.digests.Raw(e.Inputs) != s.now.inputs, "other inputs than its task has"},
		{!bound && findings.StampOf(e.StartBy) != findings.StampOf(k.StartBy), "another start_by than its task has"},
		{!bound && findings.StampOf(e.EndBy) != findings.StampOf(k.EndBy), "another end_by than its task has"},
	} {
		if c.differs {
			s.found(v, CauseFirst, []uint64{s.bornAt, r.Seq}, "the offer has %s", c.what)
			return
		}
	}
}

// heldFirst checks that a birth is held by all that must open first.
func (s *story) heldFirst(v *Verifier, e *task.Submitted, r *events.Record) {
	for _, hold := range e.FirstHolds() {
		if slices.Contains(e.Holds, hold) {
			continue
		}
		rule := CauseFirst
		if hold == task.HoldLimit {
			rule = Limits
		}
		s.found(v, rule, []uint64{r.Seq}, "born without the hold %s, which its work asks for", hold)
	}
}
