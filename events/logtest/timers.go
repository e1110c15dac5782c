package logtest

import (
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
)

var timerCases = []testCase{
	{name: "a timer fires when it is due", body: fires},
	{name: "a timer due in the past fires at once", body: firesLate},
	{name: "arming again replaces", body: replaces},
	{name: "an earlier turn's timer replaces none", body: keepsLater},
	{name: "which timers there are", body: armedOnes},
	{name: "disarm", body: disarms},
}

// soon is mostly long enough for the earlier steps of a case to finish before it.
const soon = 1500 * time.Millisecond

func (s *suite) timer(id task.ID, due time.Time, reason string) *events.Fact {
	return s.fact(id, task.Queued{Work: work("timed"), Attempt: 1, Reason: reason, Due: due})
}

// onTime checks that a timer's offer came at the right time.
func (s *suite) onTime(offer *events.Offer, due time.Time) {
	s.Helper()
	if early := time.Until(due); early > 0 {
		s.Errorf("the timer fired %v early", early)
	}
	if late := time.Since(due); late > s.late() {
		s.Errorf("the offer came %v late, want at most %v", late, s.late())
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
	fired, err := events.TimerOf(f)
	if err != nil {
		s.Fatal(err)
	}
	s.same(&offer.Record, events.KindOffer, offer.Seq, fired) // a reference without any work
	s.ack(offer)
	records := s.history(id)
	if len(records) != 2 || records[0].Kind != events.KindChain || records[1].Seq != offer.Seq {
		s.Errorf("the history is %v, want the birth and offer %d", sequences(records), offer.Seq)
	}
	s.nothing(offers, timerError) // once

	again := s.fact(id, offer.Fact.Event.(task.Event)) // as a worker that gives it back has it placed anew
	seq := s.place(again)
	offer = s.next(offers)
	s.same(&offer.Record, events.KindOffer, seq, again)
	s.ack(offer)
}

func firesLate(s *suite) {
	offers := s.offers("timed")
	s.arm(s.timer(s.task(), now().Add(-time.Hour), "long ago"))
	armed := time.Now()
	s.onTime(s.next(offers), armed.Add(-time.Nanosecond))
}

// turn is a timer of a turn.
func (s *suite) turn(id task.ID, after uint64, due time.Time) *events.Fact {
	return s.fact(id, task.Queued{Work: work("timed"), Attempt: 1, After: after, Due: due})
}

// timer is a timer that is set for a turn of a task.
type timer struct {
	id    task.ID
	after uint64
	due   time.Time
}

// setTimer sets the timer of a turn.
func (s *suite) setTimer(id task.ID, after uint64, due time.Time) timer {
	s.Helper()
	s.arm(s.turn(id, after, due))
	return timer{id, after, due}
}

// beforeDue calls set with a time until it has returned before that: on a slow machine it takes
// several calls, each with twice the time of the one before. It returns the timers of the last
// call; late are the tasks of the others.
func (s *suite) beforeDue(set func(due time.Time) []timer) (timers []timer, late map[task.ID]bool) {
	late = map[task.ID]bool{}
	for wait := soon; ; wait *= 2 {
		due := now().Add(wait)
		if timers = set(due); now().Before(due) {
			return timers, late
		}
		for _, t := range timers {
			late[t.id] = true
		}
	}
}

// fired takes offers, which must be those of the timers, in any order, until there is one of each.
// It leaves out those of late tasks, and offers that come again, because the acknowledgement was late.
func (s *suite) fired(offers events.Offers, late map[task.ID]bool, all ...timer) {
	s.Helper()
	for seen := map[uint64]bool{}; len(all) > 0; {
		offer := s.next(offers)
		s.ack(offer)
		if late[offer.Fact.Task] || seen[offer.Seq] {
			continue
		}
		seen[offer.Seq] = true
		e, _ := offer.Fact.Event.(task.Due)
		i := slices.IndexFunc(all, func(t timer) bool { return offer.Fact.Task == t.id && e.After == t.after && e.Due.Equal(t.due) })
		if i < 0 {
			s.Fatalf("the timer %+v of task %s fired, want one of %+v", e, offer.Fact.Task, all)
		}
		s.onTime(offer, all[i].due)
		all = slices.Delete(all, i, i+1)
	}
}

func replaces(s *suite) {
	offers := s.offers("timed")
	timers, late := s.beforeDue(func(due time.Time) []timer {
		longer, sooner := s.task(), s.task()
		s.setTimer(longer, 0, due)
		s.setTimer(sooner, 0, due.Add(time.Hour))
		return []timer{s.setTimer(longer, 1, due.Add(2*soon)), s.setTimer(sooner, 1, due), s.setTimer(s.task(), 0, due.Add(soon))}
	})
	s.fired(offers, late, timers...)
}

// keepsLater: the task was moved before a slow process set the timer of an earlier turn.
func keepsLater(s *suite) {
	offers := s.offers("timed")
	timers, late := s.beforeDue(func(due time.Time) []timer {
		id, moved := s.task(), s.task()
		timers := []timer{s.setTimer(id, 1, due), s.setTimer(moved, 7, due.Add(soon))}
		s.setTimer(id, 0, due.Add(-soon/2))
		s.setTimer(moved, 3, due.Add(-soon/2))
		return timers
	})
	s.fired(offers, late, timers...)
}

// armedOnes: Armed lists the existing timers.
func armedOnes(s *suite) {
	due, none := s.task(), s.task()
	at := now().Add(time.Hour)
	s.arm(s.turn(due, 5, at))
	armed := s.armed(1, none, due)
	want := task.Due{After: 5, Route: "timed.5", Due: at}
	if got, ok := armed[due]; !ok || got.Replaces(want) || want.Replaces(got) {
		s.Errorf("armed are %+v, want %+v of %s alone", armed, want, due)
	}
	if n, err := s.timers.Timers(s.context()); err != nil || n < 1 {
		s.Errorf("there are %d timers, error %v; want 1 at least", n, err)
	}
	s.disarm(due, 6)
	s.armed(0, due)
}

// armed returns the timers of some tasks once there are n of them; a follower may learn of them
// late.
func (s *suite) armed(n int, ids ...task.ID) map[task.ID]task.Due {
	s.Helper()
	for ctx := s.context(); ; s.wait(s.o.AckWait / 50) {
		armed, err := s.timers.Armed(ctx, ids)
		if err != nil {
			s.Fatalf("Armed, of which %d were wanted: %+v, %v", n, armed, err)
		}
		if len(armed) == n {
			return armed
		}
	}
}

func (s *suite) disarm(id task.ID, before uint64) {
	s.Helper()
	if err := s.log.Disarm(s.context(), id, before); err != nil {
		s.Fatalf("Disarm: %v", err)
	}
}

// disarms: a removal knows the task up to a certain fact.
func disarms(s *suite) {
	offers := s.offers("timed")
	timers, late := s.beforeDue(func(due time.Time) []timer {
		id, other, next := s.task(), s.task(), s.task()
		timers := []timer{s.setTimer(id, 3, due), s.setTimer(other, 0, due), s.setTimer(next, 4, due)}
		s.disarm(id, 4)
		s.disarm(other, 0) // of an unknown task
		s.disarm(next, 4)  // of its earlier life
		return timers
	})
	id := timers[0].id
	s.fired(offers, late, timers[1:]...)
	s.nothing(offers, timerError)
	if n := len(s.history(id)); n != 0 {
		s.Errorf("the disarmed task has %d records, want none", n)
	}
	s.arm(s.timer(id, now(), "armed anew"))
	s.ack(s.next(offers))
}
