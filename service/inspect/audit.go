package inspect

import (
	"context"
	"errors"
	"sync"
	"time"

	"millrace/history/verify"
)

// ErrRuns: another run is in progress.
var ErrRuns = errors.New("the log is being verified already: one run at a time for the server")

// Run is one run.
type Run struct {
	// By is the user that asked for it.
	By string
	// From and To bound the range; 0 is the beginning, or the end.
	From, To uint64
	// Began and Ended are its times; Ended is zero while it goes on.
	Began, Ended time.Time
	// At is how far it has come, of End.
	At, End uint64
	// Report is its result; nil if Err says why there is none.
	Report *verify.Report
	// Interrupted tells that the bounds of a run did not suffice: the report goes as far as its
	// Last.
	Interrupted bool
	Err         error
}

// Goes tells whether the run goes on.
func (r *Run) Goes() bool { return r.Ended.IsZero() }

// Done returns the share that is done, from 0 to 1.
func (r *Run) Done() float64 {
	first := max(r.From, 1) - 1
	if r.End <= first || r.At <= first {
		return 0
	}
	return min(float64(r.At-first)/float64(r.End-first), 1)
}

// Auditor performs one run at a time. Create it with [New].
type Auditor struct {
	wanted chan struct{} // holds one when a run was requested

	mu   sync.Mutex
	last *Run // guarded by mu; the current or the last run; nil for none
}

// New returns an auditor without runs.
func New() *Auditor { return &Auditor{wanted: make(chan struct{}, 1)} }

// Ask requests a run over a range of the log. The error is [ErrRuns] if one is in progress.
func (a *Auditor) Ask(by string, from, to uint64, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && a.last.Goes() {
		return ErrRuns
	}
	a.last = &Run{By: by, From: from, To: to, Began: now}
	a.wanted <- struct{}{} // there is room: no run is in progress
	return nil
}

// Last returns the current or the last run; false if there was none.
func (a *Auditor) Last() (Run, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		return Run{}, false
	}
	return *a.last, true
}

// Verify checks the promises over a range of the log, and reports how far it has come.
type Verify func(ctx context.Context, from, to uint64, progress func(at, end uint64)) (report *verify.Report, interrupted bool, err error)

// Serve performs requested runs, until ctx ends; then it returns nil.
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

// run performs the requested run.
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
