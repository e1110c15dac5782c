package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/worker"
)

// Tasks of one key go to the node that ran the last of them, whichever node gets the offer.
func TestStickyTasks(t *testing.T) {
	inBubble(t, func(w *world) {
		handlers := map[string]worker.Handler{"h": func(context.Context, task.Task) error { return nil }}
		sticky := job.Spec{Place: job.Place{Sticky: job.StickyJob}}
		b := w.start(worker.Config{Node: "b"}, handlers)
		if got := w.ended(w.submit(sticky)); got.Node != "b" {
			t.Fatalf("the first ran on %s", got.Node)
		}
		w.start(worker.Config{Node: "a"}, handlers)
		w.start(worker.Config{Node: "c"}, handlers)
		pass(3 * time.Second)
		handed := 0
		for range 12 {
			id := w.submit(sticky)
			if got := w.ended(id); got.Node != "b" {
				t.Errorf("it ran on %s: %v", got.Node, types(w.facts(id)))
			}
			for _, r := range w.facts(id) {
				if _, ok := r.Fact.Event.(task.Reassigned); ok {
					handed++
				}
			}
		}
		if handed == 0 {
			t.Error("none of them was offered to another node first, so nothing was tried")
		}

		// The preferred node is gone: the tasks start at once where they are offered, and then
		// prefer that node.
		b.stop()
		pass(5 * time.Second)
		before := time.Now()
		first := w.ended(w.submit(sticky))
		if second := w.ended(w.submit(sticky)); first.Node == "b" || second.Node != first.Node || time.Since(before) > time.Second {
			t.Errorf("without b they ran on %s and %s within %v", first.Node, second.Node, time.Since(before))
		}
	})
}

// A node leaves a task to better nodes, if there are any.
func TestPreferredNodes(t *testing.T) {
	inBubble(t, func(w *world) {
		handlers := map[string]worker.Handler{
			"h": func(context.Context, task.Task) error { return nil },
			"once": func(_ context.Context, t task.Task) error {
				if t.Attempt == 1 {
					return errors.New("once more")
				}
				return nil
			},
		}
		gpu, err := placement.ParseSelector("gpu")
		if err != nil {
			t.Fatal(err)
		}
		spec := job.Spec{Place: job.Place{Prefer: []job.Preference{{Labels: gpu, Weight: 5}}}}
		w.start(worker.Config{Node: "a"}, handlers)
		id := w.submit(spec)
		w.ended(id)
		w.wantFacts(id, events.AttemptStarted, events.AttemptFinished)

		w.start(worker.Config{Node: "b", Labels: map[string]string{"gpu": "a100"}}, handlers)
		pass(3 * time.Second)
		for range 8 {
			if got := w.ended(w.submit(spec)); got.Node != "b" {
				t.Errorf("it ran on %s", got.Node)
			}
		}

		// A retry begins anew, and by its last attempt if so it wants.
		again := job.Spec{Handler: "once", Retry: job.Retry{Max: 1}, Place: job.Place{Sticky: job.StickyAttempt}}
		for range 6 {
			id := w.submit(again)
			got := w.ended(id)
			var nodes []string
			for _, r := range w.facts(id) {
				if e, ok := r.Fact.Event.(task.AttemptStarted); ok {
					nodes = append(nodes, e.Node)
				}
			}
			if got.State != task.Finished || len(nodes) != 2 || nodes[0] != nodes[1] {
				t.Errorf("%s, the attempts ran on %v", got.State, nodes)
			}
		}
	})
}
