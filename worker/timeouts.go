package worker

import (
	"sync"
	"time"

	"millrace/task"
)

// runTimeout ends an attempt when its run timeout passes. The timeout may be extended.
type runTimeout struct {
	mu    sync.Mutex
	until time.Time   // guarded by mu; by the clock of the log
	here  time.Time   // guarded by mu; the same by the monotonic clock
	timer *time.Timer // set before the attempt begins; nil without a run timeout
}

// watchRun stops the attempt when the rest of its run timeout has passed.
func (a *Attempt) watchRun(rest time.Duration) {
	a.timeout.until, a.timeout.here = a.Deadline, time.Now().Add(rest)
	a.timeout.timer = whenOver(rest, a.remaining, func() { a.stop(ErrTimeout) })
}

// remaining returns the rest of the run timeout.
func (a *Attempt) remaining() time.Duration {
	a.timeout.mu.Lock()
	defer a.timeout.mu.Unlock()
	return time.Until(a.timeout.here)
}

// until returns when the run timeout passes; zero if there is none.
func (a *Attempt) until() time.Time {
	a.timeout.mu.Lock()
	defer a.timeout.mu.Unlock()
	return a.timeout.until
}

// runUntil extends the run timeout, never shortens it, and returns when it now passes.
func (a *Attempt) runUntil(until time.Time) time.Time {
	a.timeout.mu.Lock()
	defer a.timeout.mu.Unlock()
	if until.After(a.timeout.until) {
		a.timeout.here = a.timeout.here.Add(until.Sub(a.timeout.until))
		a.timeout.until = until
	}
	return a.timeout.until
}

// watchSilence stops the attempt when its program has been silent for timeout.idle, or has sent no
// message for timeout.heartbeat.
func (a *Attempt) watchSilence() {
	since := func(last func() time.Time, d time.Duration) func() time.Duration {
		return func() time.Duration { return d - time.Since(last()) }
	}
	if d := a.Task.Spec.Timeout.Idle.Std(); d > 0 {
		a.silence = whenOver(d, since(a.Output.lastHeard, d), func() { a.stop(ErrIdle) })
	}
	if d := a.Task.Spec.Timeout.Heartbeat.Std(); d > 0 {
		a.quiet = whenOver(d, since(a.Output.lastBeat, d), func() { a.stop(ErrHeartbeat) })
	}
}

// whenOver calls over after d if left then returns zero or less; else it waits for the time left
// and looks again.
func whenOver(d time.Duration, left func() time.Duration, over func()) *time.Timer {
	var timer *time.Timer
	armed := make(chan struct{})
	timer = time.AfterFunc(d, func() {
		<-armed
		if more := left(); more > 0 {
			timer.Reset(more)
			return
		}
		over()
	})
	close(armed)
	return timer
}

// ran is how long an attempt has run whose offer was received at that reading of the monotonic
// clock; never longer than since then, whatever the clocks say.
func (w *Worker) ran(t *task.Task, received time.Time) time.Duration {
	return min(max(w.cfg.Now().Sub(t.StartedAt), 0), time.Since(received))
}

// allowed is how long the attempt was allowed to run, extensions included.
func (a *Attempt) allowed() time.Duration {
	if until := a.until(); until.After(a.Deadline) {
		return until.Sub(a.Task.StartedAt).Round(time.Millisecond)
	}
	return a.Deadline.Sub(a.Task.StartedAt).Round(time.Millisecond)
}
