package promises

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/integration/harness"
	"millrace/projections"
	"millrace/scheduler"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/worker"
)

// late is a read model that takes its time to answer.
type late struct {
	*projections.Store
	by time.Duration
}

func (l late) Known(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	tasks, err := l.Store.Known(ctx, ids)
	select { // the answer is older than the present by then
	case <-ctx.Done():
	case <-time.After(l.by):
	}
	return tasks, err
}

// decider is a scheduler with its read model.
type decider struct {
	*scheduler.Scheduler
	view *projections.Store
	stop context.CancelFunc
	done chan error // one for each of the two
}

func startDecider(t *testing.T, store *jet.Store, file string, slow time.Duration) *decider {
	t.Helper()
	view, err := projections.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := scheduler.New(store, late{view, slow}, store, scheduler.Config{Hints: store})
	d := &decider{Scheduler: s, view: view, stop: stop, done: make(chan error, 2)}
	go func() { d.done <- s.Run(ctx) }()
	go func() {
		d.done <- (&projections.Projector{Log: store, Store: view, Observers: []projections.Observer{s}}).Run(ctx)
	}()
	return d
}

// end stops it, and reports what it had to repair.
func (d *decider) end(t *testing.T) {
	t.Helper()
	d.stop()
	for range 2 {
		if err := <-d.done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if r := d.Repairs(); len(r) > 0 {
		t.Errorf("repairs were needed: %v", r)
	}
	if err := d.view.Close(); err != nil {
		t.Error(err)
	}
}

// A graph goes on, each step once, whatever befalls schedulers and read models meanwhile.
func TestGraphOutlivesSchedulers(t *testing.T) {
	t.Parallel()
	n, width := 1500, 50
	if *harness.Long {
		n, width = 60_000, 1000
	}
	store := openLog(t)

	w, err := worker.New(worker.Ports{Log: store, Offers: store, Nodes: store, Outputs: store}, worker.Config{Node: "n1", Queues: []string{"default"}, Slots: 64})
	if err != nil {
		t.Fatal(err)
	}
	var begun atomic.Int64
	step := make(chan int64, n)
	w.Handle("x", func(context.Context, task.Task) error {
		step <- begun.Add(1)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	working := make(chan error, 1)
	defer func() {
		stop()
		if err := <-working; err != nil {
			t.Error(err)
		}
	}()
	go func() { working <- w.Run(ctx) }()

	file := filepath.Join(t.TempDir(), "view.db")
	d := startDecider(t, store, file, 0)
	steps := make([]birth.Submission, n)
	for i := range steps {
		steps[i] = birth.Submission{ID: task.ID(events.NewID(time.Now())), Fresh: true, Spec: &job.Spec{Handler: "x"}}
		if before := i/width - 1; before >= 0 {
			of := func(k int) task.Need { return task.Need{Task: steps[before*width+(i+k)%width].ID} }
			steps[i].Needs = &task.Needs{Of: []task.Need{of(0), of(1)}}
		}
	}
	if err := client.New(store, "test").SubmitAll(t.Context(), steps, nil); err != nil {
		t.Fatal(err)
	}
	second := startDecider(t, store, filepath.Join(t.TempDir(), "view.db"), 5*time.Millisecond)
	restarts := map[int64]func(){
		int64(n / 5): func() { // the read model is where it was
			d.end(t)
			d = startDecider(t, store, file, 20*time.Millisecond)
		},
		int64(2 * n / 5): func() { second.end(t); second = nil }, // one alone
		int64(3 * n / 5): func() { // the read model is made anew
			d.end(t)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			d = startDecider(t, store, file, 0)
		},
	}
	quiet := time.NewTimer(time.Minute)
	for range n {
		select {
		case now := <-step:
			if do := restarts[now]; do != nil {
				do()
			}
			quiet.Reset(time.Minute)
		case <-quiet.C:
			t.Fatalf("%d of %d steps have begun, and none for a minute", begun.Load(), n)
		}
	}
	d.end(t)
	if second != nil {
		second.end(t)
	}
}
