package scheduler

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
)

// dueIn submits a task that is due after d.
func (w *testWorld) dueIn(t *testing.T, d time.Duration) task.ID {
	t.Helper()
	return w.born(t, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}, Due: time.Now().Add(d)})
}

func (w *testWorld) timers(t *testing.T) int {
	t.Helper()
	n, err := w.Timers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// offered is when the first offer of a task came; zero if there is none.
func (w *testWorld) offered(t *testing.T, id task.ID) time.Time {
	t.Helper()
	records, err := w.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		if records[i].Kind == events.KindOffer {
			return records[i].Stored
		}
	}
	return time.Time{}
}

// A client with the permission to set timers removes all. They are set again, long before any is
// due.
func TestTimersThatWereRemovedAreSetAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		schedulers := w.run(t, 1)
		var ids []task.ID
		for range 12 {
			ids = append(ids, w.dueIn(t, 10*time.Minute))
		}
		pass(15 * time.Second)
		w.LoseTimers()
		pass(15 * time.Second)
		if n := w.timers(t); n != len(ids) {
			t.Errorf("%d timers are set again, want %d", n, len(ids))
		}
		if n := schedulers[0].Repairs()[RepairTimer]; n != len(ids) {
			t.Errorf("%d repairs, want one for each of %d tasks", n, len(ids))
		}
		pass(10 * time.Minute)
		for _, id := range ids {
			if late := w.offered(t, id).Sub(w.task(t, id).Due); late < 0 || late > time.Second {
				t.Fatalf("task %s was offered %v late", id, late)
			}
		}
	})
}

// A missing timer is found before its task is due, although there are enough others.
func TestATimerThatIsGoneIsSetAgainInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		schedulers := w.runWith(t, 2, &peers{})
		id := w.dueIn(t, 10*time.Minute)
		junk := w.rec.Fact("JUNK", task.Queued{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}, Due: time.Now().Add(9 * time.Hour)})
		if err := w.Arm(t.Context(), junk); err != nil {
			t.Fatal(err)
		}
		if err := w.Disarm(t.Context(), id, math.MaxUint64); err != nil {
			t.Fatal(err)
		}
		pass(10*time.Minute + time.Second)
		if late := w.offered(t, id).Sub(w.task(t, id).Due); late < 0 || late > 100*time.Millisecond {
			t.Errorf("it was offered %v late", late)
		}
		if n := schedulers[0].Repairs()[RepairTimer] + schedulers[1].Repairs()[RepairTimer]; n != 1 {
			t.Errorf("%d repairs, want 1", n)
		}
	})
}

// Tasks that have their timer, or will have it in a moment, are left alone.
func TestTimersThatAreThereAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		schedulers := w.run(t, 2)
		for i := range 50 {
			w.dueIn(t, time.Duration(i)*3*time.Second)
			pass(time.Second)
		}
		pass(3 * time.Minute)
		for _, s := range schedulers {
			if n := s.Repairs(); len(n) > 0 {
				t.Errorf("repairs: %v, want none", n)
			}
		}
	})
}

// Until the election of a leader that takes over the fired timers, timers are late, and not
// missing.
func TestTimersOfALostLeaderAreNoRepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		patient := settings
		patient.Timer = 15 * time.Second
		s := New(w.Memory, w, w, Config{Settings: patient, Timed: w, Timers: w})
		sweep := func() {
			if err := s.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		id := w.dueIn(t, time.Second)
		if err := w.Disarm(t.Context(), id, math.MaxUint64); err != nil { // it has fired, and the offer is not stored
			t.Fatal(err)
		}
		for range 14 {
			pass(time.Second)
			sweep()
		}
		if now := w.task(t, id); now.State != task.Scheduled || len(s.Repairs()) > 0 {
			t.Errorf("it is %s after 13 s, repairs %v; want it to be waited for", now.State, s.Repairs())
		}
		for range 7 {
			pass(time.Second)
			sweep()
		}
		if now := w.task(t, id); now.State != task.Pending || s.Repairs()[RepairTimer] != 1 {
			t.Errorf("it is %s after 20 s, repairs %v; want it to be offered", now.State, s.Repairs())
		}
	})
}
