package embed

import (
	"errors"
	"testing"
	"time"
)

// The longer goroutines wait for a processor, the less a step of a wait counts.
func TestStepsOfAStarvedWait(t *testing.T) {
	for _, c := range []struct{ late, want time.Duration }{
		{-time.Millisecond, waitStep},
		{0, waitStep},
		{waitStep / 10, waitStep * 10 / 11},
		{waitStep, waitStep / 2},
		{9 * waitStep, waitStep / 10},
		{time.Hour, waitStep * waitStep / time.Hour}, // the machine slept
	} {
		if got := counts(c.late); got < c.want-time.Microsecond || got > c.want+time.Microsecond {
			t.Errorf("with a delay of %v a step counts %v, want %v", c.late, got, c.want)
		}
	}
}

// A server that gives no answer hangs, unless the machine is starved: then it is given more time.
func TestStarvedIsNotHanging(t *testing.T) {
	t.Parallel()
	srv := startServer(t, Config{})
	srv.patience = 200 * time.Millisecond
	ns := srv.current()
	answer := make(chan struct{})
	srv.late = func() func() time.Duration {
		calls := 0
		return func() time.Duration {
			if calls++; calls == 40 { // of 20 steps that suffice on a machine that is not starved
				close(answer)
			}
			return time.Second
		}
	}
	if err := srv.await(t.Context(), ns, func() { <-answer }); err != nil || srv.hangs(ns) {
		t.Errorf("a starved server: %v", err)
	}
	answer = make(chan struct{})
	defer close(answer)
	srv.late = func() func() time.Duration { return func() time.Duration { return 0 } }
	if err := srv.await(t.Context(), ns, func() { <-answer }); !errors.Is(err, errHangs) || !srv.hangs(ns) {
		t.Errorf("a server that does not answer: %v", err)
	}
	srv.mu.Lock()
	srv.hung = nil // it only seemed so: the test's end stops it
	srv.mu.Unlock()
}

// The runtime tells how long goroutines wait for a processor.
func TestLateness(t *testing.T) {
	l := newLateness()
	started := make(chan struct{})
	for range 1000 {
		go func() { <-started }()
	}
	close(started)
	held := time.Now()
	for time.Since(held) < 5*time.Millisecond { // whoever is behind this one waits
	}
	if worst := l.worst(); worst < 0 || worst > time.Minute {
		t.Errorf("goroutines waited for %v", worst)
	}
	if len(l.before) == 0 {
		t.Error("this runtime does not measure it")
	}
}
