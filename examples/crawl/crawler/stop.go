package crawler

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

const (
	// grace is how long pages in flight may take after a signal, or after a
	// CANCEL that names no deadline.
	grace = 5 * time.Second
	// reserve is how much of the time to a deadline is kept for the last words:
	// a fourth, and no more than this.
	reserve = time.Second
)

// stopper turns the ways to be asked to stop into two steps: from the first
// request on no new page is taken, and at the deadline those in flight are aborted.
type stopper struct {
	// asked is closed by the first request to stop.
	asked chan struct{}
	abort context.CancelCauseFunc

	mu    sync.Mutex // guards the fields below
	why   string
	timer *time.Timer // set by the first request
}

func newStopper(abort context.CancelCauseFunc) *stopper {
	return &stopper{asked: make(chan struct{}), abort: abort}
}

// ask asks the crawl to stop. The deadline is that of the last request that
// names one; a zero deadline names none.
func (s *stopper) ask(why string, deadline time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := grace
	if !deadline.IsZero() {
		left = max(0, time.Until(deadline))
	}
	left -= min(left/4, reserve)
	switch {
	case s.timer == nil:
		s.why = why
		s.timer = time.AfterFunc(left, func() { s.abort(errors.New(why)) })
		close(s.asked)
	case !deadline.IsZero():
		s.timer.Reset(left)
	}
}

// reason is why the crawl was asked to stop, or "".
func (s *stopper) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *stopper) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
}

// onSignals asks to stop at the first SIGTERM or SIGINT and aborts at the
// second, until release is called. Millrace sends SIGTERM beside a CANCEL, for
// programs that do not read one; the CANCEL then has the say about the deadline.
func (s *stopper) onSignals() (release func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	var handler sync.WaitGroup
	handler.Go(func() {
		for first := true; ; first = false {
			select {
			case sig := <-signals:
				why := "signal: " + sig.String()
				s.ask(why, time.Time{})
				if !first {
					s.abort(errors.New(why))
				}
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(signals)
		close(done)
		handler.Wait()
	}
}

// onMessages asks to stop for every CANCEL read from r. It returns when r ends, which asks for
// nothing: the parent process may have closed it at once.
func (s *stopper) onMessages(r io.Reader) {
	lines := bufio.NewReaderSize(r, 64<<10)
	for whole := true; ; {
		line, err := lines.ReadSlice('\n')
		tooLong := errors.Is(err, bufio.ErrBufferFull)
		if whole && !tooLong {
			s.onMessage(line)
		}
		if err != nil && !tooLong {
			return
		}
		whole = !tooLong // the rest of a too long line is no CANCEL
	}
}

// onMessage reads one line. All messages but CANCEL are ignored.
func (s *stopper) onMessage(line []byte) {
	var m struct {
		Type    string `json:"type"`
		Payload struct {
			Reason   string    `json:"reason"`
			Deadline time.Time `json:"deadline"`
		} `json:"payload"`
	}
	err := json.Unmarshal(line, &m)
	if m.Type != "CANCEL" {
		return
	}
	if err != nil {
		m.Payload.Deadline = time.Time{} // half a message is still a request to stop
	}
	why := "cancelled"
	if m.Payload.Reason != "" {
		why += ": " + m.Payload.Reason
	}
	s.ask(why, m.Payload.Deadline)
}
