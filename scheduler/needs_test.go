package scheduler

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// runTold runs schedulers that observe the log, as through a read model.
func (w *testWorld) runTold(t *testing.T, n int) []*Scheduler {
	t.Helper()
	all := w.run(t, n)
	w.tell(t, all...)
	return all
}

// tell makes schedulers observe the log, as through a read model, until the test ends.
func (w *testWorld) tell(t *testing.T, all ...*Scheduler) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); synctest.Wait() })
	feed, err := w.Follow(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer feed.Close()
		tasks := map[task.ID]task.Task{}
		for {
			records, err := feed.Next(ctx)
			if err != nil {
				return
			}
			for i := range records {
				s := events.Step{Record: &records[i]}
				if id := records[i].Fact.Task; id != "" {
					was := tasks[id]
					was.ID = id
					is := task.Evolve(was, records[i].Task())
					s.Was, s.Is, tasks[id] = events.GlanceAt(&was), events.GlanceAt(&is), is
				}
				for _, to := range all {
					to.Observe([]events.Step{s})
				}
			}
		}
	}()
}

// need submits a task that waits for others.
func (w *testWorld) need(t *testing.T, rule, when string, of ...task.ID) task.ID {
	t.Helper()
	needs := &task.Needs{Rule: rule}
	for _, id := range of {
		needs.Of = append(needs.Of, task.Need{Task: id, When: when})
	}
	return w.born(t, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5", Holds: []string{task.HoldNeeds}, Needs: needs}})
}

func (w *testWorld) do(t *testing.T, now task.Task, c task.Command) {
	t.Helper()
	if _, _, err := w.rec.Do(t.Context(), now, c); err != nil {
		t.Fatal(err)
	}
}

func (w *testWorld) wants(t *testing.T, what string, id task.ID, state task.State, reason string) task.Task {
	t.Helper()
	now := w.task(t, id)
	if now.State != state || now.Reason != reason {
		t.Errorf("%s is %s/%s (%s), want %s/%s", what, now.State, now.Reason, now.Message, state, reason)
	}
	return now
}

func noRepairs(t *testing.T, all []*Scheduler) {
	t.Helper()
	for _, s := range all {
		if r := s.Repairs(); len(r) > 0 {
			t.Errorf("repairs: %v", r)
		}
	}
}

func nothingKept(t *testing.T, all []*Scheduler) {
	t.Helper()
	for _, s := range all {
		if n := len(s.needs.waiting) + len(s.needs.wanted) + len(s.needs.keys) + s.needs.births + s.needs.under; n > 0 {
			t.Errorf("%d entries are kept of what is over", n)
		}
	}
}

// The end of a task releases the tasks that need it, at once and with its result.
func TestEndsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.runTold(t, 2)
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		third := w.need(t, "", "", first, second)
		synctest.Wait()
		w.wants(t, "the second", second, task.Held, task.HoldNeeds)
		started := w.claim(t, first, "n1")
		w.do(t, started, task.Finish{Epoch: started.Epoch, Result: json.RawMessage(`{"rows":3}`)})
		synctest.Wait()
		now := w.wants(t, "the second", second, task.Pending, "")
		var inputs map[task.ID]task.Input
		if err := json.Unmarshal(now.Inputs, &inputs); err != nil || string(inputs[first].Result) != `{"rows":3}` || inputs[first].State != task.Finished {
			t.Errorf("it is told %s, %v", now.Inputs, err)
		}
		if !now.Offered {
			t.Error("it is not offered")
		}
		w.wants(t, "the third", third, task.Held, task.HoldNeeds)
		w.end(t, second)
		synctest.Wait()
		w.wants(t, "the third", third, task.Pending, "")
		late := w.need(t, "", "", first) // which has ended before
		synctest.Wait()
		w.wants(t, "one that came late", late, task.Pending, "")
		pass(time.Minute)
		noRepairs(t, all)
		nothingKept(t, all)
	})
}

// A task whose needs can no longer be met is skipped, and so are the tasks that need it.
func TestEndsSkip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		all := w.runTold(t, 2)
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		third := w.need(t, "", "", second)
		mend := w.need(t, "", job.WhenFailure, first)
		always := w.need(t, "", job.WhenEnd, first, second, third)
		started := w.claim(t, first, "n1")
		w.do(t, started, task.Fail{Epoch: started.Epoch, Class: value.Task, Message: "no"})
		synctest.Wait()
		w.wants(t, "the second", second, task.Cancelled, value.Skipped)
		w.wants(t, "the third", third, task.Cancelled, value.Skipped)
		w.wants(t, "the one for failures", mend, task.Pending, "")
		w.wants(t, "the one for any end", always, task.Pending, "")
		pass(time.Minute)
		noRepairs(t, all)
	})
}

// A scheduler that starts later finds held tasks. One that observes nothing sweeps, and counts the
// repairs.
func TestHeldIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		first := w.submit(t, job.Spec{})
		second := w.need(t, "", "", first)
		w.end(t, first)
		all := w.run(t, 1)
		synctest.Wait()
		w.wants(t, "the second", second, task.Pending, "")
		noRepairs(t, all)
		third := w.need(t, "", "", first)
		pass(time.Minute)
		w.wants(t, "the third", third, task.Pending, "")
		if n := all[0].Repairs()[RepairHold]; n != 1 {
			t.Errorf("%d repairs, want the one that nobody told of", n)
		}
	})
}

// A task whose submitter died before it heard that the log has forgotten what the task needs is
// cancelled by the sweep, which says why. One that needs a task which may be born yet stays.
func TestSweepCancelsWhatNeedsTheForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		pass(time.Hour)
		gone, unborn := task.ID(events.NewID(time.Now().Add(-time.Minute))), task.ID(events.NewID(time.Now().Add(time.Hour)))
		left, waits := w.need(t, "", "", gone), w.need(t, "", "", unborn)
		f := &events.Fact{ID: events.NewID(time.Now()), At: time.Now(), Event: task.HorizonChosen{Span: task.Span{Below: 1, Before: time.Now()}}}
		if _, err := w.rec.Log.Append(t.Context(), f, 0); err != nil {
			t.Fatal(err)
		}
		all := w.run(t, 2)
		pass(time.Minute)
		if is := w.wants(t, "the task that was left", left, task.Cancelled, value.User); !strings.Contains(is.Message, string(gone)) {
			t.Errorf("it says %q", is.Message)
		}
		w.wants(t, "the other one", waits, task.Held, task.HoldNeeds)
		if n := all[0].Repairs()[RepairHold] + all[1].Repairs()[RepairHold]; n != 1 {
			t.Errorf("%d repairs, want one", n)
		}
	})
}

// A sweep that cannot examine all held tasks still releases those that it has found free.
func TestHeldIsFoundAmongMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestWorld(t)
		w.join(t, "n1")
		first := w.submit(t, job.Spec{})
		w.end(t, first)
		all := w.run(t, 1)
		synctest.Wait()
		open := make([]task.ID, job.MaxNeeds)
		for i := range open {
			open[i] = w.submit(t, job.Spec{})
		}
		for range 3 { // more than a sweep examines
			w.need(t, "", "", open...)
		}
		free := w.need(t, "", "", first)
		pass(time.Minute)
		w.wants(t, "the free one", free, task.Pending, "")
		if n := all[0].Repairs()[RepairHold]; n != 1 {
			t.Errorf("%d repairs, want one", n)
		}
	})
}
