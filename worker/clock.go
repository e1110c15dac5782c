package worker

import (
	"sync"
	"time"
)

// runClock ends an attempt when its run timeout passes, which may move.
type runClock struct {
	mu    sync.Mutex
	until time.Time   // guarded by mu
	timer *time.Timer // set before the attempt begins; nil without a run timeout
}

// watchRun stops the attempt when its run timeout passes.
func (a *Attempt) watchRun() {
	a.clock.until = a.Deadline
	a.clock.timer = whenOver(time.Until(a.Deadline), func() time.Duration { return time.Until(a.until()) }, func() { a.stop(ErrTimeout) })
}

// until is when the run timeout passes; zero if there is none.
func (a *Attempt) until() time.Time {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.clock.until
}

// runUntil moves the run timeout, never back, and returns when it passes now.
func (a *Attempt) runUntil(until time.Time) time.Time {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	if until.After(a.clock.until) {
		a.clock.until = until
	}
	return a.clock.until
}

// watchSilence stops the attempt when it has said nothing for timeout.idle, or
// sent no message for timeout.heartbeat.
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

// whenOver calls over after d if left says then that nothing is left, else as much
// later as is left.
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
