package worker_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
	"millrace/worker"
)

// node reads the worker's node from the log.
func (w *world) node(id node.ID) node.Node {
	w.Helper()
	n, err := w.rec.LoadNode(w.Context(), id)
	if err != nil {
		w.Fatal(err)
	}
	return n
}

func (w *world) nodeFacts(id node.ID) []events.Type {
	w.Helper()
	records, err := w.log.Node(w.Context(), id, 0)
	if err != nil {
		w.Fatal(err)
	}
	return types(records)
}

// tell records something about a node, and has its worker hear of it.
func (w *world) tell(r *running, id node.ID, c node.Command) {
	w.Helper()
	if _, _, err := w.rec.DoNode(w.Context(), id, c); err != nil {
		w.Fatal(err)
	}
	_ = r.Hint(id, "") // always nil
	pass(0)
}

func set[T any](s *store, field *T, to T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*field = to
}

// quick is a worker that beats each second.
var quick = worker.Config{Beat: time.Second, NodeTTL: 3 * time.Second}

// blocks runs until the test ends it, or its worker.
func blocks(end chan struct{}) map[string]worker.Handler {
	return map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
		select {
		case <-end:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}}
}

func done(context.Context, task.Task) error { return nil }

func TestReadyIsProved(t *testing.T) {
	inBubble(t, func(w *world) {
		blocked := errors.New("blocked")
		s := newStore(w.log)
		s.prove = func(ctx context.Context) error { return blocked }
		told := 0
		cfg := quick
		cfg.Ready = func() { told++ }
		a := w.startOn(s, cfg, map[string]worker.Handler{"h": done})
		id := w.submit(job.Spec{})
		pass(10 * time.Second)
		if n := w.node("a"); n.State != node.Online || n.Takes() || told != 0 {
			w.Errorf("without a proof it is %s, takes work %v, told %d times", n.State, n.Takes(), told)
		}
		if now := w.task(id); now.State != task.Pending {
			w.Errorf("without a proof it took a task: %s", now.State)
		}
		set(a.store, &a.prove, nil)
		w.wantState(w.ended(id), task.Finished, "")
		if n := w.node("a"); n.State != node.Ready || n.Took.Std() < 10*time.Second || told != 1 {
			w.Errorf("it is %s after %v, told %d times", n.State, n.Took, told)
		}
		if got := w.nodeFacts("a"); !slices.Equal(got, []events.Type{events.NodeRegistered, events.NodeOnline, events.NodeReady}) {
			w.Errorf("its facts are %v", got)
		}
	})
}

// After each interruption the node first comes online, presents what it runs, and proves its route
// again.
func TestReconnect(t *testing.T) {
	inBubble(t, func(w *world) {
		end := make(chan struct{})
		cfg := quick
		cfg.Slots = 2
		a := w.start(cfg, blocks(end))
		kept, stopped := w.submit(job.Spec{}), w.submit(job.Spec{})
		before := w.task(stopped)
		// While the node was away, another one took over one of its tasks.
		if _, _, err := w.rec.Do(w.Context(), before, task.Lose{Epoch: before.Epoch, Reason: "test"}); err != nil {
			w.Fatal(err)
		}
		a.broken <- events.Break{At: time.Now().Add(-5 * time.Millisecond), Reason: "the connection came back"}
		pass(100 * time.Millisecond)
		n := w.node("a")
		if n.State != node.Ready || n.Connection != 2 || n.Kept != 1 || n.Stopped != 1 || n.Took != value.Duration(5*time.Millisecond) {
			w.Errorf("it came back as %+v", n)
		}
		if got := w.nodeFacts("a"); !slices.Equal(got[3:], []events.Type{events.NodeOnline, events.NodeReady}) {
			w.Errorf("its facts are %v", got)
		}
		if w.task(kept).State != task.Running {
			w.Errorf("what is its own is %s", w.task(kept).State)
		}
		w.wantFacts(stopped, events.AttemptStarted, events.AttemptLost, events.AttemptLate)
		close(end)
		w.wantState(w.ended(kept), task.Finished, "")
	})
}

