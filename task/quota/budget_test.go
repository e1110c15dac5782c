package quota

import (
	"fmt"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
)

// A budget admits its daily amount, in order, and continues by itself the next day. An unrecorded
// decision costs nothing.
func TestAdmissionByBudget(t *testing.T) {
	a := NewLimiter()
	under := func(n int, b limit.Budget, timeout time.Duration) *task.Task {
		k := limited(n, "j", limit.Concurrency{}, limit.Rate{}, 5)
		k.Spec.Concurrency, k.Spec.Rate, k.Spec.Budget, k.Spec.Timeout.Run = nil, nil, limit.Budgets{b}, value.Duration(timeout)
		a.Put(k)
		return k
	}
	now, seq := noon, uint64(100)
	took := func(k *task.Task, is task.State, epoch uint64) {
		seq++
		counters, err := k.Counters()
		if err != nil {
			t.Fatal(err)
		}
		a.Spend(counters, task.ShiftOf(k.Course(), task.Course{State: is, Epoch: epoch}, task.Recorded{At: now}))
		if k.State, k.Epoch, k.Seq, k.Holds = is, epoch, seq, nil; is == task.Running {
			k.StartedAt = now
		}
		a.Put(k)
	}
	start := func(k *task.Task) { took(k, task.Running, k.Epoch+1) }
	end := func(k *task.Task) { took(k, task.Finished, k.Epoch) }
	decide := func(want ...*task.Task) {
		t.Helper()
		d := a.Decide(now, GrantsAtOnce) // the decision of another scheduler comes first
		a.Undo(&d)
		d = a.Decide(now, GrantsAtOnce)
		a.Confirm(&d, 0)
		var ids, all []task.ID
		for _, g := range d.Grants {
			ids = append(ids, g.Task)
		}
		for _, k := range want {
			all = append(all, k.ID)
		}
		if fmt.Sprint(ids) != fmt.Sprint(all) {
			t.Fatalf("at %v %v are admitted, want %v", now, ids, all)
		}
	}
	starts := limit.Budget{Starts: 2}
	one, two, three := under(1, starts, 0), under(2, starts, 0), under(3, starts, 0)
	decide(one, two)
	start(one)
	decide()
	took(two, task.Held, 0) // another hold keeps it, and it has used up nothing
	two.Turn, two.Holds = seq, onlyLimit
	seq++
	two.Seq = seq
	a.Put(two)
	decide(two)
	start(two)
	end(two)
	decide()
	if d := a.Decide(now, 9); !d.Next.Equal(noon.Truncate(24 * time.Hour).Add(24 * time.Hour)) {
		t.Errorf("it looks again at %v", d.Next)
	}
	more := under(4, limit.Budget{Starts: 3}, 0) // is judged by its own
	decide(more)
	start(more)
	now = noon.Truncate(24 * time.Hour).Add(24*time.Hour - 1)
	decide()
	now = now.Add(1)
	decide(three)

	hours := limit.Budget{Run: value.Duration(8 * time.Hour), Key: "r"}
	first, second, third := under(5, hours, 0), under(6, hours, 0), under(7, hours, 0)
	decide(first) // the run time of such tasks is unknown
	start(first)
	now = now.Add(5 * time.Hour)
	end(first)
	decide(second)
	start(second)
	s, _ := a.Standing(third.ID, now, 9)
	if b := s.Counters[0].Budget; s.Admitted || !s.Counters[0].Full || !b.Spent || b.Ran != value.Duration(5*time.Hour) || b.Reserved != value.Duration(5*time.Hour) {
		t.Errorf("the third stands %+v", s)
	}
	now = now.Add(time.Hour)
	end(second)
	decide(third)
	timed := under(8, hours, time.Hour)
	decide(timed) // 6 hours are used up and one is reserved: one hour is left
	under(9, hours, time.Hour)
	decide()
}
