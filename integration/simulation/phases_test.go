package simulation

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	views "millrace/projections/view"
	"millrace/task"
)

// The phases of a task cover its life without a gap, whatever befalls it and whatever its clocks
// say: at its end, and after each of its facts.
func TestPhasesAreTheWholeLife(t *testing.T) {
	var phases atomic.Int64
	each(max(*historiesFlag/10, 20), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{})
		h.report(t)
		for id, s := range h.stories {
			for n := range s {
				now := s[n].Stored.Add(time.Second)
				is := views.Phases(s[:n+1], now)
				phases.Add(int64(len(is)))
				if err := wholeLife(id, s[:n+1], is, now); err != nil {
					t.Errorf("seed %d, task %s: %v\n%s", *firstFlag+seed, short(id), err, telling(s[:n+1]))
					return false
				}
			}
		}
		return !t.Failed()
	})
	if phases.Load() == 0 {
		t.Error("no task had a phase")
	}
}

func wholeLife(id task.ID, s story, phases []views.Phase, now time.Time) error {
	t := events.FoldTask(id, s)
	if t.State == task.Unknown {
		if len(phases) > 0 {
			return fmt.Errorf("before its birth: %+v", phases)
		}
		return nil
	}
	var attempts []int
	var sum time.Duration
	for i, p := range phases {
		if sum += p.To.Sub(p.From); p.To.Before(p.From) || i > 0 && !p.From.Equal(phases[i-1].To) {
			return fmt.Errorf("phase %d begins elsewhere: %+v", i, phases)
		}
		if p.Name == task.PhaseRun && p.Attempt > 0 {
			attempts = append(attempts, p.Attempt)
		}
	}
	end := now
	if t.State.Terminal() {
		end = t.EndedAt
	}
	if life := max(end.Sub(born(s)), 0); sum != life {
		return fmt.Errorf("phases of %v, and a life of %v: %+v", sum, life, phases)
	}
	history := make([]task.Recorded, len(s))
	for i := range s {
		history[i] = s[i].Task()
	}
	tries := task.Tries(history)
	for i, k := range tries {
		if i >= len(attempts) || attempts[i] != k.Attempt {
			return fmt.Errorf("attempts %v, and %d of the log: %+v", attempts, len(tries), phases)
		}
	}
	if len(attempts) != len(tries) {
		return fmt.Errorf("attempts %v, and %d of the log: %+v", attempts, len(tries), phases)
	}
	return nil
}

// born is when the first fact that makes a task was recorded.
func born(s story) time.Time {
	for i := range s {
		if _, birth := s[i].Fact.Event.(task.Submitted); birth {
			return s[i].Fact.At
		}
	}
	return time.Time{}
}
