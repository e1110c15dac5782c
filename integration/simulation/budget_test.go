package simulation

import (
	"sync/atomic"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/value"
)

// thrift are the budgets of starts, by key.
var thrift = map[string]int{"/a": 3, "/b": 5}

// budget makes up a budget of a task.
func (h *history) budget(s *birth.Submission) {
	key := []string{"/a", "/b"}[h.policies.IntN(2)]
	s.Spec.Budget = limit.Budgets{{Starts: thrift[key], Key: key}}
	if h.policies.IntN(2) == 0 {
		s.Spec.Budget = append(s.Spec.Budget, limit.Budget{Run: value.Duration(time.Duration(1+h.policies.IntN(3)) * time.Minute), Key: "/c"})
	}
	if h.policies.IntN(2) == 0 {
		s.Spec.Timeout.Run = value.Duration(time.Minute)
	}
}

// nextDay lets the time pass until the next day begins.
func (h *history) nextDay() {
	now := time.Now()
	h.pass(now.Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now))
}

// Where tasks have budgets, no more attempts start in a day than the budgets allow, except those
// after a lost one. All tasks end after some days, whatever is killed or lost, and verify comes to
// every admission as well.
func TestSimulationOfBudgets(t *testing.T) {
	var under, spent, days atomic.Int64
	each(max(min(*historiesFlag, 500)/10, *historiesFlag/50, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{thrifty: true})
		h.report(t)
		for _, f := range h.whole(t).Findings {
			t.Errorf("seed %d of budgets: %v: task %s, %v: %s", seed, f.Rule, f.Task, f.Seqs, f.What)
		}
		type day struct {
			key string
			of  time.Time
		}
		tasks, started, lost := map[task.ID]task.Task{}, map[day]int{}, map[task.ID]bool{}
		for i := range h.records {
			r := &h.records[i]
			if r.Err != nil || r.Fact.Task == "" {
				continue
			}
			was := tasks[r.Fact.Task]
			is := task.Evolve(was, r.Task())
			tasks[r.Fact.Task] = is
			if _, ok := r.Fact.Event.(task.AttemptLost); ok && was.Live() && !is.Live() {
				lost[r.Fact.Task] = true
			}
			e, ok := r.Fact.Event.(task.AttemptStarted)
			if !ok || is.Epoch != r.Seq || !is.Budgeted() {
				continue
			}
			under.Add(1)
			at := day{is.Spec.Budget[0].Key, r.Fact.At.Truncate(24 * time.Hour)}
			if at.of.After(h.began) {
				days.Add(1)
			}
			if !r.Stored.Truncate(24 * time.Hour).Equal(at.of) {
				continue // clocks differ by some milliseconds, and it was admitted for the other day
			}
			if again := lost[r.Fact.Task]; again || e.TookOver != nil {
				delete(lost, r.Fact.Task) // it keeps its places, and does not ask
				continue
			}
			if started[at]++; started[at] == thrift[at.key] {
				spent.Add(1)
			}
			if started[at] > thrift[at.key] {
				t.Errorf("seed %d of budgets: %d attempts start under %s on %s", seed, started[at], at.key, at.of.Format(time.DateOnly))
			}
		}
		return !t.Failed()
	})
	t.Logf("%d attempts started under budgets, %d on another day; %d budgets were used up", under.Load(), days.Load(), spent.Load())
	if *seedFlag < 0 && (under.Load() == 0 || days.Load() == 0 || spent.Load() == 0) {
		t.Error("the budgets decide nothing")
	}
}
