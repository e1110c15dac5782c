package scheduler

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Two schedulers decide at once on ticks that are late, overlap, wait, or get no task. The stage
// makes all these decisions again from the log alone, when the test ends.
func TestDecisionsOnTicksAreMadeAgain(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	var mu sync.Mutex // guards found
	t.Run("all", func(t *testing.T) {
		for i, overlap := range job.Overlaps {
			for j, catchUp := range job.CatchUps {
				t.Run(overlap+" and "+catchUp, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						s := newStage(t, 0)
						s.keeps = true
						s.ticks(t, rand.New(rand.NewPCG(uint64(i), uint64(j))), job.Schedule{Overlap: overlap, CatchUp: catchUp, Depth: 2})
						mu.Lock()
						defer mu.Unlock()
						for _, r := range s.All() {
							if _, ok := r.Fact.Event.(task.ScheduleEvent); !ok || r.Fact.By == nil {
								continue
							}
							what := string(r.Fact.Type) + " " + r.Fact.By.Rule
							if e, ok := r.Fact.Event.(task.ScheduleSkipped); ok {
								what += " " + e.Reason
							}
							found[what]++
						}
					})
				})
			}
		}
	})
	for _, what := range []string{
		"schedule.admitted ", "schedule.admitted release", "schedule.admitted watch", "schedule.queued ",
		"schedule.skipped  missed", "schedule.skipped  overlap", "schedule.skipped  failing", "schedule.skipped  invalid", "schedule.skipped birth full", "schedule.skipped release failing",
	} {
		if found[what] == 0 {
			t.Errorf("nothing was %q", what)
		}
	}
	t.Logf("decided: %v", found)
}

// ticks makes two schedulers handle the ticks of a schedule.
func (s *stage) ticks(t *testing.T, rng *rand.Rand, when job.Schedule) {
	both := []*Scheduler{}
	for range 2 {
		both = append(both, New(s, nil, nil, Config{Schedules: s, Ticks: s, Births: s, Now: s.now}))
	}
	start := s.now().Add(time.Minute).Truncate(time.Minute)
	when.Every, when.Start, when.PauseAfter = value.Duration(10*time.Second), start.Format(time.RFC3339), 3
	d := schedule.Definition{Name: "s", When: when, Make: birth.Submission{Job: "j"}}
	s.store(d)
	s.defineJob("j")
	last := start.Add(-time.Second)
	atOnce := func(do func(*Scheduler) error) {
		var wg sync.WaitGroup
		for _, one := range both[:1+rng.IntN(2)] {
			wg.Go(func() {
				if err := do(one); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for range 60 {
		next := s.next("s")
		if !next.After(last) {
			p, err := schedule.Compile("s", when, time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			tick, _ := p.Next(value.Later(last, s.now()))
			next = tick.At
		}
		last = next
		pass(next.Sub(s.now()) + time.Duration(rng.IntN(4)/3*rng.IntN(60_000))*time.Millisecond)
		s.mu.Lock()
		s.full = rng.IntN(10) == 0
		if s.jobs["j"] = uint64(1); rng.IntN(10) == 0 {
			s.jobs["j"] = 0
		}
		s.jobSeq = append(s.jobSeq, "j")
		s.mu.Unlock()
		if rng.IntN(12) == 0 { // which forgives failures
			d.Since = s.now()
			s.store(d)
			pass(time.Second)
		}
		if it := (&watchedTick{schedule: "s", tick: schedule.Tick{At: next, Due: next}}); rng.IntN(5) == 0 {
			atOnce(func(one *Scheduler) error { return one.see(t.Context(), it) })
		} else {
			s.mu.Lock()
			r := s.say(events.Fact{Schedule: "s", Event: task.ScheduleFired{Revision: s.defined["s"].Revision, Tick: next, Due: next}})
			s.mu.Unlock()
			pass(time.Duration(rng.IntN(3)/2*rng.IntN(60_000)) * time.Millisecond)
			atOnce(func(one *Scheduler) error { return one.Fire(t.Context(), &r) })
		}
		s.endSome(t, rng)
		atOnce(func(one *Scheduler) error { return one.ReleaseTicks(t.Context()) })
	}
}

// endSome ends some of the ticks' tasks.
func (s *stage) endSome(t *testing.T, rng *rand.Rand) {
	t.Helper()
	rec := &events.Recorder{Log: s.Memory, Now: s.now, NewID: events.NewID}
	s.mu.Lock()
	made := slices.Sorted(maps.Keys(s.made))
	s.mu.Unlock()
	for _, id := range made {
		now, err := rec.Load(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if now.State == task.Pending && rng.IntN(2) == 0 {
			if now, _, err = rec.Do(t.Context(), now, task.Claim{Node: "n", Session: "s", Offer: now.Turn}); err != nil {
				t.Fatal(fmt.Errorf("claim %s: %w", id, err))
			}
		}
		if !now.Live() || rng.IntN(2) == 0 {
			continue
		}
		var c task.Command = task.Finish{Epoch: now.Epoch}
		if now.State == task.Cancelling {
			c = task.Stopped{Epoch: now.Epoch}
		} else if rng.IntN(4) > 0 {
			c = task.Fail{Epoch: now.Epoch, Class: value.Task, Final: true}
		}
		if _, _, err := rec.Do(t.Context(), now, c); err != nil {
			t.Fatal(err)
		}
	}
}
