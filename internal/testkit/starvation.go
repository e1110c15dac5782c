package testkit

import (
	"sync/atomic"
	"testing"
	"time"
)

// Starvation measures until the test ends how late the timers of this process are, because other
// processes may use the processors. The returned function gives the largest delay so far. A test
// that bounds the time of a step adds this delay once for each goroutine that takes part in the
// step.
func Starvation(t testing.TB) (most func() time.Duration) {
	var worst atomic.Int64
	const step = 2 * time.Millisecond
	ticker, done, ended := time.NewTicker(step), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := time.Now(); ; {
			select {
			case <-ticker.C:
				now := time.Now()
				worst.Store(max(worst.Load(), int64(now.Sub(last)-step)))
				last = now
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		ticker.Stop()
		close(done)
		<-ended
	})
	return func() time.Duration { return time.Duration(worst.Load()) }
}
