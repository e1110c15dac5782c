// Package audit has the log of a server verified for those who ask for it on a page: one run at a time, which goes on whether or not
// anybody looks, and the last one is remembered.
package audit

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/verify"
)

// ErrRuns refuses a run: one is going on.
var ErrRuns = errors.New("the log is being verified already: one run at a time for the server")

// Run is one run.
type Run struct {
	// By is who asked for it.
	By string
	// From and To bound what was asked for; 0 is the beginning, or the end.
	From, To uint64
	// Began and Ended are when; Ended is zero as long as it goes on.
	Began, Ended time.Time
	// At is how far it has come, of End.
	At, End uint64
	// Report is what came of it; nil if Err says why nothing did.
	Report *verify.Report
	// Interrupted says that the bounds of a run did not suffice: the report goes as far as its Last.
	Interrupted bool
	Err         error
}

// Goes tells whether the run goes on.
func (r *Run) Goes() bool { return r.Ended.IsZero() }

// Done is how much of it is done, from 0 to 1.
func (r *Run) Done() float64 {
	first := max(r.From, 1) - 1
	if r.End <= first || r.At <= first {
		return 0
	}
	return min(float64(r.At-first)/float64(r.End-first), 1)
}

// Auditor has one run at a time. Create it with [New].
type Auditor struct {
	wanted chan struct{} // takes a word when a run was asked for

	mu   sync.Mutex
	last *Run // guarded by mu; the one that goes on, or was the last; nil for none
}

// New returns one that has not run yet.
func New() *Auditor { return &Auditor{wanted: make(chan struct{}, 1)} }

// Ask has a range of the log verified. The error is [ErrRuns] if a run goes on.
func (a *Auditor) Ask(by string, from, to uint64, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && a.last.Goes() {
		return ErrRuns
	}
	a.last = &Run{By: by, From: from, To: to, Began: now}
	a.wanted <- struct{}{} // there is room: no run goes on
	return nil
}

// Last is the run that goes on, or was the last; false if there was none.
func (a *Auditor) Last() (Run, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		return Run{}, false
	}
	return *a.last, true
}

// Verify holds a range of the log against the promises, and tells how far it has come.
type Verify func(ctx context.Context, from, to uint64, progress func(at, end uint64)) (report *verify.Report, interrupted bool, err error)

// Serve does the runs that are asked for, until ctx ends; then it returns nil.
func (a *Auditor) Serve(ctx context.Context, do Verify, now func() time.Time) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wanted:
			a.run(ctx, do, now)
		}
	}
}

// run does the run that was asked for.
func (a *Auditor) run(ctx context.Context, do Verify, now func() time.Time) {
	is, _ := a.Last()
	is.Report, is.Interrupted, is.Err = do(ctx, is.From, is.To, func(at, end uint64) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.last.At, a.last.End = at, end
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	is.At, is.End, is.Ended = a.last.At, a.last.End, now()
	a.last = &is
}
