package monitor

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/metrics"
)

// How often it is proved that the log takes messages, and how long that may take. Whoever asks for a
// proof says how old it may be, so most looks write nothing.
const (
	proofLook = 5 * time.Second
	proofTime = 5 * time.Second
	proofAge  = 10 * time.Second
)

// Log knows whether the log takes messages. It is a [metrics.Source]; its methods are safe for
// concurrent use.
type Log struct {
	// Takes proves that the log takes messages, or did within the time given; the error
	// says what keeps it from that.
	Takes func(ctx context.Context, within time.Duration) error
	// Trouble says at once what is known to keep it from that. Default: nothing is known.
	Trouble func() error

	mu     sync.Mutex
	looked time.Time // guarded by mu; when the last look ended; zero before the first
	wrong  error     // guarded by mu; what it found
}

// Run looks until ctx ends; then it returns nil.
func (l *Log) Run(ctx context.Context) error {
	tick := time.NewTicker(proofLook)
	defer tick.Stop()
	for {
		looking, cancel := context.WithTimeout(ctx, proofTime)
		err := l.Takes(looking, proofAge)
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		l.mu.Lock()
		l.looked, l.wrong = time.Now(), err
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Wrong says why the log takes no messages; nil if it does, as far as is known.
func (l *Log) Wrong() error {
	if l.Trouble != nil {
		if err := l.Trouble(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.wrong
}

// Check is the [Check] that the log takes messages.
func (l *Log) Check() Check {
	return Check{Name: "log", Ask: func(now time.Time) error {
		if err := l.Wrong(); err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		switch {
		case l.looked.IsZero():
			return errors.New("it has not been seen yet that it takes messages")
		case now.Sub(l.looked) > proofLook+proofTime+proofAge:
			return fmt.Errorf("nobody has looked for %v whether it takes messages", now.Sub(l.looked).Round(time.Second))
		}
		return nil
	}}
}

// Collect gives whether the log takes messages.
func (l *Log) Collect(emit metrics.Emit) {
	emit(metrics.LogWritable, bit(l.Wrong() == nil), nil)
}
