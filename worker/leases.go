package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/value"
)

// leases are the attempts that run on this worker, and its right to run them.
type leases struct {
	mu      sync.Mutex
	running map[task.ID]*Attempt // guarded by mu
	// left are the epochs of attempts that this worker has left to the next process of the node.
	// They run on beside it, so its heartbeats still name them. Guarded by mu.
	left []uint64
}

// leaseState is an attempt's offer, and when its lease was last confirmed.
type leaseState struct {
	// since is when the offer was received; zero if an earlier process received it. Set once.
	since time.Time

	mu    sync.Mutex
	offer *events.Offer // guarded by mu; the latest delivery
	// confirmed is when the worker sent the message that the log confirmed last: its claim, its
	// adoption, or a heartbeat that names the attempt. The lease holds at least until ackWait
	// later. Guarded by mu.
	confirmed time.Time
	// extended is when the worker last told the server to hand the offer to no other worker.
	// Guarded by mu.
	extended time.Time
}

func (l *leaseState) get() (*events.Offer, time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.offer, l.confirmed
}

// begin starts from an offer that was received at that time, and claimed or adopted since.
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

// extend asks the server to hand the offer to no other worker for another ackWait.
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

// unextended is how long ago the server was last asked that.
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

// redelivered takes an offer that has come back while this worker still runs its task: the server has
// delivered it again, too early or because it was not told in time to keep it. It returns false if
// the worker does not run the task. The lease stays as it is: a delivery by the server proves
// nothing about it.
func (l *leases) redelivered(o *events.Offer, now time.Time) bool {
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

// presentExtend is how long a node that came back waits for the server's confirmation that it keeps
// an offer. Readiness does not depend on it: if the offer's consumer was lost, the offer must be
// delivered again first.
const presentExtend = 200 * time.Millisecond

// renewals is how many offers are extended concurrently.
const renewals = 64

// beat stores a heartbeat that names the attempts, and so confirms their leases. An attempt that must
// stop by then under its own rule still stops.
func (w *Worker) beat(ctx context.Context) (asked time.Time, err error) {
	select {
	case w.beatTurn <- struct{}{}: // of two concurrent lists, the later one must be stored last
		defer func() { <-w.beatTurn }()
	case <-ctx.Done():
		return time.Time{}, context.Cause(ctx)
	}
	measured := w.machine.measure()
	asked = time.Now()
	w.watch(asked)
	named, runs := w.leases.named()
	h := node.Heartbeat{
		Session: w.protocol.Session,
		At:      w.cfg.Now().UTC(),
		Every:   value.Duration(w.safety.beat),
		TTL:     value.Duration(w.cfg.NodeTTL),
		Runs:    runs,
		Machine: measured,
	}
	if err := w.nodes.Beat(ctx, w.cfg.Node, h, w.cfg.NodeTTL); err != nil {
		return time.Time{}, err
	}
	// This process may have been suspended since it asked: what should have stopped meanwhile may
	// run elsewhere.
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

// lives notes that the log has a heartbeat that was sent at that time and holds the node for
// online. An attempt that should have stopped before this process knew that still stops.
func (w *Worker) lives(sent time.Time) {
	w.watch(time.Now())
	w.beaten.Store(&sent)
	for _, a := range w.leases.all() {
		a.hear()
	}
	select {
	case w.stored <- struct{}{}:
	default:
	}
}

// named returns the attempts that a heartbeat must name, and their epochs.
func (l *leases) named() (named []*Attempt, runs []uint64) {
	l.mu.Lock()
	runs = slices.Clone(l.left)
	l.mu.Unlock()
	named = l.all()
	for _, a := range named {
		runs = append(runs, a.Task.Epoch)
	}
	slices.Sort(runs)
	return named, runs
}

// mayGoOn tells whether the attempt may go on, or wait for its start, given its lease and a heartbeat
// sent at beaten, both as the log has confirmed them.
func (a *Attempt) mayGoOn(now, beaten time.Time) bool {
	_, confirmed := a.lease.get()
	lease, beat := now.Sub(confirmed), now.Sub(beaten)
	if !a.started.Load() && a.safety().mayWait(lease, beat, now.Sub(a.lease.since)) {
		return true
	}
	return a.safety().mayGoOn(a.Task.Spec.Continues(), lease, beat)
}

// mayStart tells whether something of the attempt may start.
func (a *Attempt) mayStart(now time.Time) bool {
	_, confirmed := a.lease.get()
	named := confirmed.After(a.lease.since)
	return a.Task.Spec.Continues() || a.safety().mayStart(now.Sub(confirmed), now.Sub(*a.worker.beaten.Load()), named)
}

// awaitStart waits until something of a claimed attempt may start: at once if its claim was quick,
// else until a heartbeat has confirmed it. To give the task back instead would cost the machine that
// is so slow another claim. It returns false if the attempt is stopped before that.
func (w *Worker) awaitStart(a *Attempt) bool {
	if a.started.Load() || a.mayStart(time.Now()) {
		a.started.Store(true)
		return true
	}
	again := time.NewTicker(w.safety.beat / 2)
	defer again.Stop()
	for !a.mayStart(time.Now()) {
		w.wake() // to beat
		select {
		case <-a.context.Done():
			return false
		case <-a.heard:
		case <-again.C:
		}
	}
	a.started.Store(true)
	return true
}

// hear has the attempt look whether it may start.
func (a *Attempt) hear() {
	select {
	case a.heard <- struct{}{}:
	default:
	}
}

// mayBegin tells whether the worker may begin anything, given the heartbeats stored so far.
func (w *Worker) mayBegin(now time.Time) bool {
	beaten := w.beaten.Load()
	return beaten != nil && w.safety.mayBegin(now.Sub(*beaten))
}

// watch stops the attempts that cannot be confirmed in time, and all of them if the node's own
// heartbeat cannot be stored in time. Attempts that continue while disconnected stop only when the
// log says that they were taken over.
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

// renew watches the attempts until ctx ends, and asks the server to keep their offers from other
// workers. Where it can, it does so right after a heartbeat, so that lease and offer expire
// together.
func (w *Worker) renew(ctx context.Context) error {
	ticker := time.NewTicker(w.safety.watchEvery())
	defer ticker.Stop()
	for {
		beaten := false
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
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
			// In the background: this loop must go on watching the clock.
			w.background.Go(func() {
				defer w.renewing.Store(false)
				w.extend(ctx, due)
			})
		}
	}
}

// extend looks at attempts, and asks the server to keep their offers from other workers. If that
// fails, another worker gets the offer, finds in the log that the lease holds, and puts the offer
// away.
func (w *Worker) extend(ctx context.Context, due []*Attempt) {
	ctx, cancel := context.WithTimeout(ctx, w.ackWait/3)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(renewals)
	for _, a := range due {
		g.Go(func() error {
			if own, _ := w.stillOwns(ctx, a); !own { // if it fails, the next renewal looks again
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

// stillOwns reads the task of an attempt from the log and tells whether the task still belongs to the
// attempt. It stops the attempt if not, or if a user has cancelled the task.
func (w *Worker) stillOwns(ctx context.Context, a *Attempt) (own bool, err error) {
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

// present asks the log for each running attempt whether it still belongs to this node, asks the
// server to keep the offers of those that do, and stops the others. It returns the counts of both.
func (w *Worker) present(ctx context.Context) (kept, stopped int, err error) {
	all := w.leases.all()
	own := make([]bool, len(all))
	var g errgroup.Group
	g.SetLimit(renewals)
	for i, a := range all {
		g.Go(func() (err error) {
			if own[i], err = w.stillOwns(ctx, a); err != nil || !own[i] {
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

// wake has the loop that looks after the node do so now.
func (w *Worker) wake() {
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// hear takes a hint that something has happened to a task that may run here or, if id is "", to the
// node itself. It stops the attempt of a cancelled task at once; else the next renewal would.
func (w *Worker) hear(id task.ID) {
	if id == "" {
		w.wake()
		return
	}
	if a := w.leases.get(id); a != nil {
		w.background.Go(func() {
			ctx, cancel := context.WithTimeout(a.context, w.ackWait/3)
			defer cancel()
			_, _ = w.stillOwns(ctx, a) // the next renewal looks again
		})
	}
}

func (l *leases) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.running)
}
