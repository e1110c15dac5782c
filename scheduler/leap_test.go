package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// The clock of the server that keeps the log leaps by ten minutes, between two ticks or while a fire
// waits for its tick. Each tick gets one decision and at most one task, none before its time; the
// ticks that a leap ahead has passed over are caught up as the schedule says.
func TestTicksWhenTheClockOfTheLogLeaps(t *testing.T) {
	t.Parallel()
	const leap = 10 * time.Minute
	type step struct {
		leap time.Duration
		wait time.Duration
	}
	for name, steps := range map[string][]step{
		"back":                      {{0, 5 * time.Minute}, {-leap, 13 * time.Minute}},
		"back, while a fire waits":  {{0, 4*time.Minute - schedule.Ahead/2}, {-leap, 13 * time.Minute}},
		"ahead":                     {{0, 5 * time.Minute}, {leap, 3 * time.Minute}},
		"ahead, while a fire waits": {{0, 4*time.Minute - schedule.Ahead/2}, {leap, 3 * time.Minute}},
		"ahead and back":            {{0, 2 * time.Minute}, {leap, 90 * time.Second}, {-leap, 12 * time.Minute}},
		"back and ahead":            {{0, 5 * time.Minute}, {-leap, 90 * time.Second}, {leap, 3 * time.Minute}},
		"back twice":                {{0, 5 * time.Minute}, {-leap, time.Minute}, {-leap, 24 * time.Minute}},
	} {
		for _, catchUp := range job.CatchUps {
			t.Run(name+", "+catchUp, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newStage(t, 0)
					s.keeps = true
					first, latest := s.now().Truncate(time.Minute).Add(time.Minute), s.now()
					s.store(schedule.Definition{
						Name: "s", Make: birth.Submission{Spec: &job.Spec{Handler: "x"}},
						When: job.Schedule{Every: value.Duration(time.Minute), Start: first.Format(time.RFC3339), CatchUp: catchUp},
					})
					s.armed["s"] = schedule.Tick{At: first, Due: first}
					// The fire that came last before a leap back may wait for its tick: it counts on from there.
					var fired time.Time
					waited := map[time.Time]bool{}
					s.play(t, func() {
						for _, step := range steps {
							if step.leap < 0 {
								waited[fired] = true
							}
							s.ahead.Add(int64(step.leap))
							for range step.wait / (100 * time.Millisecond) {
								if next := s.next("s"); !next.IsZero() && !s.now().Before(next.Add(-schedule.Ahead)) {
									s.fire("s", 1, next)
									fired = next
								}
								pass(100 * time.Millisecond)
								latest = value.Later(latest, s.now())
							}
						}
						pass(100 * time.Millisecond)
					})
					decided := map[time.Time]int{}
					for _, r := range s.All() {
						switch e := r.Fact.Event.(type) {
						case task.ScheduleAdmitted:
							decided[e.Tick]++
							if at, there := s.born[e.Made]; !there || at.Before(e.Tick) && !waited[e.Tick] {
								t.Errorf("the task of %s: %t, made at %s", e.Tick, there, at)
							}
						case task.ScheduleSkipped:
							for tick := e.Tick; !tick.After(value.Later(e.Tick, e.Until)); tick = tick.Add(time.Minute) {
								decided[tick]++
							}
						}
					}
					for tick := first; !tick.After(latest.Add(-time.Second)); tick = tick.Add(time.Minute) {
						if n := decided[tick]; n != 1 || s.birth("s", tick) == nil && catchUp == job.CatchUpAll {
							t.Errorf("%s: %d decisions, its task is there: %t", tick, n, s.birth("s", tick) != nil)
						}
						delete(decided, tick)
					}
					delete(decided, latest.Truncate(time.Minute))
					if len(decided) > 0 {
						t.Errorf("decided before their time: %v", decided)
					}
				})
			})
		}
	}
}
