package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/schedule"
)

// A scheduler dies while it holds a fire. For seconds the log gives the fire to no other. Another
// scheduler handles the tick nevertheless, at whatever step the first one stopped.
func TestTicksOfADeadScheduler(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		decided bool          // before it died
		born    bool          // likewise
		ahead   time.Duration // the log's clock of the machine's
	}{
		"before the decision":                    {},
		"before the decision, and clocks differ": {ahead: -7 * time.Hour},
		"before the birth":                       {decided: true},
		"before the next timer":                  {decided: true, born: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, c.ahead)
				tick := s.now().Add(10 * time.Second)
				s.define("s", "", tick, false)
				one := New(s, nil, nil, Config{Schedules: s, Ticks: s, Births: s, Now: s.now, Log: slog.New(slog.DiscardHandler)})
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- one.handleFires(ctx) }()

				pass(10*time.Second + 10*time.Millisecond)
				if c.decided {
					s.decide(t, one, "s", tick)
				}
				if c.born {
					s.bear("s", tick)
				}
				born, _ := s.counts()
				if want := map[bool]int{true: 1}[c.born]; born != want {
					t.Fatalf("%d tasks are born before the other scheduler does anything, want %d", born, want)
				}
				pass(tickPatience + 100*time.Millisecond)
				if s.birth("s", tick) == nil && !c.born {
					t.Errorf("the tick has no task %v after it was due", tickPatience+110*time.Millisecond)
				}
				if c.decided {
					tick = tick.Add(time.Hour) // its timer was never set
					pass(time.Hour)
					if s.birth("s", tick) == nil {
						t.Error("the next tick has no task")
					}
				}
				if next := s.next("s"); !next.Equal(tick.Add(time.Hour)) {
					t.Errorf("the next timer is for %v, want %v", next, tick.Add(time.Hour))
				}
				if n := s.decisions(); n != map[bool]int{false: 1, true: 2}[c.decided] {
					t.Errorf("%d decisions, want one for each tick", n)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Changed, paused and old ticks are not made up for, and a tick in progress is left alone.
func TestTicksThatAreLeftAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		tick := s.now().Add(5 * time.Second)
		for _, name := range []string{"paused", "moved"} {
			s.define(name, "", tick, false)
		}
		s.define("long ago", "", s.now().Add(-schedule.Grace), false)
		s.play(t, func() {
			pass(4 * time.Second)
			s.define("paused", "", tick, true)
			s.define("moved", "", tick.Add(time.Minute), false)
			pass(4 * time.Second)
			if born, _ := s.counts(); born != 0 {
				t.Errorf("%d tasks are born, want none", born)
			}
			pass(time.Minute)
			if born, _ := s.counts(); born != 1 || s.birth("moved", tick.Add(time.Minute)) == nil {
				t.Errorf("%d tasks are born, want that of the schedule that was moved", born)
			}
		})
	})
}

// decide stores the decision of another scheduler, and shows it to one.
func (s *stage) decide(t *testing.T, one *Scheduler, name string, tick time.Time) {
	t.Helper()
	r := s.decideUnheard(t, name, tick)
	one.Observe([]events.Step{{Record: &r}})
}

// decideUnheard stores the decision of another scheduler.
func (s *stage) decideUnheard(t *testing.T, name string, tick time.Time) events.Record {
	t.Helper()
	s.mu.Lock()
	last := s.last[name]
	s.mu.Unlock()
	made := schedule.TaskID(name, tick)
	e := task.ScheduleAdmitted{
		Revision: 1, Tick: tick, Due: tick, Trigger: task.TriggerSchedule, Made: made,
		Ledger: task.Ledger{Last: tick, Open: append(slices.Clone(schedule.LedgerOf(last.Fact.Event).Open), made)},
	}
	f := &events.Fact{ID: events.NewID(s.now()), At: s.now(), Type: events.TypeOf(e), Schedule: name, Actor: "another", By: &task.By{Rule: task.RuleWatch, At: tick}, Event: e}
	seq, err := s.Append(t.Context(), f, last.Seq)
	if err != nil {
		t.Fatal(err)
	}
	return events.Record{Seq: seq, Stored: s.now(), Kind: events.KindTick, Fact: *f}
}

// bear records the birth of a tick's task by another scheduler.
func (s *stage) bear(name string, tick time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.born[schedule.TaskID(name, tick)] = s.now()
}

// decisions counts those in the log.
func (s *stage) decisions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.decided
}

// A message that is no fact, behind the decisions of a schedule, makes a scheduler forget no tick that
// waits.
func TestGarbageForgetsNoWaitingTick(t *testing.T) {
	t.Parallel()
	w := newTickWatch(time.Now, nil)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	queued := task.ScheduleQueued{Tick: noon, Ledger: task.Ledger{Last: noon, Waiting: []task.WaitingTick{{}}}}
	w.decided(&events.Record{Seq: 7, Kind: events.KindTick, Fact: events.Fact{Schedule: "s", Event: queued}})
	w.decided(&events.Record{Seq: 8, Kind: events.KindTick, Fact: events.Fact{Schedule: "s"}, Err: errors.New("garbage")})
	if all := w.waitForOthers(); !slices.Equal(all, []string{"s"}) || !w.known["s"].last().Equal(noon) {
		t.Errorf("%v wait, and the last decision is on the tick of %s", all, w.known["s"].last())
	}
}
