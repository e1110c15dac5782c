package projections

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// reach is the progress of the fold, for callers that read or await it.
type reach struct {
	hurry chan struct{} // holds one: a caller waits
	harm  chan struct{} // holds one: the file is damaged

	mu      sync.Mutex
	seq     uint64        // guarded by mu
	changed chan struct{} // guarded by mu; closed at each step
	closed  chan struct{}
	waiting int  // guarded by mu; calls of wait under way
	bad     bool // guarded by mu; a query found the file damaged
	logs    int  // guarded by mu; how often the log turned out to be another one
}

func newReach() reach {
	return reach{hurry: make(chan struct{}, 1), harm: make(chan struct{}, 1), changed: make(chan struct{}), closed: make(chan struct{})}
}

// Reached is the sequence of the last message of the log that all later answers reflect, 0 for
// none. It falls only when the read model is rebuilt.
func (s *Store) Reached() uint64 {
	s.reach.mu.Lock()
	defer s.reach.mu.Unlock()
	return s.reach.seq
}

// otherLogWait is how long a wait goes on after the log has become another one: who waits may have
// taken the sequence from the new one.
const otherLogWait = 5 * time.Second

// ErrOtherLog: the log is another one than before, or has lost its last messages, so a sequence of
// the one before says nothing.
var ErrOtherLog = errors.New("this is another log than the one that was folded before")

// Wait returns when the answers reflect the log up to seq. If ctx ends first, the error wraps
// ctx's; if the store is closed, it wraps [ErrClosed]; if the log is another one meanwhile,
// [ErrOtherLog].
//
// It hurries the projector, which otherwise waits a little for more records. Pass the sequence of a
// fact: a removed message is reached only when another one follows it.
func (s *Store) Wait(ctx context.Context, seq uint64) error {
	r := &s.reach
	r.mu.Lock()
	r.waiting++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.waiting--
		r.mu.Unlock()
	}()
	logs := r.another(0)
	var over <-chan time.Time // nil as long as the log is the same
	for {
		reached, changed := r.now()
		switch {
		case reached >= seq:
			return nil
		case over == nil && r.another(0) != logs:
			over = time.After(otherLogWait)
		}
		signal(r.hurry)
		select {
		case <-changed:
		case <-over:
			return fmt.Errorf("wait for sequence %d: %w", seq, ErrOtherLog)
		case <-r.closed:
			return fmt.Errorf("wait for sequence %d: %w", seq, ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("wait for sequence %d, have %d: %w", seq, reached, ctx.Err())
		}
	}
}

// News returns when the answers reflect anything after seq, or the read model is rebuilt. If ctx
// ends first, the error wraps ctx's; if the store is closed, it wraps [ErrClosed].
func (s *Store) News(ctx context.Context, seq uint64) error {
	r := &s.reach
	for before := uint64(0); ; {
		reached, changed := r.now()
		if reached > seq || reached < before {
			return nil
		}
		before = reached
		select {
		case <-changed:
		case <-r.closed:
			return fmt.Errorf("wait for news after sequence %d: %w", seq, ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("wait for news after sequence %d, have %d: %w", seq, reached, ctx.Err())
		}
	}
}

// another counts that the log is another one, by n, and returns how often it was.
func (r *reach) another(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.logs += n
	return r.logs
}

// now returns the sequence reached, and a channel that is closed at the next step.
func (r *reach) now() (seq uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seq, r.changed
}

// set makes seq the sequence reached and wakes all callers that wait for a change.
func (r *reach) set(seq uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq, r.bad = seq, false
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *reach) close() {
	close(r.closed)
}

// awaited tells whether a caller waits for the fold.
func (r *reach) awaited() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0
}

// damage makes the projector rebuild the file.
func (r *reach) damage() {
	r.mu.Lock()
	r.bad = true
	r.mu.Unlock()
	signal(r.harm)
}

// guard returns a context that ends with ctx, or with errDamaged when a query finds the file
// damaged. It is for one caller at a time, which must call stop.
func (r *reach) guard(ctx context.Context) (guarded context.Context, stop func()) {
	guarded, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for guarded.Err() == nil {
			select {
			case <-r.harm:
				if r.damaged() { // otherwise it has been rebuilt since
					end(errDamaged)
				}
			case <-guarded.Done():
			}
		}
	}()
	return guarded, func() { end(nil); <-ended }
}

func (r *reach) damaged() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bad
}

func signal(flag chan struct{}) {
	select {
	case flag <- struct{}{}:
	default:
	}
}