// A worker whose first heartbeat comes while a leader is elected begins a little later; it does not
// end.
func TestFirstHeartbeatInVain(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		ends bool
	}{
		"no leader": {err: events.ErrNoStream},
		"no answer": {err: events.ErrUnknown},
		"too late":  {err: context.DeadlineExceeded},
		"not ours":  {err: node.ErrSuperseded, ends: true},
		"denied":    {err: errBroken, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(w *world) {
				s := newStore(w.log)
				set(s, &s.beating, func() error { return c.err })
				k, err := worker.New(s.ports(), worker.Config{Node: "a", Slots: 1, Spool: w.TempDir()})
				if err != nil {
					w.Fatal(err)
				}
				ctx, stop := context.WithCancel(w.Context())
				done := make(chan error, 1)
				go func() { done <- k.Run(ctx) }()
				pass(5 * time.Second)
				set(s, &s.beating, nil)
				pass(20 * time.Second)
				if ready := w.node("a").State == node.Ready; ready == c.ends {
					w.Errorf("ready is %v", ready)
				}
				stop()
				if err := <-done; (err != nil) != c.ends {
					w.Errorf("Run returned %v", err)
				}
			})
		})
	}
}

// While a leader is elected the worker does not ask as fast as it can, even if it has other work,
// and logs once what it waits for.
func TestHeartbeatsInVain(t *testing.T) {
	inBubble(t, func(w *world) {
		cfg := quick
		var said bytes.Buffer
		cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		a := w.start(cfg, nil)
		pass(5 * time.Second)
		tries := 0
		set(a.store, &a.beating, func() error { tries++; return events.ErrNoStream })
		a.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
		pass(30 * time.Second)
		set(a.store, &a.beating, nil)
		pass(2 * time.Second)
		if tries < 20 || tries > 100 {
			w.Errorf("it tried %d times in 30s", tries)
		}
		if n := w.node("a"); n.State != node.Ready {
			w.Errorf("with a leader it is %s", n.State)
		}
		if n, again := strings.Count(said.String(), "heartbeat not stored"), strings.Count(said.String(), "heartbeats are stored again"); n != 1 || again != 1 {
			w.Errorf("it said %d times that it tries again, and %d times that it succeeded:\n%s", n, again, &said)
		}
	})
}

// A node that cannot fetch sends no heartbeats.
func TestNoBeatWithoutFetching(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(quick, nil)
		pass(5 * time.Second)
		set(a.store, &a.trouble, errors.New("nothing answers"))
		pass(time.Second)
		beats := len(get(a.store, &a.beats))
		pass(20 * time.Second)
		if more := len(get(a.store, &a.beats)) - beats; more > 0 {
			w.Errorf("it beat %d times while it could not fetch", more)
		}
		if _, _, err := w.rec.DoNode(w.Context(), "a", silent(w.node("a").Session)); err != nil {
			w.Fatal(err)
		}
		set(a.store, &a.trouble, nil)
		pass(2 * time.Second)
		if n := w.node("a"); n.State != node.Ready || len(get(a.store, &a.beats)) == beats {
			w.Errorf("when it can fetch again it is %s", n.State)
		}
	})
}

