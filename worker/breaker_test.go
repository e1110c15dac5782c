package worker_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
	"millrace/worker"
)

// The effect of a job's breaker on claims of its tasks, with two workers and no scheduler.
func TestBreakerHoldsTasks(t *testing.T) {
	inBubble(t, func(w *world) {
		running := make(chan struct{}, 100)
		handlers := map[string]worker.Handler{"h": func(context.Context, task.Task) error {
			running <- struct{}{}
			wait(100 * time.Millisecond)
			return nil
		}}
		w.start(worker.Config{Node: "a", Slots: 10}, handlers)
		w.start(worker.Config{Node: "b", Slots: 10}, handlers)
		job := &job.Job{Name: "j", Spec: job.Spec{Handler: "h",
			Breaker: &limit.Breaker{Failures: 1, Cooldown: value.Duration(20 * time.Second), HalfOpen: 3}}}
		submit := func() task.ID {
			birth, err := birth.Of(birth.Submission{Job: "j"}, job, 1, time.Now())
			if err != nil {
				w.Fatal(err)
			}
			id := task.ID(events.NewID(time.Now()))
			if _, err := w.rec.Submit(w.Context(), id, birth); err != nil {
				w.Fatal(err)
			}
			return id
		}
		w.wantState(w.ended(submit()), task.Finished, "")
		pass(time.Second)
		<-running

		w.happens("j", limit.Opened{Reason: "all fails", Until: time.Now().Add(20 * time.Second)})
		var ids []task.ID
		for range 20 {
			ids = append(ids, submit())
		}
		pass(19 * time.Second)
		for _, id := range ids {
			w.wantState(w.task(id), task.Scheduled, value.Breaker)
		}
		if n := len(w.facts(ids[0])); n != 1 {
			w.Errorf("a task that is held has %d facts on its chain, want one", n)
		}
		if len(running) > 0 {
			w.Error("a task started while the breaker was open")
		}
		pass(4 * time.Second) // the cooldown, and a tenth of it
		if n := len(running); n != 3 {
			w.Errorf("%d tasks started as trials, want 3", n)
		}
		if c, err := w.rec.Circuit(w.Context(), "j"); err != nil || c.State != limit.StateHalfOpen || c.Left != 0 {
			w.Errorf("the breaker is %+v, %v", c, err)
		}
		w.happens("j", limit.Closed{Reason: "the trials finished"})
		for _, id := range ids {
			w.wantState(w.ended(id), task.Finished, "")
		}
	})
}

// happens records an event of the breaker of a job.
func (w *world) happens(job string, e limit.CircuitEvent) {
	w.Helper()
	if _, _, err := w.rec.DoBreaker(w.Context(), job, func(limit.Circuit, time.Time) events.Verdict { return events.Verdict{Event: e} }); err != nil {
		w.Fatal(err)
	}
}

// With `on_open: fail`, a task that would start ends.
func TestBreakerFailsTasks(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(context.Context, task.Task) error { return nil }})
		w.happens("j", limit.Opened{Reason: "all fails", Until: time.Now().Add(time.Hour)})
		job := &job.Job{Name: "j", Spec: job.Spec{Handler: "h", Breaker: &limit.Breaker{Failures: 1, OnOpen: limit.OnOpenFail}}}
		birth, err := birth.Of(birth.Submission{Job: "j"}, job, 1, time.Now())
		if err != nil {
			w.Fatal(err)
		}
		id := task.ID(events.NewID(time.Now()))
		if _, err := w.rec.Submit(w.Context(), id, birth); err != nil {
			w.Fatal(err)
		}
		got := w.ended(id)
		w.wantState(got, task.Abnormal, value.Breaker)
		if want := fmt.Sprintf("the breaker of job j is open until %s: all fails", time.Now().Add(time.Hour).Format(time.RFC3339)); got.Message != want {
			w.Errorf("it says %q, want %q", got.Message, want)
		}
	})
}
