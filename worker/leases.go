package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/value"
)

// leases are the attempts that run on this worker, and its right to run them.
type leases struct {
	mu      sync.Mutex
	running map[task.ID]*Attempt // guarded by mu
	// left are the epochs of attempts that this worker has left to the next one of the node. They
	// run on beside it, so its heartbeats go on naming them. Guarded by mu.
	left []uint64
}

// leaseState is an attempt's offer and until when its lease surely holds.
type leaseState struct {
	// since is when the offer was received; zero if an earlier process did that. Set once.
	since time.Time

	mu    sync.Mutex
	offer *events.Offer // guarded by mu; the latest delivery
	// confirmed is when the worker sent what the log confirmed last: its claim, its adoption, or a
	// heartbeat that names the attempt. The lease holds at least until ackWait later. Guarded by mu.
	confirmed time.Time
	// extended is when the server was last told to hand the offer to nobody else. Guarded by mu.
	extended time.Time
}

func (l *leaseState) get() (*events.Offer, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offer, l.confirmed
}

// begin sets out with an offer that was received at a time, and claimed or adopted since.
func (l *leaseState) begin(o *events.Offer, received time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offer, l.confirmed, l.extended = o, received, received
}

func (l *leaseState) confirm(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at.After(l.confirmed) {
		l.confirmed = at
	}
}

// extend has the server hand the offer to nobody else for another ackWait.
func (l *leaseState) extend(ctx context.Context) error {
	asked := time.Now()
	offer, _ := l.get()
	if err := offer.Extend(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.extended = asked
	return nil
}

// unextended is for how long the server was not told so.
func (l *leaseState) unextended(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return now.Sub(l.extended)
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

// leave notes that an attempt goes on without this worker.
func (l *leases) leave(a *Attempt) {
	l.mu.Lock()
	l.left = append(l.left, a.Task.Epoch)
	l.mu.Unlock()
	l.remove(a)
}

// adopt takes an offer that has come back to the worker which still runs its task: the
// server has handed it out again, early or because it was not told in time to keep it. It
// returns false if the offer is for somebody else. The lease itself is not touched: what the
// server delivers proves nothing about it.
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
	a.lease.offer, a.lease.extended = o, now
	return true
}

// presentExtend is how long a node that came back waits for the word that an offer is kept
// for it. Readiness does not hang on it: if the offer's consumer was lost, the offer has to come
// again first.
const presentExtend = 200 * time.Millisecond

// renewals is how many offers are extended at the same time.
const renewals = 64

// beat stores a heartbeat, which names the attempts that have run for a while, and so confirms
// their leases. What its own rule has to stop by then is not saved by it.
func (w *Worker) beat(ctx context.Context) (asked time.Time, err error) {
	select {
	case w.beatTurn <- struct{}{}: // of two at once, the later list would have to be stored last
		defer func() { <-w.beatTurn }()
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	asked = time.Now()
	w.watch(asked)
	named, runs := w.leases.named(asked, w.safety)
	h := node.Heartbeat{Session: w.protocol.Session, At: w.cfg.Now().UTC(), Every: value.Duration(w.safety.beat), TTL: value.Duration(w.cfg.NodeTTL), Runs: runs}
	if err := w.nodes.Beat(ctx, w.cfg.Node, h, w.cfg.NodeTTL); err != nil {
		return time.Time{}, err
	}
	// This process may have stood still since it asked: what was to stop meanwhile may run elsewhere.
	answered, beaten := time.Now(), asked
	if last := w.beaten.Load(); last != nil {
		beaten = *last
	}
	for _, a := range named {
		if a.mayGoOn(answered, beaten) {
			a.lease.confirm(asked)
		}
	}
	return asked, nil
}

// lives notes that the log has a heartbeat that was sent at a time, and says that the node is online.
// That saves nothing which was to stop before this process knew.
func (w *Worker) lives(sent time.Time) {
	w.watch(time.Now())
	w.beaten.Store(&sent)
	select {
	case w.stored <- struct{}{}:
	default:
	}
}

// named are the attempts that a heartbeat names which is sent now, and the epochs in it.
func (l *leases) named(now time.Time, s safety) (named []*Attempt, runs []uint64) {
	l.mu.Lock()
	runs = slices.Clone(l.left)
	l.mu.Unlock()
	for _, a := range l.all() {
		if s.names(now.Sub(a.lease.since)) {
			named, runs = append(named, a), append(runs, a.Task.Epoch)
		}
	}
	slices.Sort(runs)
	return named, runs
}

// mayGoOn tells whether the attempt may go on by what the log has confirmed so far: its lease, and
// a heartbeat that was sent at beaten.
func (a *Attempt) mayGoOn(now, beaten time.Time) bool {
	_, confirmed := a.lease.get()
	return a.safety().mayGoOn(a.Task.Spec.Continues(), now.Sub(confirmed), now.Sub(beaten))
}

// mayBegin tells whether the worker may begin anything by the heartbeats that are stored so far.
func (w *Worker) mayBegin(now time.Time) bool {
	beaten := w.beaten.Load()
	return beaten != nil && w.safety.mayBegin(now.Sub(*beaten))
}

// watch stops the attempts that cannot be confirmed in time; all of them if the node itself
// cannot say in time that it lives. Those that go on while disconnected are stopped only when the
// log says that they have been taken over.
func (w *Worker) watch(now time.Time) {
	beaten := w.beaten.Load()
	if beaten == nil {
		return // nothing has begun yet
	}
	for _, a := range w.leases.all() {
		if !a.mayGoOn(now, *beaten) {
			a.stop(ErrLeaseLost)
		}
		a.tellHold()
	}
}

// renew watches the attempts until ctx ends, and has the server keep their offers from others.
// That follows heartbeats where it can, so that both wear off together.
func (w *Worker) renew(ctx context.Context) error {
	tick := time.NewTicker(w.safety.tick())
	defer tick.Stop()
	for {
		beaten := false
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-w.stored:
			beaten = true
		}
		now := time.Now()
		w.watch(now)
		var due []*Attempt
		for _, a := range w.leases.all() {
			if w.safety.renewal(a.lease.unextended(now), beaten) {
				due = append(due, a)
			}
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

// extend looks at attempts, and has the server keep their offers from others. If it does not, such
// an offer comes to somebody who finds in the log that the lease holds, and puts it away.
func (w *Worker) extend(ctx context.Context, due []*Attempt) {
	ctx, cancel := context.WithTimeout(ctx, w.ackWait/3)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(renewals)
	for _, a := range due {
		g.Go(func() error {
			if own, _ := w.look(ctx, a); !own { // if it fails, the next renewal looks again
				return nil
			}
			err := a.lease.extend(ctx)
			w.counts.extended(err)
			if err != nil {
				w.log.Warn("the server has not confirmed that it keeps the offer of a running task; trying again", "error", err, "task", string(a.Task.ID))
			}
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

// present asks the log for each attempt that runs whether it is still this node's, has the server
// keep the offers of those that are, and stops the others. It counts both.
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
			_ = a.lease.extend(ctx) // else the next renewal tries, or the offer comes again
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

// hint looks at one task, or at the node itself, because somebody said that something has happened to it.
func (w *Worker) hint(id task.ID) {
	if id == "" {
		select {
		case w.poke <- struct{}{}:
		default:
		}
		return
	}
	if a := w.leases.get(id); a != nil {
		w.background.Go(func() {
			ctx, cancel := context.WithTimeout(a.context, w.ackWait/3)
			defer cancel()
			_, _ = w.look(ctx, a) // the next renewal looks again
		})
	}
}