// A node's whole chain is read once, when the worker registers: a node of long standing has
// thousands of facts.
func TestChainIsReadOnce(t *testing.T) {
	inBubble(t, func(w *world) {
		for range 3 {
			a := w.start(quick, blocks(nil))
			a.stop()
			<-a.done
		}
		s := newStore(w.log)
		a := w.startOn(s, quick, blocks(nil))
		pass(time.Minute)
		w.tell(a, "a", node.Change{Order: node.OrderCordon})
		a.stop()
		if err := <-a.done; err != nil {
			w.Fatal(err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if whole := slices.Index(s.from[1:], 0); s.from[0] != 0 || whole >= 0 {
			w.Errorf("it was read from %v on", s.from)
		}
		if n := w.node("a"); n.State != node.Offline || !n.Leaving {
			w.Errorf("the node is %s, leaving: %v", n.State, n.Leaving)
		}
	})
}

func TestOrders(t *testing.T) {
	inBubble(t, func(w *world) {
		end := make(chan struct{})
		var said strings.Builder
		cfg := quick
		cfg.Grace = time.Hour
		cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		a := w.start(cfg, blocks(end))
		runs := w.submit(job.Spec{})

		w.tell(a, "a", node.Change{Order: node.OrderCordon})
		waits := w.submit(job.Spec{})
		pass(5 * time.Second)
		if w.task(runs).State != task.Running || w.task(waits).State != task.Pending {
			w.Errorf("cordoned: what runs is %s, what waits %s", w.task(runs).State, w.task(waits).State)
		}
		began := time.Now()
		w.tell(a, "a", node.Change{Order: node.OrderDrain, Grace: value.Duration(7 * time.Second)})
		pass(6 * time.Second)
		if w.task(runs).State != task.Running || w.node("a").State != node.Draining {
			w.Errorf("within the grace what runs is %s, the node %s", w.task(runs).State, w.node("a").State)
		}
		pass(2 * time.Second)
		if now := w.task(runs); now.State != task.Pending || now.Since.Sub(began) != 7*time.Second || now.Failures != 0 {
			w.Errorf("after the grace what ran is %s since %v", now.State, now.Since.Sub(began))
		}
		select {
		case err := <-a.done:
			w.Fatalf("the worker ended: %v", err)
		default:
		}
		close(end)
		w.tell(a, "a", node.Change{})
		for _, id := range []task.ID{runs, waits} {
			w.wantState(w.ended(id), task.Finished, "")
		}
		for words, times := range map[string]int{"this node takes no work for now": 2, `order="cordoned by`: 1, `order="drained by`: 1, "this node takes work again": 1} {
			if n := strings.Count(said.String(), words); n != times {
				w.Errorf("it says %q %d times, want %d", words, n, times)
			}
		}
		// A new worker finds the order that was given to the old one.
		w.tell(a, "a", node.Change{Order: node.OrderCordon})
		a.stop()
		<-a.done
		told := 0
		cfg.Ready = func() { told++ }
		a = w.start(cfg, blocks(end))
		id := w.submit(job.Spec{})
		pass(5 * time.Second)
		if n := w.node("a"); w.task(id).State != task.Pending || n.State != node.Ready || told != 1 {
			w.Errorf("after a restart the node is %s, the task %s, told %d times", n.State, w.task(id).State, told)
		}
		w.tell(a, "a", node.Change{})
		w.wantState(w.ended(id), task.Finished, "")
	})
}

// A node that comes back too often is quarantined, and later released automatically. Its worker says
// both, once.
func TestFlappingWorker(t *testing.T) {
	inBubble(t, func(w *world) {
		var said strings.Builder
		cfg := quick
		cfg.Log = slog.New(slog.NewTextHandler(&said, nil))
		a := w.start(cfg, map[string]worker.Handler{"h": done})
		// Another node serves the queue, though it takes no work in this story.
		w.tell(a, "b", node.Register{Session: "b", Profile: node.Profile{Queues: []string{placement.DefaultQueue}}})
		w.tell(a, "b", node.Beat{Session: "b"})
		for range 13 {
			pass(2 * time.Second)
			a.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
		}
		pass(time.Second)
		n := w.node("a")
		if n.State != node.Quarantined || n.Quarantine == nil {
			w.Fatalf("it is %s with a score of %.1f", n.State, n.Flap.Score)
		}
		proofs := get(a.store, &a.proofs)
		id := w.submit(job.Spec{})
		pass(time.Until(n.Quarantine.Until) - time.Second)
		if w.task(id).State != task.Pending || w.node("a").State != node.Quarantined || get(a.store, &a.proofs) != proofs {
			w.Errorf("in quarantine the task is %s, the node %s", w.task(id).State, w.node("a").State)
		}
		pass(3 * time.Second)
		w.wantState(w.ended(id), task.Finished, "")
		if n := w.node("a"); n.State != node.Ready || n.Flap.Score != 0 {
			w.Errorf("afterwards it is %s with a score of %.1f", n.State, n.Flap.Score)
		}
		a.stop()
		<-a.done
		for words, times := range map[string]int{"this node takes no work for now": 1, "state=quarantined": 1, "this node takes work again": 1} {
			if n := strings.Count(said.String(), words); n != times {
				w.Errorf("it says %q %d times, want %d", words, n, times)
			}
		}
	})
}

// A node that is the only one to do the work is released as soon as it has stayed for a while.
func TestFlappingWorkerAlone(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(quick, map[string]worker.Handler{"h": done})
		for range 13 {
			pass(2 * time.Second)
			a.broken <- events.Break{At: time.Now(), Reason: "the connection came back"}
		}
		pass(time.Second)
		if n := w.node("a"); n.State != node.Quarantined {
			w.Fatalf("it is %s with a score of %.1f", n.State, n.Flap.Score)
		}
		id := w.submit(job.Spec{})
		pass(node.ShortSession - 3*time.Second)
		if w.task(id).State != task.Pending {
			w.Errorf("in quarantine the task is %s", w.task(id).State)
		}
		pass(5 * time.Second)
		w.wantState(w.ended(id), task.Finished, "")
	})
}

