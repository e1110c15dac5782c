package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/worker"
)

// However many of its last messages the log loses while it is away, the worker registers what is
// missing and takes work again.
func TestLogLosesItsLastMessages(t *testing.T) {
	for lost := 1; lost <= 6; lost++ {
		inBubble(t, func(w *world) {
			k := w.start(worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}, map[string]worker.Handler{"h": done})
			w.submit(job.Spec{})
			pass(3 * time.Second)
			w.log.Lose(lost)
			k.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
			pass(10 * time.Second)
			n, err := w.rec.LoadNode(t.Context(), "a")
			if err != nil || n.State != node.Ready {
				t.Errorf("after a loss of %d messages the node is %s, error %v", lost, n.State, err)
			}
			id := w.submit(job.Spec{})
			pass(10 * time.Second)
			if now := w.task(id); now.State != task.Finished {
				t.Errorf("after a loss of %d messages a task is %s", lost, now.State)
			}
		})
	}
}

// The log has lost the node's last fact, and an operator's order has its sequence: the worker hears of the
// order all the same.
func TestOrderInThePlaceOfALostFact(t *testing.T) {
	inBubble(t, func(w *world) {
		k := w.start(worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}, map[string]worker.Handler{"h": done})
		pass(3 * time.Second)
		w.log.Lose(1)
		if _, _, err := w.rec.DoNode(t.Context(), "a", node.Change{Order: node.OrderCordon}); err != nil {
			t.Fatal(err)
		}
		k.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
		pass(10 * time.Second)
		id := w.submit(job.Spec{})
		pass(10 * time.Second)
		if now := w.task(id); now.State != task.Pending {
			t.Errorf("on a node that is cordoned a task is %s", now.State)
		}
	})
}

// What a worker knows of another node is void where the log has lost it: the worker reads it anew, and leaves
// tasks to that node again.
func TestOthersOnALogThatLosesMessages(t *testing.T) {
	inBubble(t, func(w *world) {
		gpu, err := placement.ParseSelector("gpu")
		if err != nil {
			t.Fatal(err)
		}
		spec := job.Spec{Place: job.Place{Prefer: []job.Preference{{Labels: gpu, Weight: 5}}}}
		beats := worker.Config{Node: "a", Beat: 2 * time.Second, NodeTTL: 6 * time.Second}
		w.start(beats, map[string]worker.Handler{"h": done})
		ready, err := w.log.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		beats.Node, beats.Labels = "b", map[string]string{"gpu": ""}
		b := w.start(beats, map[string]worker.Handler{"h": done})
		runsOnB := func() {
			t.Helper()
			for range 4 { // whichever gets the offer
				if now := w.ended(w.submit(spec)); now.Node != "b" {
					t.Errorf("the task ran on %s", now.Node)
				}
			}
		}
		runsOnB()
		last, err := w.log.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.log.Lose(int(last - ready))
		w.ended(w.submit(job.Spec{})) // its facts lie where those of the other node did
		b.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
		pass(10 * time.Second)
		runsOnB()
	})
}

// A node takes nothing while it does not know yet whether its session is still that of its node: over a new
// connection of which its loop has not heard, because it waits for an answer, and while it registers anew.
func TestNothingBeginsUnproved(t *testing.T) {
	for name, happens := range map[string]func(*world, *running){
		"an interruption during a heartbeat": func(w *world, k *running) {
			set(k.store, &k.beating, func() error { wait(time.Second); return nil })
			pass(2500 * time.Millisecond) // the second heartbeat is under way
			k.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
		},
		"it registers anew": func(w *world, k *running) {
			set(k.store, &k.prove, func(context.Context) error { wait(time.Second); return nil })
			pass(3 * time.Second)
			w.log.Lose(1)
			pass(1500 * time.Millisecond) // the heartbeat has found that, and the proof is under way
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				k := w.start(worker.Config{Beat: 2 * time.Second, NodeTTL: 6 * time.Second}, map[string]worker.Handler{"h": done})
				happens(w, k)
				id := w.submit(job.Spec{})
				if now := w.task(id); now.State != task.Pending {
					t.Errorf("the task is %s", now.State)
				}
				pass(5 * time.Second)
				if now := w.task(id); now.State != task.Finished {
					t.Errorf("later the task is %s", now.State)
				}
			})
		})
	}
}
