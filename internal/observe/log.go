package observe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/internal/metrics"
)

// The interval and the time limit of proofs that the log accepts messages. A proof may be up to
// proofAge old, so most checks write nothing.
const (
	proofLook = 5 * time.Second
	proofTime = 5 * time.Second
	proofAge  = 10 * time.Second
)

// Log checks whether the log accepts messages. It is a [metrics.Source]; its methods are safe for
// concurrent use.
type Log struct {
	// Takes proves that the log accepts messages, or did within the given time. The error explains
	// a failure.
	Takes func(ctx context.Context, within time.Duration) error
	// Trouble returns a known failure without a proof. Default: none is known.
	Trouble func() error
	// Say is told the result of each proof. Default: nobody is told.
	Say func(wrong error)

	mu     sync.Mutex
	looked time.Time // guarded by mu; when the last check ended; zero before the first
	wrong  error     // guarded by mu; its result
}

// Run checks until ctx ends; then it returns nil.
func (l *Log) Run(ctx context.Context) error {
	ticker := time.NewTicker(proofLook)
	defer ticker.Stop()
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
		if l.Say != nil {
			l.Say(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Wrong says why the log accepts no messages; nil if it does, as far as known.
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

// Check returns the [Check] that the log accepts messages.
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
			return fmt.Errorf("not checked for %v whether it takes messages", now.Sub(l.looked).Round(time.Second))
		}
		return nil
	}}
}

// Collect emits whether the log accepts messages.
func (l *Log) Collect(emit metrics.Emit) {
	emit(metrics.LogWritable, bit(l.Wrong() == nil), nil)
}