// An offer that comes just as the node stops taking work goes to another node at once.
func TestOfferAtTheLastMoment(t *testing.T) {
	inBubble(t, func(w *world) {
		end := make(chan struct{})
		a := w.start(quick, blocks(end))
		a.stop()
		id := w.submit(job.Spec{})
		w.start(worker.Config{Node: "b"}, map[string]worker.Handler{"h": done})
		if ended := w.ended(id); ended.Node != "b" || ended.StartedAt.Sub(ended.SubmittedAt) > time.Second {
			w.Errorf("it started on %s after %v", ended.Node, ended.StartedAt.Sub(ended.SubmittedAt))
		}
		close(end)
	})
}

// A worker that is told to hurry gives back what runs without any grace.
func TestHurry(t *testing.T) {
	inBubble(t, func(w *world) {
		now := make(chan struct{})
		a := w.start(worker.Config{Grace: time.Hour, Hurry: now}, blocks(nil))
		id := w.submit(job.Spec{})
		a.stop()
		pass(time.Minute)
		if w.task(id).State != task.Running {
			w.Errorf("within the grace it is %s", w.task(id).State)
		}
		close(now)
		began := time.Now()
		if err := <-a.done; err != nil || time.Since(began) > 2*time.Second {
			w.Errorf("it ended after %v: %v", time.Since(began), err)
		}
		w.wantFacts(id, events.AttemptStarted, events.AttemptReleased, events.TaskQueued)
		if n := w.node("a"); n.State != node.Offline || n.Short != 0 {
			w.Errorf("it left as %s", n.State)
		}
	})
}

func TestRetiredWorkerEnds(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(quick, nil)
		for _, c := range []node.Command{silent(w.node("a").Session), node.Retire{}} {
			if _, _, err := w.rec.DoNode(w.Context(), "a", c); err != nil {
				w.Fatal(err)
			}
		}
		if err := <-a.done; !errors.Is(err, node.ErrRetired) {
			w.Errorf("it ended with %v", err)
		}
	})
}

// A worker that slept for so long that its node was retired by itself goes on under the same name.
func TestForgottenWorkerGoesOn(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(quick, map[string]worker.Handler{"h": done})
		for _, c := range []node.Command{silent(w.node("a").Session), node.Forget{At: time.Now().Add(24 * time.Hour), After: 24 * time.Hour}} {
			if _, _, err := w.rec.DoNode(w.Context(), "a", c); err != nil {
				w.Fatal(err)
			}
		}
		if n := w.node("a"); n.State != node.Retired {
			w.Fatalf("it is %s", n.State)
		}
		pass(time.Minute)
		id := w.submit(job.Spec{Place: job.Place{Nodes: []string{"a"}}})
		pass(time.Minute)
		if n, k := w.node("a"), w.task(id); n.State != node.Ready || k.State != task.Finished {
			w.Errorf("the node is %s, and a task for it %s", n.State, k.State)
		}
	})
}

// A worker whose name another process has taken ends its tasks before they can start elsewhere,
// however long their grace is.
func TestSucceededWorkerEndsWhatRuns(t *testing.T) {
	inBubble(t, func(w *world) {
		a := w.start(worker.Config{Beat: time.Second, NodeTTL: 3 * time.Second, Grace: time.Hour}, blocks(nil))
		id := w.submit(job.Spec{})
		pass(time.Second)
		if w.task(id).State != task.Running {
			w.Fatalf("it is %s", w.task(id).State)
		}
		began := time.Now()
		w.tell(a, "a", node.Register{Session: "another"})
		if err := <-a.done; !errors.Is(err, node.ErrSuperseded) || time.Since(began) > node.Succession {
			w.Errorf("it ended after %v: %v", time.Since(began), err)
		}
		w.wantFacts(id, events.AttemptStarted, events.AttemptReleased, events.TaskQueued)
	})
}
