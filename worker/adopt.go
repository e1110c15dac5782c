package worker

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// Keeper is a [Runner] that can run attempts so that they outlive this process.
type Keeper interface {
	Runner
	// Keeps tells whether it runs the attempts of a task so.
	Keeps(t *task.Task) bool
	// Left lists the attempts that earlier processes of the node have left: those that run,
	// and those that have ended since and were not reported. Run goes on with one that
	// has its Left set.
	Left() ([]*Left, error)
}

// Note is what the next process of the node has to know of an attempt. A [Keeper] writes it down.
type Note struct {
	Task task.Task `json:"task"`
	// Lease is how the store knows the lease of its offer again.
	Lease string `json:"lease,omitempty"`
}

// Left is an attempt that an earlier process has left.
type Left struct {
	Note
	// Received is when its offer was received, by the monotonic clock.
	Received time.Time
	// Until is when it stops unless somebody says that its lease goes on; it may have passed.
	Until time.Time
	// PID is its process, 0 if that is not known; Gap is for how long nobody has attended it.
	PID int
	Gap time.Duration
	// Handle is the keeper's own. Who does not go on with the attempt closes it.
	Handle io.Closer
}

var (
	// ErrLeft: the worker ends and leaves the attempt to the next process of the node.
	ErrLeft = errors.New("the worker ends and leaves the attempt running")
	// ErrCrowded: the worker has come back with fewer slots than it has left attempts.
	ErrCrowded = errors.New("the worker came back with fewer slots than it had left tasks running")
)

// outliving are the bounds for an attempt that outlives its worker. Nobody starts its task
// elsewhere because the node is silent or gone before the node has had an AckWait to
// come back; see [task.Owes].
func (s safety) outliving() safety {
	s.nodeTTL += s.ackWait
	return s
}

// until is when an attempt is to stop, unless its lease or the heartbeat is confirmed again.
func (s safety) until(confirmed, beaten time.Time) time.Time {
	lease, beat := confirmed.Add(s.ackWait*2/3), beaten.Add(s.nodeTTL*2/3)
	if beat.Before(lease) {
		return beat
	}
	return lease
}

// kept is what an attempt has that outlives its worker.
type kept struct {
	left     *Left
	received time.Time

	mu       sync.Mutex
	told     time.Time       // guarded by mu; the last that hold was called with
	hold     func(time.Time) // guarded by mu
	reported func()          // guarded by mu
}

// Left is what an earlier process has left of the attempt; nil if it is this one's own.
func (a *Attempt) Left() *Left {
	if a.kept == nil {
		return nil
	}
	return a.kept.left
}

// Note is what the next process of the node has to know of the attempt, and when its offer was received.
func (a *Attempt) Note() (Note, time.Time) {
	n := Note{Task: a.Task}
	if offer, _ := a.lease.get(); offer != nil {
		if l, ok := offer.Lease.(events.Lasting); ok {
			n.Lease = l.Token()
		}
	}
	return n, a.kept.received
}

// OnHold calls hold with the time at which the attempt has to stop, at once and whenever
// that moves. Whoever runs the attempt sees to it that it stops then, whatever has
// become of this process.
func (a *Attempt) OnHold(hold func(until time.Time)) {
	a.kept.mu.Lock()
	a.kept.hold, a.kept.told = hold, time.Time{}
	a.kept.mu.Unlock()
	a.tellHold()
}

// HoldGrace is how long the attempt has then to end by itself.
func (a *Attempt) HoldGrace() time.Duration {
	return min(a.Task.Spec.Timeout.Grace(), a.worker.safety.grace())
}

// OnReported calls reported when the end of the attempt is in the log.
func (a *Attempt) OnReported(reported func()) {
	a.kept.mu.Lock()
	defer a.kept.mu.Unlock()
	a.kept.reported = reported
}

// Stop ends the attempt for a cause that its keeper has found; the first one counts.
func (a *Attempt) Stop(cause error) { a.stop(cause) }

// tellHold says when the attempt has to stop if that has moved.
func (a *Attempt) tellHold() {
	k := a.kept
	if k == nil {
		return
	}
	_, confirmed := a.lease.get()
	until := a.safety().until(confirmed, *a.worker.beaten.Load())
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hold != nil && !until.Equal(k.told) {
		k.told = until
		k.hold(until)
	}
}

// tellReported says that the end of the attempt is in the log.
func (a *Attempt) tellReported() {
	if a.kept == nil {
		return
	}
	a.kept.mu.Lock()
	defer a.kept.mu.Unlock()
	if a.kept.reported != nil {
		a.kept.reported()
	}
}

// safety is the arithmetic by which the attempt has to stop.
func (a *Attempt) safety() safety {
	if a.kept != nil {
		return a.worker.safety.outliving()
	}
	return a.worker.safety
}

// keeps tells whether attempts of a task outlive this worker.
func (w *Worker) keeps(t *task.Task) bool {
	if !t.Spec.Adopts() {
		return false
	}
	k, ok := w.cfg.Commands.(Keeper)
	return ok && k.Keeps(t)
}

