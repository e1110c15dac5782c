package worker_test

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
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
