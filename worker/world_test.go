package worker_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/worker"
)

// world is a log and the workers on it. It lives in a bubble, where time passes only when every
// goroutine waits.
type world struct {
	*testing.T
	log   *events.Memory
	rec   *events.Recorder
	lease time.Duration
}

func inBubble(t *testing.T, play func(w *world)) {
	t.Helper()
	inBubbleOf(t, ackWait, play)
}

// inBubbleOf is inBubble with leases that last as long as lease says.
func inBubbleOf(t *testing.T, lease time.Duration, play func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := events.NewMemory(time.Now, lease)
		w := &world{t, log, &events.Recorder{Log: log, Actor: "test", Now: time.Now, NewID: events.NewID}, lease}
		play(w)
		for _, f := range verify.Decided(log.All()) {
			t.Errorf("%s", f.What)
		}
		for _, spin := range verify.Spins(log.All()) {
			t.Error(spin)
		}
		logtest.Alter(t, log.All(), 2, map[string]int{}, verify.Doubted)
	})
}

// pass lets time pass and lets all goroutines do what is due then.
func pass(d time.Duration) {
	wait(d)
	synctest.Wait()
}

// wait acts as a handler that takes its time and ignores its context.
func wait(d time.Duration) { <-time.After(d) }

// takes acts as a handler that takes its time, and ends early with its context.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// running is a worker whose Run has not returned.
type running struct {
	*store
	stop func()
	done chan error // gets what Run returned
}

// start starts a worker under a configuration and waits until it idles. Fields
// that the test leaves open are small numbers.
func (w *world) start(cfg worker.Config, handlers map[string]worker.Handler) *running {
	w.Helper()
	s := newStore(w.log)
	s.lease = w.lease
	return w.startOn(s, cfg, handlers)
}

// startOn is start on a store that is prepared already.
func (w *world) startOn(s *store, cfg worker.Config, handlers map[string]worker.Handler) *running {
	w.Helper()
	return w.startPorts(s, s.ports(), cfg, handlers)
}

// startPorts is startOn with ports that the test has put before the store.
func (w *world) startPorts(s *store, on worker.Ports, cfg worker.Config, handlers map[string]worker.Handler) *running {
	w.Helper()
	if cfg.Node == "" {
		cfg.Node = "a"
	}
	if cfg.Slots == 0 {
		cfg.Slots = 1
	}
	if cfg.Spool == "" {
		cfg.Spool = w.TempDir() // a node's own place is for the node, not for tests
	}
	k, err := worker.New(on, cfg)
	if err != nil {
		w.Fatal(err)
	}
	for name, h := range handlers {
		k.Handle(name, h)
	}
	ctx, cancel := context.WithCancel(w.Context())
	r := &running{store: s, stop: cancel, done: make(chan error, 1)}
	ended := make(chan struct{})
	go func() { defer close(ended); r.done <- k.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-ended })
	synctest.Wait()
	return r
}

// submit records a task of the handler "h", unless spec says otherwise.
func (w *world) submit(spec job.Spec) task.ID {
	w.Helper()
	if spec.Handler == "" && spec.Run == nil {
		spec.Handler = "h"
	}
	birth, err := birth.Of(birth.Submission{Spec: &spec}, nil, 0, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	id := task.ID(events.NewID(time.Now()))
	if _, err := w.rec.Submit(w.Context(), id, birth); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
	return id
}

// task reads a task from the log.
func (w *world) task(id task.ID) task.Task {
	w.Helper()
	t, err := w.rec.Load(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// ended waits until a task has come to its end.
func (w *world) ended(id task.ID) task.Task {
	w.Helper()
	seen := uint64(0)
	for range 100_000 {
		synctest.Wait()
		last, err := w.log.Last(w.Context())
		if err != nil {
			w.Fatal(err)
		}
		if last != seen { // else it is what it was
			if t := w.task(id); t.State.Terminal() {
				return t
			}
			seen = last
		}
		pass(10 * time.Millisecond)
	}
	w.Fatalf("task %s does not end: it is %s", id, w.task(id).State)
	return task.Task{}
}

// facts are the records of a task, without its birth.
func (w *world) facts(id task.ID) []events.Record {
	w.Helper()
	records, err := w.log.Task(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return records[1:]
}

func (w *world) wantFacts(id task.ID, want ...events.Type) {
	w.Helper()
	if got := types(w.facts(id)); !slices.Equal(got, want) {
		w.Errorf("the task has the facts %v, want %v", got, want)
	}
}

func (w *world) wantState(t task.Task, state task.State, reason string) {
	w.Helper()
	if t.State != state || t.Reason != reason {
		w.Errorf("the task is %s/%s (%s), want %s/%s", t.State, t.Reason, t.Message, state, reason)
	}
}

func types(records []events.Record) []events.Type {
	types := make([]events.Type, len(records))
	for i, r := range records {
		types[i] = r.Fact.Type
	}
	return types
}

// event is the only event of its kind among records.
func event[E any](w *world, records []events.Record) E {
	w.Helper()
	var found []E
	for _, r := range records {
		if e, ok := r.Fact.Event.(E); ok {
			found = append(found, e)
		}
	}
	if len(found) != 1 {
		w.Fatalf("there are %d events %T, want 1", len(found), *new(E))
	}
	return found[0]
}

// silent is the command that a session has vanished, as if a scheduler had looked for its
// heartbeat.
func silent(session string) node.Command {
	return node.Judged{Command: node.Vanish{Session: session, Reason: node.RanOut}, By: task.By{Lease: &task.LeaseBy{Beat: time.Now(), RanOut: true}}}
}