// leaveFlush is how long what an attempt has said may take to be stored when its
// worker ends, beside which the attempt goes on.
const leaveFlush = 3 * time.Second

// keep makes an attempt one that outlives its worker.
func (a *Attempt) keep(ctx context.Context, left *Left, received time.Time) {
	a.kept = &kept{left: left, received: received}
	// What it has said is stored also when all attempts are to end at once.
	storing, done := context.WithCancel(context.WithoutCancel(ctx))
	a.Output.ctx, a.Output.place = storing, &place{}
	context.AfterFunc(ctx, func() { time.AfterFunc(leaveFlush, done) })
	a.release = done
}

// leave has the attempt go on without this process, for as long as its lease holds.
func (a *Attempt) leave(ctx context.Context) {
	_ = a.lease.extend(ctx) // else the offer comes to others sooner, who find that the lease holds
	a.tellHold()
	a.stop(ErrLeft)
}

// leaveKept leaves all attempts that outlive this worker. A last heartbeat confirms their leases.
func (w *Worker) leaveKept() {
	var all []*Attempt
	for _, a := range w.leases.all() {
		if a.kept != nil {
			all = append(all, a)
		}
	}
	if len(all) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hurry)
	defer cancel()
	if _, err := w.beat(ctx); err != nil {
		w.log.Warn("no last heartbeat could be stored: what is left running has less time", "error", err)
	}
	var leaving sync.WaitGroup
	for _, a := range all {
		leaving.Go(func() { a.leave(ctx) })
	}
	leaving.Wait()
	w.log.Info("leaving tasks running for the next worker of this node; without one they are stopped", "tasks", len(all), "for", (w.ackWait * 2 / 3).String())
}

// keptLook is how often it is seen whether only attempts are left that outlive the worker.
const keptLook = 25 * time.Millisecond

// onlyKept is closed when nothing runs any more but attempts that outlive the worker.
func (w *Worker) onlyKept(ctx context.Context) <-chan struct{} {
	only := make(chan struct{})
	go func() {
		for seen := 0; seen < 2; { // twice, for one may just be claimed
			sleep(ctx, keptLook)
			if ctx.Err() != nil {
				return
			}
			seen++
			all := w.leases.all()
			if len(all) == 0 {
				seen = 0
			}
			for _, a := range all {
				if a.kept == nil {
					seen = 0
				}
			}
		}
		close(only)
	}()
	return only
}

// adoptLeft takes over what earlier processes of the node have left. Of what is no more its
// own nothing goes on: it is stopped, and what it has to say is kept as evidence.
func (w *Worker) adoptLeft(ctx, attempts context.Context) (all []*Attempt) {
	k, ok := w.cfg.Commands.(Keeper)
	if !ok {
		return nil
	}
	left, err := k.Left()
	if err != nil {
		w.log.Warn("tasks that an earlier worker of this node may have left running cannot be found; they stop by themselves", "error", err)
	}
	free := w.cfg.Slots
	for _, l := range left {
		a, err := w.adopt(ctx, attempts, l, &free)
		if err != nil {
			_ = l.Handle.Close() // it only reads
		}
		switch {
		case errors.Is(err, task.ErrUnknown):
			w.log.Warn("an earlier worker of this node has left a task of another server; it stops by itself", "task", string(l.Task.ID))
		case err != nil:
			w.log.Warn("a task that an earlier worker of this node has left could not be adopted; it stops by itself", "error", err, "task", string(l.Task.ID))
		default:
			all = append(all, a)
		}
	}
	return all
}

// adopt takes over one attempt, if there is room for it in the free slots.
func (w *Worker) adopt(ctx, attempts context.Context, l *Left, free *int) (*Attempt, error) {
	ctx, cancel := context.WithTimeout(ctx, w.ackWait/2)
	defer cancel()
	t, err := w.protocol.Recorder.Load(ctx, l.Task.ID)
	if err != nil {
		return nil, err
	}
	offer := &events.Offer{Record: events.Record{Seq: l.Task.Offer}, Lease: w.offers.Resume(l.Lease)}
	offer.Fact.Task = l.Task.ID
	confirmed := l.Until.Add(-w.ackWait * 2 / 3)
	var why error
	if t.Live() && t.Epoch == l.Task.Epoch {
		_ = offer.Extend(ctx) // first, so that nobody else is offered it meanwhile; else it comes again
		asked := time.Now()
		t, _, err = w.protocol.Recorder.Do(ctx, t, task.Adopt{
			Epoch: l.Task.Epoch, Node: string(w.cfg.Node), Session: w.protocol.Session, PID: l.PID, Gap: value.Duration(max(l.Gap, 0).Round(time.Millisecond)),
		})
		if err == nil {
			confirmed = asked
		}
	} else {
		err = task.ErrFenced
	}
	cost := l.Task.Spec.Cost()
	switch {
	case errors.Is(err, task.ErrFenced), errors.Is(err, task.ErrEnded):
		t, why = l.Task, ErrFenced
	case err != nil:
		return nil, err
	case t.State == task.Cancelling:
		why = ErrCancelled
	case cost > *free:
		why = ErrCrowded
	}
	if *free -= cost; why != nil {
		*free += cost
	}
	a := &Attempt{Task: t, worker: w}
	w.begin(attempts, a, offer, l.Received, l)
	a.lease.confirmed = confirmed
	if why != nil {
		a.stop(why)
	}
	about := w.log.With("task", string(t.ID), "epoch", t.Epoch, "pid", l.PID, "gap", l.Gap.Round(time.Millisecond).String())
	if why != nil {
		about = about.With("stopping", why)
	}
	about.Info("going on with a task that an earlier worker of this node has left running")
	return a, nil
}

