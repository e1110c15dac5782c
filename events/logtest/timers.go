package logtest

import (
	"time"

	"millrace/events"
	"millrace/task"
)

var timerCases = []testCase{
	{name: "a timer fires when it is due", body: fires},
	{name: "a timer due in the past fires at once", body: firesLate},
	{name: "arming again replaces", body: replaces},
	{name: "the timer of a birth replaces none", body: keepsLater},
	{name: "disarm", body: disarms},
}

// soon is far enough away that what a case does before it is done by then.
const soon = 1500 * time.Millisecond

func (s *suite) timer(id task.ID, due time.Time, reason string) *events.Fact {
	return s.fact(id, task.Queued{Work: work("timed"), Attempt: 1, Reason: reason, Due: due})
}

// nextTimer is a timer of a later turn.
func (s *suite) nextTimer(id task.ID, due time.Time, reason string) *events.Fact {
	return s.fact(id, task.Queued{Work: work("timed"), Attempt: 1, After: 1, Reason: reason, Due: due})
}

// onTime checks that a timer's offer came when it was to.
func (s *suite) onTime(offer *events.Offer, due time.Time) {
	s.Helper()
	if early := time.Until(due); early > 0 {
		s.Errorf("the timer fired %v early", early)
	}
	if late := time.Since(due); late > timerError {
		s.Errorf("the offer came %v late, want at most %v", late, timerError)
	}
}

func fires(s *suite) {
	id, offers := s.task(), s.offers("timed")
	due := now().Add(soon)
	s.place(s.fact(id, task.Submitted{Work: work("timed"), Due: due}))
	f := s.timer(id, due, "it is time")
	s.arm(f)
	offer := s.next(offers)
	s.onTime(offer, due)
	s.same(&offer.Record, events.KindOffer, offer.Seq, f)
	s.ack(offer)
	records := s.history(id)
	if len(records) != 2 || records[0].Kind != events.KindHold || records[1].Seq != offer.Seq {
		s.Errorf("the history is %v, want the held birth and offer %d", sequences(records), offer.Seq)
	}
	s.nothing(offers, timerError) // once
}

func firesLate(s *suite) {
	offers := s.offers("timed")
	s.arm(s.timer(s.task(), now().Add(-time.Hour), "long ago"))
	armed := time.Now()
	s.onTime(s.next(offers), armed.Add(-time.Nanosecond))
}

func replaces(s *suite) {
	sooner, later, other := s.task(), s.task(), s.task()
	offers := s.offers("timed")
	start := now()
	s.arm(s.timer(later, start.Add(soon), "first"))
	s.arm(s.timer(sooner, start.Add(time.Hour), "first"))
	s.arm(s.timer(other, start.Add(2*soon), "only"))
	s.arm(s.nextTimer(later, start.Add(4*soon), "second"))
	s.arm(s.nextTimer(sooner, start.Add(soon), "second"))
	want := []struct {
		id     task.ID
		due    time.Time
		reason string
	}{{sooner, start.Add(soon), "second"}, {other, start.Add(2 * soon), "only"}, {later, start.Add(4 * soon), "second"}}
	for _, w := range want {
		offer := s.next(offers)
		e, _ := offer.Fact.Event.(task.Queued)
		if offer.Fact.Task != w.id || e.Reason != w.reason {
			s.Fatalf("the timer %q of task %s fired, want %q of %s", e.Reason, offer.Fact.Task, w.reason, w.id)
		}
		s.onTime(offer, w.due)
		s.ack(offer)
	}
}

// keepsLater: somebody has moved the task before its submitter came to set the timer.
func keepsLater(s *suite) {
	id, offers := s.task(), s.offers("timed")
	due := now().Add(soon)
	s.arm(s.nextTimer(id, due, "moved"))
	s.arm(s.timer(id, due, "born"))
	offer := s.next(offers)
	if e, _ := offer.Fact.Event.(task.Queued); e.Reason != "moved" {
		s.Errorf("the timer %q fired, want that of the later turn", e.Reason)
	}
	s.ack(offer)
}

func disarms(s *suite) {
	id, other, offers := s.task(), s.task(), s.offers("timed")
	due := now().Add(soon)
	s.arm(s.timer(id, due, "disarmed"))
	s.arm(s.timer(other, due, "kept"))
	if err := s.log.Disarm(s.context(), id, s.end()+1); err != nil {
		s.Fatalf("Disarm: %v", err)
	}
	if err := s.log.Disarm(s.context(), other, 0); err != nil { // a removal that is older than the timer
		s.Fatalf("Disarm: %v", err)
	}
	offer := s.next(offers)
	if offer.Fact.Task != other {
		s.Fatalf("the timer of task %s fired, want that of %s", offer.Fact.Task, other)
	}
	s.ack(offer)
	s.nothing(offers, timerError)
	if n := len(s.history(id)); n != 0 {
		s.Errorf("the disarmed task has %d records, want none", n)
	}
	s.arm(s.timer(id, now(), "armed anew"))
	s.ack(s.next(offers))
}

// end is the sequence of the last message of the log.
func (s *suite) end() uint64 {
	last, err := s.log.Last(s.context())
	if err != nil {
		s.Fatalf("Last: %v", err)
	}
	return last
}
