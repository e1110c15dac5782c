package reach

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// Hurry is what a second signal asks of a worker: to end at once.
type Hurry struct {
	Now     chan struct{} // closed then
	Working atomic.Bool   // there is a worker in this process
}

// sameSignal is how long after a signal another one is taken for its echo.
const sameSignal = 200 * time.Millisecond

// lastWord is how long a worker in a hurry has to give back what it runs: a second
// to be answered by the log, and as much to end the processes.
const lastWord = 2 * time.Second

// Listen returns a context that the first signal ends: it asks for a clean end.
// The second one asks a worker to hurry and, soon after, ends the process as a
// signal does; where no worker runs it does so at once. What comes at the same
// time as the first one is the first one again: timeout(1), for one, sends its
// signal to the process and to its group.
func (h *Hurry) Listen(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var first time.Time
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				switch {
				case first.IsZero():
					first = time.Now()
					cancel()
				case time.Since(first) < sameSignal:
				case h.Working.Load():
					close(h.Now)
					select {
					case <-done:
						return
					case <-time.After(lastWord):
					}
					die(s)
					return
				default:
					die(s)
					return
				}
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}

// die ends the process by the signal that it got.
func die(s os.Signal) {
	signal.Reset(os.Interrupt, syscall.SIGTERM)
	if number, ok := s.(syscall.Signal); ok {
		_ = syscall.Kill(os.Getpid(), number)
	}
}