// serveAdopted runs the attempts that were adopted in slots, each in as many as it takes,
// before those pull. It returns what each of n slots has to do first.
func (w *Worker) serveAdopted(all []*Attempt, n int) []func() {
	first := make([]func(), n)
	at := 0
	for _, a := range all {
		ended := make(chan struct{})
		run := func() { defer close(ended); w.see(a) }
		cost := a.Task.Spec.Cost()
		if a.context.Err() != nil || at+cost > n { // it is being stopped, beside the others
			w.background.Go(run)
			continue
		}
		first[at] = run
		for i := 1; i < cost; i++ {
			first[at+i] = func() { <-ended }
		}
		at += cost
	}
	return first
}

// place is where an attempt stands that outlives its worker: in what it has said, which is
// written down before it is read. By it a later process stores each line and record once.
type place struct {
	at   int64     // up to where it is read, with what is added next
	said time.Time // when that was said
	upto int64     // lines up to here are added, or stored already
	// next is the number of the next record, and records is how many are stored already.
	next, records int
}

// skips tells whether a line is stored already, and gives it its place and time if not.
// What was not said by the program has the place of what was before it. mu is held.
func (p *place) skips(l *output.Line) bool {
	if p == nil {
		return false
	}
	if l.Stream != output.System && l.Stream != output.Status && l.Stream != output.Setup {
		if p.at <= p.upto {
			return true
		}
		p.upto, l.At = p.at, p.said
	}
	l.Upto = p.upto
	return false
}

// rest are those of some records that are not stored yet. mu is held.
func (p *place) rest(items []json.RawMessage) []json.RawMessage {
	if p == nil {
		return items
	}
	stored := min(max(p.records-p.next, 0), len(items))
	p.next += len(items)
	return items[stored:]
}

// OutputMemo is what an [Output] has to remember of what was said up to a place.
type OutputMemo struct {
	Lines   int         `json:"lines,omitempty"`
	Records int         `json:"records,omitempty"`
	Taken   int64       `json:"taken,omitempty"`
	Cut     int64       `json:"cut,omitempty"`
	Dropped int64       `json:"dropped,omitempty"`
	Bytes   int64       `json:"bytes,omitempty"` // of records
	Live    output.Live `json:"live,omitzero"`
	Noted   string      `json:"noted,omitempty"`
}

// Reading says that what is added next was said so long ago and ends at a place.
func (o *Output) Reading(at int64, ago time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.place.at, o.place.said = at, o.worker.cfg.Now().Add(-ago)
}

// ReadingTo is Reading for a place that follows, within what was said at that time.
func (o *Output) ReadingTo(at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.place.at = at
}

// Memo is what is to be remembered of what was said so far.
func (o *Output) Memo() OutputMemo {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.standing()
	return OutputMemo{
		Lines: o.printed, Records: o.place.next, Taken: o.taken, Bytes: o.records, Live: l.Live, Noted: l.noted,
		// What is held back for the end is lost with this process; the next one begins to hold back anew.
		Cut: o.cut.lines + int64(len(o.tail.left())), Dropped: o.cut.bytes + o.tail.bytes,
	}
}

// Resume goes on from a memo. It finds out what is stored of what was said after that: when
// it is said again, it is not stored again.
func (a *Attempt) Resume(ctx context.Context, m OutputMemo) error {
	told, err := a.worker.outputs.Told(ctx, a.Task.ID, a.Task.Epoch)
	if err != nil {
		return err
	}
	o := a.Output
	o.mu.Lock()
	defer o.mu.Unlock()
	o.printed = max(m.Lines, told.Lines)
	o.taken, o.cut, o.records = m.Taken, cut{m.Cut, m.Dropped}, m.Bytes
	l := o.standing()
	l.Live, l.noted = m.Live, m.Noted
	o.place.upto, o.place.next, o.place.records = told.Upto, m.Records, told.Records
	o.kept = max(m.Records, told.Records)
	return nil
}

// Then calls stored when all that was added so far is in the store; with an error if
// records could not be had there.
func (o *Output) Then(stored func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored = append(o.stored, stored)
	o.wait()
}

// Leave stores what was added so far, waits for that, and says nothing more.
func (o *Output) Leave() {
	o.mu.Lock()
	if o.live != nil && o.live.timer != nil {
		o.live.timer.Stop()
	}
	o.mu.Unlock()
	o.flushAll()
}

// ending counts the attempts that end with the worker.
func (l *leases) ending() (n int) {
	for _, a := range l.all() {
		if a.kept == nil {
			n++
		}
	}
	return n
}
