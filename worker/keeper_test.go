package worker_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/worker"
)

// outliver is something that runs beside workers, as a process under a shim does.
type outliver struct {
	note     worker.Note
	received time.Time
	ends     chan struct{} // closed when its work is done

	mu      sync.Mutex
	until   time.Time // guarded by mu
	alone   time.Time // guarded by mu; since when no worker attends it
	stopped chan struct{}
	once    sync.Once
}

// live ends it unless a worker confirms in time that its lease holds.
func (p *outliver) live() {
	for {
		p.mu.Lock()
		left := time.Until(p.until)
		p.mu.Unlock()
		if left <= 0 {
			p.once.Do(func() { close(p.stopped) })
			return
		}
		select {
		case <-p.ends:
			return
		case <-p.stopped:
			return
		case <-time.After(left):
		}
	}
}

// keeper runs tasks as outlivers, one at a time.
type keeper struct {
	has  atomic.Pointer[outliver] // the process that an earlier worker left
	runs atomic.Int32
}

func (k *keeper) Keeps(t *task.Task) bool { return t.Spec.Adopts() }

func (k *keeper) Left() ([]*worker.Orphan, error) {
	p := k.has.Load()
	if p == nil {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return []*worker.Orphan{{Note: p.note, Received: p.received, Until: p.until, PID: 42, Gap: time.Since(p.alone), Handle: io.NopCloser(nil)}}, nil
}

func (k *keeper) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	p := k.has.Load()
	if a.Left() == nil {
		p = &outliver{ends: make(chan struct{}), stopped: make(chan struct{})}
		p.note, p.received = a.Note()
		k.has.Store(p)
		k.runs.Add(1)
	}
	a.OnHold(func(until time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.until = until
	})
	if a.Left() == nil {
		go p.live()
	}
	a.OnReported(func() { k.has.Store(nil) })
	select {
	case <-p.ends:
		return worker.Outcome{}
	case <-p.stopped:
		a.Stop(worker.ErrLeaseLost)
		return worker.Outcome{Stopped: true}
	case <-ctx.Done():
	}
	if errors.Is(context.Cause(ctx), worker.ErrLeft) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.alone = time.Now()
		return worker.Outcome{Left: true}
	}
	p.once.Do(func() { close(p.stopped) })
	return worker.Outcome{Stopped: true}
}

var adopted = job.Spec{Run: &job.Run{Shell: "x"}, OnRestart: job.RestartAdopt}

// A worker that ends leaves the task running; the next one goes on with it under the same epoch,
// and extends the lease that the first one had.
func TestRestartLeavesAndAdopts(t *testing.T) {
	inBubble(t, func(w *world) {
		k := &keeper{}
		first := w.start(worker.Config{Commands: k}, nil)
		id := w.submit(adopted)
		pass(time.Minute)
		before := w.task(id)

		first.stop()
		if err := <-first.done; err != nil {
			w.Fatal(err)
		}
		w.wantFacts(id, events.AttemptStarted)
		pass(2 * time.Second)
		w.start(worker.Config{Commands: k}, nil)
		pass(5 * ackWait)

		after := w.task(id)
		if after.State != task.Running || after.Epoch != before.Epoch || after.Session == before.Session {
			w.Errorf("the task is %s under epoch %d and session %s, was under %d and %s", after.State, after.Epoch, after.Session, before.Epoch, before.Session)
		}
		if e := event[task.AttemptAdopted](w, w.facts(id)); e.PID != 42 || e.Gap.Std() < 2*time.Second || e.Node != "a" {
			w.Errorf("adopted as %+v", e)
		}
		close(k.has.Load().ends)
		w.wantState(w.ended(id), task.Finished, "")
		w.wantFacts(id, events.AttemptStarted, events.AttemptAdopted, events.AttemptFinished)
		if k.has.Load() != nil || k.runs.Load() != 1 {
			w.Errorf("it was run %d times, and %v is left", k.runs.Load(), k.has.Load())
		}
	})
}

// No worker comes back: the process stops before its lease can have expired, and then another node
// starts the task.
func TestNobodyComesBack(t *testing.T) {
	for phase := time.Duration(0); phase < ackWait/3; phase += 571 * time.Millisecond {
		inBubble(t, func(w *world) {
			k := &keeper{}
			first := w.start(worker.Config{Commands: k}, nil)
			w.submit(adopted)
			pass(time.Minute + phase)
			first.stop()
			<-first.done
			left := time.Now()
			p := k.has.Load()
			<-p.stopped
			if took := time.Since(left); took > ackWait*11/12 || took < ackWait/2 {
				w.Errorf("phase %v: it stopped after %v", phase, took)
			}
		})
	}
}

// An attempt that was taken over meanwhile is stopped, and its output is kept as evidence.
func TestWhatIsFencedIsNotAdopted(t *testing.T) {
	inBubble(t, func(w *world) {
		k := &keeper{}
		first := w.start(worker.Config{Commands: k}, nil)
		id := w.submit(adopted)
		pass(time.Minute)
		first.stop()
		<-first.done
		lost, _, err := w.rec.Do(w.Context(), w.task(id), task.Lose{Epoch: w.task(id).Epoch, Reason: "test"})
		if err != nil {
			w.Fatal(err)
		}
		p := k.has.Load()
		w.start(worker.Config{Commands: k}, nil)
		select {
		case <-p.stopped:
		default:
			w.Error("it goes on")
		}
		pass(time.Second)
		if records := w.facts(id); len(records) < 3 || w.task(id).Late != 1 {
			w.Errorf("after %s the facts are %v", lost.State, types(records))
		}
		for _, r := range w.facts(id) {
			if r.Fact.Type == events.AttemptAdopted {
				w.Error("it was adopted")
			}
		}
	})
}

// Attempts that do not fit into the slots of the next worker are given back.
func TestAdoptionHeedsSlots(t *testing.T) {
	inBubble(t, func(w *world) {
		k := &keeper{}
		spec := adopted
		spec.Slots = 2
		first := w.start(worker.Config{Commands: k, Slots: 2}, nil)
		id := w.submit(spec)
		pass(time.Minute)
		first.stop()
		<-first.done
		w.start(worker.Config{Commands: k, Slots: 1}, nil)
		pass(time.Second)
		if e := event[task.AttemptReleased](w, w.facts(id)); e.Reason != worker.ErrCrowded.Error() {
			w.Errorf("released because of %q", e.Reason)
		}
	})
}

// The worker waits for its other tasks before it leaves those that outlive it.
func TestDrainsOthersFirst(t *testing.T) {
	inBubble(t, func(w *world) {
		k := &keeper{}
		first := w.start(worker.Config{Commands: k, Slots: 2}, map[string]worker.Handler{"h": func(context.Context, task.Task) error { wait(20 * time.Second); return nil }})
		outlives, other := w.submit(adopted), w.submit(job.Spec{})
		pass(time.Second)
		first.stop()
		pass(15 * time.Second)
		p := k.has.Load()
		p.mu.Lock()
		if !p.alone.IsZero() {
			w.Error("it was left while another task was waited for")
		}
		p.mu.Unlock()
		<-first.done
		w.wantState(w.task(other), task.Finished, "")
		w.wantState(w.task(outlives), task.Running, "")
		close(k.has.Load().ends)
	})
}
