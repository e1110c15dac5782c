package testkit

import (
	"sync/atomic"
	"testing"
	"time"
)

// Starvation measures by how much timers of this very process are late until the test ends: other processes may have the
// processors. What it returns gives the most so far. A test that says how soon something happens that takes the hands of
// so many goroutines adds that for each of them.
func Starvation(t testing.TB) (most func() time.Duration) {
	var worst atomic.Int64
	const step = 2 * time.Millisecond
	tick, done, ended := time.NewTicker(step), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := time.Now(); ; {
			select {
			case <-tick.C:
				now := time.Now()
				worst.Store(max(worst.Load(), int64(now.Sub(last)-step)))
				last = now
			case <-done:
				return
			}
		}
	}()
	t.Cleanup(func() {
		tick.Stop()
		close(done)
		<-ended
	})
	return func() time.Duration { return time.Duration(worst.Load()) }
}
