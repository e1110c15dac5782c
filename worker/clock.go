package worker

import (
	"sync"
	"time"
)

// runClock ends an attempt when its run timeout passes. The timeout may be extended.
type runClock struct {
	mu    sync.Mutex
	until time.Time   // guarded by mu; by the clock of the log
	here  time.Time   // guarded by mu; the same by the monotonic clock
	timer *time.Timer // set before the attempt begins; nil without a run timeout
}

// watchRun stops the attempt when the rest of its run timeout has passed.
func (a *Attempt) watchRun(left time.Duration) {
	a.clock.until, a.clock.here = a.Deadline, time.Now().Add(left)
	a.clock.timer = whenOver(left, a.left, func() { a.stop(ErrTimeout) })
}

// left returns the rest of the run timeout.
func (a *Attempt) left() time.Duration {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return time.Until(a.clock.here)
}

// until returns when the run timeout passes; zero if there is none.
func (a *Attempt) until() time.Time {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.clock.until
}

// runUntil extends the run timeout, never shortens it, and returns when it now passes.
func (a *Attempt) runUntil(until time.Time) time.Time {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	if until.After(a.clock.until) {
		a.clock.here = a.clock.here.Add(until.Sub(a.clock.until))
		a.clock.until = until
	}
	return a.clock.until
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
