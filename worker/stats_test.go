package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/worker"
)

func TestStats(t *testing.T) {
	inBubble(t, func(w *world) {
		s := newStore(w.log)
		k, err := worker.New(s.ports(), worker.Config{Node: "a", Slots: 2, Beat: 2 * time.Second, NodeTTL: 6 * time.Second, Grace: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if got := k.Stats(); got != (worker.Stats{Slots: 2}) {
			t.Errorf("before it runs: %+v", got)
		}
		k.Handle("h", func(context.Context, task.Task) error { wait(10 * time.Second); return nil })
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = k.Run(ctx) }()
		defer func() { stop(); <-ended }()

		w.submit(job.Spec{})
		began := time.Now()
		pass(5 * time.Second) // a third of the lease is over, and two heartbeats
		want := worker.Stats{Slots: 2, Busy: 1, Fetching: true, LastBeat: began.Add(4 * time.Second), HeartbeatsStored: 3, LeasesExtended: 1}
		if got := k.Stats(); got != want {
			t.Errorf("while it runs a task: %+v, want %+v", got, want)
		}
		s.mu.Lock()
		s.extend = func(context.Context) error { return errors.New("no answer") }
		s.mu.Unlock()
		pass(4 * time.Second)
		if got := k.Stats(); got.LeasesExtended != 1 || got.LeasesNot == 0 {
			t.Errorf("when leases cannot be extended: %+v", got)
		}
		stop()
		pass(500 * time.Millisecond)
		if got := k.Stats(); got.Fetching || got.Busy != 1 {
			t.Errorf("while it drains: %+v", got)
		}
	})
}

// An interruption is no answer to a request for work: an idle worker fetches again as soon as it is
// over, and not only when there is a task.
func TestIdleWorkerFetchesAfterAnInterruption(t *testing.T) {
	inBubble(t, func(w *world) {
		s := newStore(w.log)
		k, err := worker.New(s.ports(), worker.Config{Node: "a", Slots: 2, Beat: 2 * time.Second, NodeTTL: 6 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(w.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = k.Run(ctx) }()
		defer func() { stop(); <-ended }()
		pass(time.Second)
		s.broken <- events.Break{Reason: "the connection came back", At: time.Now()}
		pass(5 * time.Second)
		if !k.Stats().Fetching {
			t.Error("5 s after the connection came back it does not fetch")
		}
	})
}
