package connect

import (
	"context"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// Hurry is how a second signal makes a worker end at once.
type Hurry struct {
	Now     chan struct{} // closed by the second signal
	Working atomic.Bool   // this process has a worker
}

// sameSignal is how long after a signal another one counts as its echo.
const sameSignal = 200 * time.Millisecond

// lastWord is how long a worker in a hurry has to give back what it runs: a second for the log's
// answers, and a second to end the processes.
const lastWord = 2 * time.Second

// Listen returns a context that the first signal ends, which asks for a clean end. The second
// signal makes a worker hurry and soon ends the process as the signal does; without a worker it
// does so at once. A signal that comes together with the first one counts as the first: timeout(1),
// for example, sends its signal to the process and to its group.
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
