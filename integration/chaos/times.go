package chaos

import (
	"context"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Tolerances of a run with wrong clocks.
const (
	// timesApart is by how much a time that a process wrote, or used, may differ from when the
	// server stored it, beside how long the server took to store it.
	timesApart = 2 * time.Second
	// tickLate is how late a decision on a tick may be without being odd: another scheduler must
	// first notice that one is gone.
	tickLate = 3 * time.Second
	// impatient is the pending timeout of short tasks. Nothing makes them wait that long.
	impatient = 2 * time.Minute
)

// TimesReport is what a run with wrong clocks shows of due times and ticks.
type TimesReport struct {
	// Delayed counts tasks that were submitted with a delay, Ticks the due ticks of schedules, and
	// Missed the ticks without a decision.
	Delayed int `json:"delayed"`
	Ticks   int `json:"ticks"`
	Missed  int `json:"missed"`
	// Late is from when a tick was due to the decision on it.
	Late Latency `json:"late_ms"`
}

// judgeTimes compares the times in a log with those at which its server stored the facts. A task
// with a delay is due by the log's time; no task starts before it is due, and none expires early.
func judgeTimes(records []events.Record, delays map[task.ID]delayed) (r TimesReport, broken []string) {
	violate := func(format string, args ...any) { broken = append(broken, fmt.Sprintf(format, args...)) }
	born := map[task.ID]time.Time{}
	due := map[task.ID]time.Time{}
	for i := range records {
		rec := &records[i]
		id := rec.Fact.Task
		if ahead := rec.Fact.At.Sub(rec.Stored); rec.IsFact() && rec.Kind != events.KindFire && ahead > timesApart {
			violate("%s of %s%s says that it is of %v after it was stored", rec.Fact.Type, id, rec.Fact.Node, ahead.Round(time.Millisecond))
		}
		switch e := rec.Fact.Event.(type) {
		case task.Submitted:
			if _, twice := born[id]; twice {
				continue
			}
			born[id], due[id] = rec.Stored, e.Due
			if d, asked := delays[id]; asked {
				r.Delayed++
				if off := e.Due.Sub(rec.Stored.Add(d.delay)); off > timesApart || off < -timesApart-d.took {
					violate("task %s, delayed by %v, is due %v from when it should be", id, d.delay, off.Round(time.Millisecond))
				}
			}
		case task.AttemptStarted:
			if early := due[id].Sub(rec.Stored); !due[id].IsZero() && early > 0 {
				violate("task %s starts %v before it is due", id, early.Round(time.Millisecond))
			}
			delete(due, id) // for later attempts the retry decides
		case task.GivenUp:
			if waited := rec.Stored.Sub(born[id]); e.Reason == value.Expired && waited < impatient-timesApart {
				violate("task %s, which may wait for %v, expires %v after it was submitted", id, impatient, waited.Round(time.Millisecond))
			}
		}
	}
	return r, broken
}

// ticker plays the users that make schedules, with the callers' clock, while that is wrong.
type ticker struct {
	client *client.Client // the callers'

	mu   sync.Mutex
	made []timed // guarded by mu
}

// timed is a schedule, and how long it took to store it.
type timed struct {
	schedule.Stored
	took time.Duration
}

// schedulesMade is how many schedules a run has, and schedulePeriod the interval of their ticks.
const (
	schedulesMade  = 6
	schedulePeriod = 2 * time.Second
)

// run makes schedules, spread over the time of the load, until ctx ends.
func (t *ticker) run(ctx context.Context, load time.Duration) {
	pause := time.NewTicker(max(load/(schedulesMade+1), time.Millisecond))
	defer pause.Stop()
	for i := range schedulesMade {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		d := schedule.Definition{Name: fmt.Sprintf("ticks-%d", i), When: job.Schedule{Every: value.Duration(schedulePeriod)},
			Make: birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"true"}}}}}
		for asked := time.Now(); ctx.Err() == nil; {
			once, cancel := context.WithTimeout(ctx, tryTime)
			_, _, err := t.client.PutSchedule(once, d)
			var stored schedule.Stored
			if err == nil {
				stored, err = t.client.Schedule(once, d.Name)
			}
			cancel()
			if err == nil {
				t.mu.Lock()
				t.made = append(t.made, timed{stored, time.Since(asked)})
				t.mu.Unlock()
				break
			}
		}
	}
}

// decided waits until each tick up to a time has a decision, or patience ends: on a starved machine
// decisions take a while, and nothing decides on the ticks of a schedule that is gone.
func (t *ticker) decided(ctx context.Context, until time.Time, decisions func() []events.Record, patience time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	pause := time.NewTicker(tryAgain)
	defer pause.Stop()
	for {
		var r TimesReport
		if t.judge(decisions(), until, &r); r.Missed == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

// end removes the schedules, so that the log comes to rest, and returns until when their ticks count.
func (t *ticker) end(ctx context.Context, decisions func() []events.Record) (at time.Time, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at = time.Now()
	t.decided(ctx, at, decisions, startPatience)
	for _, s := range t.made {
		once, cancel := context.WithTimeout(ctx, startPatience)
		err := t.client.RemoveSchedule(once, s.Name)
		cancel()
		if err != nil {
			return at, fmt.Errorf("remove schedule %s: %w", s.Name, err)
		}
	}
	return at, nil
}

// judge compares the ticks that schedules should have had until a time with the decisions in the
// log.
func (t *ticker) judge(records []events.Record, until time.Time, r *TimesReport) (broken, odd []string) {
	decisions := map[string][]*events.Record{}
	for i := range records {
		if records[i].Kind == events.KindTick {
			name := records[i].Fact.Schedule
			decisions[name] = append(decisions[name], &records[i])
		}
	}
	var late []time.Duration
	for i := range t.made {
		s := &t.made[i]
		plan, err := s.Plan()
		if err != nil {
			broken = append(broken, err.Error())
			continue
		}
		expected, _ := plan.Between(s.Since, until, 100_000)
		missed := 0
		for _, tick := range expected {
			found := false
			for _, d := range decisions[s.Name] {
				if found = schedule.Decides(d.Fact.Event, tick.At); found {
					late = append(late, d.Stored.Sub(tick.Due))
					break
				}
			}
			if !found {
				missed++
			}
		}
		r.Ticks, r.Missed = r.Ticks+len(expected), r.Missed+missed
		if missed > 0 {
			broken = append(broken, fmt.Sprintf("schedule %s: %d of %d ticks have no decision", s.Name, missed, len(expected)))
		}
		if since := s.Since.Sub(s.Changed); since > timesApart || since < -timesApart-s.took {
			broken = append(broken, fmt.Sprintf("schedule %s begins %v from when it was stored", s.Name, since.Round(time.Millisecond)))
		}
	}
	for _, d := range late {
		if d < 0 {
			broken = append(broken, fmt.Sprintf("a tick was decided on %v before it was due", -d))
		}
	}
	r.Late = latencyOf(late)
	if worst := time.Duration(r.Late.Max * float64(time.Millisecond)); worst > tickLate {
		odd = append(odd, fmt.Sprintf("a tick was decided on %v after it was due", worst.Round(time.Millisecond)))
	}
	return broken, odd
}
