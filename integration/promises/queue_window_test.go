package promises

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	jetnames "millrace/events/jet/names"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/worker"
)

// A queue opens and closes by its calendar while no scheduler runs: two workers alone enforce it.
// While it is closed none of its offers is delivered, and another queue goes on.
func TestAQueueOpensAndClosesWithoutAScheduler(t *testing.T) {
	t.Parallel()
	nc, store := openServed(t)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c := client.New(store, "test")
	day := time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly) + ".." + time.Now().UTC().AddDate(0, 0, 2).Format(time.DateOnly)
	apply := func(open bool) {
		t.Helper()
		is := schedule.Calendar{Name: "night", Rules: []schedule.Rule{{Closed: day}}}
		if open {
			is.Rules, is.Otherwise = []schedule.Rule{{Open: day}}, schedule.Closed
		}
		if _, _, err := c.ApplyCalendar(t.Context(), is); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(queue string, n int) (ids []task.ID) {
		t.Helper()
		for i := range n {
			r, err := c.Submit(t.Context(), birth.Submission{Spec: &job.Spec{Handler: "h"}, Queue: queue, Priority: 1 + i%2})
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, r.ID)
		}
		return ids
	}
	finished := func(ids []task.ID) {
		t.Helper()
		for _, id := range ids {
			testkit.Eventually(t, fmt.Sprintf("task %s has finished", id), func() bool {
				k, err := c.Task(t.Context(), id)
				return err == nil && k.State == task.Finished
			})
		}
	}
	// handed is how many offers of the queue were ever handed out.
	handed := func() (n uint64) {
		t.Helper()
		lanes, err := store.QueueState(t.Context(), "q")
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lanes {
			n += l.Handed
		}
		return n
	}

	apply(false)
	night := "night"
	if _, err := c.LimitQueue(t.Context(), "q", queue.Limit{Window: &night}); err != nil {
		t.Fatal(err)
	}
	waiting := submit("q", 60)
	start := func(name node.ID) (stop func()) {
		t.Helper()
		w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{Node: name, Queues: []string{"q", "other"}, Slots: 8, Spool: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		w.Handle("h", func(context.Context, task.Task) error { return nil })
		ctx, cancel := context.WithCancel(t.Context())
		working := make(chan error, 1)
		go func() { working <- w.Run(ctx) }()
		return sync.OnceFunc(func() {
			cancel()
			if err := <-working; err != nil {
				t.Error(err)
			}
		})
	}
	defer start("n1")()
	stop := start("n2")
	defer stop()
	finished(submit("other", 20))
	if n := handed(); n > 0 {
		t.Errorf("%d offers of the closed queue were handed out", n)
	}

	apply(true)
	finished(waiting)

	stop() // so that the one other worker has to know
	apply(false)
	waits := func(id task.ID) bool {
		t.Helper()
		k, err := c.Task(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return k.State == task.Pending
	}
	// spurned tells whether offers of the queue wait at the server while no worker asks for one. A
	// worker that takes the queue to be open and has free slots always asks, so an offer that waits
	// has not just been overtaken.
	spurned := func() bool {
		t.Helper()
		log, err := js.Stream(t.Context(), jetnames.LogStream)
		if err != nil {
			t.Fatal(err)
		}
		there, asked := 0, 0
		lanes := log.ListConsumers(t.Context())
		for lane := range lanes.Info() {
			if lane.Config.Metadata["millrace.queue"] == "q" {
				there, asked = there+int(lane.NumPending), asked+lane.NumWaiting
			}
		}
		if err := lanes.Err(); err != nil {
			t.Fatal(err)
		}
		return there > 0 && asked == 0
	}
	testkit.Eventually(t, "the worker knows that it is closed", func() bool {
		probe := submit("q", 2) // one for each lane
		known := spurned()
		finished(submit("other", 8))
		return known && waits(probe[0]) && waits(probe[1]) && spurned()
	})
	late := submit("q", 20)
	finished(submit("other", 20))
	for _, id := range late {
		if !waits(id) {
			t.Errorf("task %s of the closed queue has started", id)
		}
	}
	none := ""
	if _, err := c.LimitQueue(t.Context(), "q", queue.Limit{Window: &none}); err != nil {
		t.Fatal(err)
	}
	finished(late)
}
