package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
)

// leases are the attempts that run on this worker, and its right to run them.
type leases struct {
	mu      sync.Mutex
	running map[task.ID]*Attempt // guarded by mu
}

// leaseState is an attempt's offer and until when it surely holds.
type leaseState struct {
	mu    sync.Mutex
	offer *events.Offer // guarded by mu; the latest delivery
	// confirmed is when the log was last asked something that it confirmed:
	// the lease holds at least until ackWait later. Guarded by mu.
	confirmed time.Time
}

func (l *leaseState) get() (*events.Offer, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offer, l.confirmed
}

func (l *leaseState) confirm(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.confirmed) {
		l.confirmed = at
	}
}

func (l *leases) add(a *Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running[a.Task.ID] = a
}

func (l *leases) remove(a *Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running[a.Task.ID] == a {
		delete(l.running, a.Task.ID)
	}
}

func (l *leases) get(id task.ID) *Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.running[id]
}

func (l *leases) all() []*Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Attempt, 0, len(l.running))
	for _, a := range l.running {
		all = append(all, a)
	}
	return all
}

// adopt takes an offer that has come back to the worker which still runs its
// task: the lease had run out, but nobody else was faster. It returns false if
// the offer is for somebody else.
func (l *leases) adopt(o *events.Offer, now time.Time) bool {
	a := l.get(o.Fact.Task)
	if a == nil {
		return false
	}
	a.lease.mu.Lock()
	defer a.lease.mu.Unlock()
	if a.lease.offer.Seq != o.Seq {
		return false
	}
	a.lease.offer, a.lease.confirmed = o, now
	return true
}

// presentExtend is how long a node that came back waits for the word that a lease
// goes on. Readiness does not hang on it: if the offer's consumer was lost, the
// offer has to come again first.
const presentExtend = 200 * time.Millisecond

// renewals is how many leases are extended at the same time.
const renewals = 64

// renew extends the leases of attempts until ctx ends, and stops those that
// cannot be confirmed in time or have been taken over; all of them if the node
// itself cannot say in time that it lives. Those that go on while disconnected
// are stopped only when the log says that they have been taken over.
func (w *Worker) renew(ctx context.Context) error {
	tick := time.NewTicker(w.safety.tick())
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		silent := now.Sub(*w.beaten.Load())
		var due []*Attempt
		for _, a := range w.leases.all() {
			_, confirmed := a.lease.get()
			age := now.Sub(confirmed)
			if w.safety.renewal(age) {
				due = append(due, a)
			}
			if !a.safety().mayGoOn(a.Task.Spec.Continues(), age, silent) {
				a.stop(ErrLeaseLost)
			}
			a.tellHold()
		}
		if len(due) > 0 && !w.renewing.Swap(true) {
			// Beside this loop, which must go on watching the clock.
			w.background.Go(func() {
				defer w.renewing.Store(false)
				w.extend(ctx, due)
			})
		}
	}
}

func (w *Worker) extend(ctx context.Context, due []*Attempt) {
	ctx, cancel := context.WithTimeout(ctx, w.ackWait/3)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(renewals)
	for _, a := range due {
		g.Go(func() error {
			asked := time.Now()
			offer, _ := a.lease.get()
			err := offer.Extend(ctx)
			w.counts.extended(err)
			if err != nil {
				w.log.Warn().Err(err).Str("task", string(a.Task.ID)).Msg("lease not confirmed; trying again")
				return nil
			}
			a.lease.confirm(asked)
			_, _ = w.look(ctx, a) // if it fails, the next renewal looks again
			return nil
		})
	}
	_ = g.Wait() // its functions return nil
}

// look reads the task of an attempt and stops the attempt if the log says so. It
// tells whether the task is still the attempt's own.
func (w *Worker) look(ctx context.Context, a *Attempt) (own bool, err error) {
	t, err := w.protocol.Recorder.Load(ctx, a.Task.ID)
	switch {
	case errors.Is(err, task.ErrUnknown):
		a.stop(ErrFenced)
		return false, nil
	case err != nil:
		return true, err
	case t.Epoch != a.Task.Epoch || !t.Live():
		a.stop(ErrFenced)
		return false, nil
	case t.State == task.Cancelling:
		a.stop(ErrCancelled)
	}
	return true, nil
}

// present asks the log for each attempt that runs whether it is still this
// node's, confirms the lease of those that are and stops the others. It counts both.
func (w *Worker) present(ctx context.Context) (kept, stopped int, err error) {
	all := w.leases.all()
	own := make([]bool, len(all))
	var g errgroup.Group
	g.SetLimit(renewals)
	for i, a := range all {
		g.Go(func() (err error) {
			if own[i], err = w.look(ctx, a); err != nil || !own[i] {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, presentExtend)
			defer cancel()
			asked := time.Now()
			offer, _ := a.lease.get()
			if offer.Extend(ctx) == nil { // else the next renewal tries, or the offer comes again
				a.lease.confirm(asked)
			}
			return nil
		})
	}
	err = g.Wait()
	for i := range all {
		if own[i] {
			kept++
		} else {
			stopped++
		}
	}
	return kept, stopped, err
}

// hint looks at one task because somebody said that something has happened to it.
func (w *Worker) hint(id task.ID) {
	if a := w.leases.get(id); a != nil {
		w.background.Go(func() {
			ctx, cancel := context.WithTimeout(a.context, w.ackWait/3)
			defer cancel()
			_, _ = w.look(ctx, a) // the next renewal looks again
		})
	}
}
