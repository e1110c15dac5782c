package worker_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
)

// stubborn ends only by force: it uses all of its grace, and then takes the kernel a moment to end.
type stubborn struct{ gone chan time.Time }

func (s stubborn) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	<-ctx.Done()
	wait(a.Grace(context.Cause(ctx)))
	s.gone <- time.Now()
	return worker.Outcome{Stopped: true}
}

// Whenever in a worker's rhythm its heartbeats fail, its processes are gone before another worker
// can have started the task: before its lease has ended by the log's account, and before the node
// can count as gone. If only the server's confirmation of the offer is missing, the attempt goes
// on.
func TestProcessesEndBeforeSomebodyElseBegins(t *testing.T) {
	const ttl = 9 * time.Second // shorter than a lease, as with the profile prod
	for name, fails := range map[string]struct{ extend, beat bool }{
		"offers": {extend: true}, "heartbeats": {beat: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for phase := time.Duration(0); phase < ackWait/3; phase += 293 * time.Millisecond {
				inBubble(t, func(w *world) {
					s := stubborn{make(chan time.Time, 1)}
					k := w.start(worker.Config{Commands: s, Beat: 3 * time.Second, NodeTTL: ttl}, nil)
					id := w.submit(job.Spec{Run: &job.Run{Shell: "x"}, Timeout: job.Timeout{Stop: value.Duration(5 * time.Minute)}})
					pass(time.Minute + phase)
					k.mu.Lock()
					cut := time.Now()
					beaten := k.beats[len(k.beats)-1]
					if fails.extend {
						k.extend = func(context.Context) error { return errBroken }
					}
					if fails.beat {
						k.beating = func() error { return errBroken }
					}
					k.mu.Unlock()
					if !slices.Equal(beaten.Runs, []uint64{w.task(id).Epoch}) {
						t.Errorf("the last heartbeat names %v", beaten.Runs)
					}
					if fails.beat {
						gone := <-s.gone
						if after := gone.Sub(beaten.at); after > min(ttl, ackWait)*11/12 || after < ttl*2/3 {
							t.Errorf("cut off %v after the last heartbeat, its processes were gone %v after it; the lease lasts %v, the heartbeat %v", cut.Sub(beaten.at), after, ackWait, ttl)
						}
					} else {
						pass(10 * ackWait)
						w.wantState(w.task(id), task.Running, "")
						w.wantFacts(id, events.AttemptStarted)
					}
					k.mu.Lock()
					k.extend, k.beating = nil, nil
					k.mu.Unlock()
				})
			}
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	inBubble(t, func(w *world) {
		w.start(worker.Config{}, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
			for range 5 {
				worker.FromContext(ctx).Output.Line(output.Stdout, "still here")
				wait(4 * time.Second)
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		began := time.Now()
		ended := w.ended(w.submit(job.Spec{Timeout: job.Timeout{Idle: value.Duration(5 * time.Second)}}))
		w.wantState(ended, task.Error, value.Timeout)
		if want := "idle timeout: said nothing for 5s"; ended.Message != want {
			t.Errorf("the message is %q, want %q", ended.Message, want)
		}
		if took := ended.EndedAt.Sub(began); took < 21*time.Second || took > 22*time.Second {
			t.Errorf("it ended after %v, want 5s after its last line", took)
		}
	})
}

// A node that is silent because it cannot fetch from everywhere takes none of the offers that still
// arrive, and does not pass them round: each delivery counts.
func TestSilentNodeTakesNothing(t *testing.T) {
	inBubble(t, func(w *world) {
		k := w.start(quick, map[string]worker.Handler{"h": done})
		set(k.store, &k.trouble, errBroken)
		pass(quick.NodeTTL)
		id := w.submit(job.Spec{})
		pass(10 * time.Second)
		w.wantState(w.task(id), task.Pending, "")
		w.wantFacts(id)
		if n := get(k.store, &k.deliveries); n != 1 {
			t.Errorf("the offer was delivered %d times", n)
		}
		set(k.store, &k.trouble, nil)
		w.wantState(w.ended(id), task.Finished, "")
	})
}

// A node that cannot store a heartbeat takes nothing: else it would claim what it has to give back
// at once, again and again. It goes on with its next stored heartbeat.
func TestNodeWithoutHeartbeatTakesNothing(t *testing.T) {
	for _, mute := range []time.Duration{0, 3 * time.Second} {
		inBubble(t, func(w *world) {
			cfg := quick
			cfg.Slots = 4
			k := w.start(cfg, map[string]worker.Handler{"h": func(ctx context.Context, _ task.Task) error {
				return takes(ctx, 100*time.Millisecond)
			}})
			set(k.store, &k.beating, func() error { wait(mute); return errBroken })
			pass(cfg.NodeTTL)
			id := w.submit(job.Spec{})
			pass(10 * time.Second)
			w.wantState(w.task(id), task.Pending, "")
			w.wantFacts(id)
			set(k.store, &k.beating, nil)
			began := time.Now()
			w.wantState(w.ended(id), task.Finished, "")
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %v until a node ran the task whose heartbeats are stored again", took)
			}
		})
	}
}
