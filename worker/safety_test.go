package worker_test

import (
	"context"
	"testing"
	"time"

	"millrace/task"
	"millrace/worker"
)

// stubborn runs what ends only by force: it uses all the grace that it is given,
// and then takes the kernel a moment to end.
type stubborn struct{ gone chan time.Time }

func (s stubborn) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	<-ctx.Done()
	wait(a.Grace(context.Cause(ctx)))
	s.gone <- time.Now()
	return worker.Outcome{Stopped: true}
}

// Whatever fails, and whenever in the rhythm of the worker, its processes are
// gone before anybody else can have started the task: before the lease can have
// run out, and before the node can count as gone.
func TestProcessesEndBeforeSomebodyElseBegins(t *testing.T) {
	const ttl = 9 * time.Second // shorter than a lease, as with the profile prod
	for name, fails := range map[string]struct{ extend, beat bool }{
		"leases": {extend: true}, "heartbeats": {beat: true}, "both": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			for phase := time.Duration(0); phase < ackWait/3; phase += 293 * time.Millisecond {
				inBubble(t, func(w *world) {
					s := stubborn{make(chan time.Time, 1)}
					k := w.start(worker.Config{Commands: s, Beat: 3 * time.Second, NodeTTL: ttl}, nil)
					w.submit(task.Spec{Run: &task.Run{Shell: "x"}, Timeout: task.Timeout{Stop: task.Duration(time.Hour)}})
					pass(time.Minute + phase)
					var confirmed, beaten time.Time
					k.mu.Lock()
					cut := time.Now()
					confirmed, beaten = k.extended, k.beats[len(k.beats)-1].at
					if fails.extend {
						k.extend = func(context.Context) error { return errBroken }
					}
					if fails.beat {
						k.beating = func() error { return errBroken }
					}
					k.mu.Unlock()
					gone := <-s.gone
					if fails.extend && gone.Sub(confirmed) > ackWait*11/12 {
						t.Errorf("cut off %v after the last renewal, its processes were gone %v after it; the lease lasts %v", cut.Sub(confirmed), gone.Sub(confirmed), ackWait)
					}
					if fails.beat && gone.Sub(beaten) > ttl*11/12 {
						t.Errorf("cut off %v after the last heartbeat, its processes were gone %v after it; the node counts as gone after %v", cut.Sub(beaten), gone.Sub(beaten), ttl)
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
				worker.FromContext(ctx).Output.Line(task.Stdout, "still here")
				wait(4 * time.Second)
			}
			<-ctx.Done()
			return ctx.Err()
		}})
		began := time.Now()
		ended := w.ended(w.submit(task.Spec{Timeout: task.Timeout{Idle: task.Duration(5 * time.Second)}}))
		w.wantState(ended, task.Error, task.ReasonTimeout)
		if want := "idle timeout: said nothing for 5s"; ended.Message != want {
			t.Errorf("the message is %q, want %q", ended.Message, want)
		}
		if took := ended.EndedAt.Sub(began); took < 21*time.Second || took > 22*time.Second {
			t.Errorf("it ended after %v, want 5s after its last line", took)
		}
	})
}
