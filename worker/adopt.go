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

// Keeper is a [Runner] that can run attempts that outlive this process.
type Keeper interface {
	Runner
	// Keeps tells whether the keeper runs the attempts of this task so that they outlive the
	// process.
	Keeps(t *task.Task) bool
	// Orphan lists the attempts that earlier processes of the node have left behind: those that still
	// run, and those that have ended unreported. Run resumes an attempt whose Left is set.
	Left() ([]*Orphan, error)
}

// Note is what the next process of the node must know about an attempt. A [Keeper] writes it down.
type Note struct {
	Task task.Task `json:"task"`
	// Lease is the token by which the store recognises the lease of the offer.
	Lease string `json:"lease,omitempty"`
}

// Orphan is an attempt that an earlier process has left behind.
type Orphan struct {
	Note
	// Received is when its offer was received, by the monotonic clock.
	Received time.Time
	// Until is when the attempt stops, unless its lease is confirmed before. It may be in the past.
	Until time.Time
	// PID is the attempt's process, 0 if unknown. Gap is how long no worker has attended it.
	PID int
	Gap time.Duration
	// Handle belongs to the keeper. A worker that does not resume the attempt closes it.
	Handle io.Closer
}

var (
	// ErrLeft: the worker ends and leaves the attempt to the next process of the node.
	ErrLeft = errors.New("the worker ends and leaves the attempt running")
	// ErrCrowded: the worker has come back with fewer slots than it has left attempts.
	ErrCrowded = errors.New("the worker came back with fewer slots than it had left tasks running")
)

// outliving returns the bounds for an attempt that outlives its worker. While its node is silent or
// gone, no other worker starts its task before the node has had one more AckWait to come back; see
// [duties.Owes].
func (s safety) outliving() safety {
	s.nodeTTL += s.ackWait
	return s
}

// until is when an attempt must stop, unless its lease or the heartbeat is confirmed again.
func (s safety) until(confirmed, beaten time.Time) time.Time {
	lease, beat := confirmed.Add(s.ackWait*2/3), beaten.Add(s.nodeTTL*2/3)
	if beat.Before(lease) {
		return beat
	}
	return lease
}

// kept is the state of an attempt that outlives its worker.
type kept struct {
	left     *Orphan
	received time.Time

	mu       sync.Mutex
	told     time.Time       // guarded by mu; the latest time that hold was called with
	hold     func(time.Time) // guarded by mu
	reported func()          // guarded by mu
}

// Orphan returns the record that an earlier process left of the attempt; nil if this process started
// it.
func (a *Attempt) Left() *Orphan {
	if a.kept == nil {
		return nil
	}
	return a.kept.left
}

// Note returns what the next process of the node must know about the attempt, and when its offer
// was received.
func (a *Attempt) Note() (Note, time.Time) {
	n := Note{Task: a.Task}
	if offer, _ := a.lease.get(); offer != nil {
		if l, ok := offer.Lease.(events.Lasting); ok {
			n.Lease = l.Token()
		}
	}
	return n, a.kept.received
}

// OnHold calls hold with the time at which the attempt must stop: at once, and whenever that time
// moves. The keeper makes sure that the attempt stops then, even if this process has died.
func (a *Attempt) OnHold(hold func(until time.Time)) {
	a.kept.mu.Lock()
	a.kept.hold, a.kept.told = hold, time.Time{}
	a.kept.mu.Unlock()
	a.tellHold()
}

// HoldGrace is how long the attempt may take to end by itself after the time that [Attempt.OnHold]
// was called with.
func (a *Attempt) HoldGrace() time.Duration {
	return min(a.Task.Spec.Timeout.Grace(), a.worker.safety.grace())
}

// OnReported calls reported when the end of the attempt is in the log.
func (a *Attempt) OnReported(reported func()) {
	a.kept.mu.Lock()
	defer a.kept.mu.Unlock()
	a.kept.reported = reported
}

// Stop ends the attempt for a cause that its keeper has found. Only the first cause counts.
func (a *Attempt) Stop(cause error) { a.stop(cause) }

// tellHold tells the keeper when the attempt must stop, if that time has moved.
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

// tellReported tells the keeper that the end of the attempt is in the log.
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

// safety returns the arithmetic by which the attempt must stop.
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

// leaveFlush bounds how long a worker that ends may take to store the output of an attempt that
// goes on.
const leaveFlush = 3 * time.Second

// keep makes an attempt one that outlives its worker.
func (a *Attempt) keep(ctx context.Context, left *Orphan, received time.Time) {
	a.kept = &kept{left: left, received: received}
	// Output is stored even if all attempts must end at once.
	storing, done := context.WithCancel(context.WithoutCancel(ctx))
	a.Output.ctx, a.Output.place = storing, &place{}
	context.AfterFunc(ctx, func() { time.AfterFunc(leaveFlush, done) })
	a.release = done
}

// leave lets the attempt go on without this process, for as long as its lease holds.
func (a *Attempt) leave(ctx context.Context) {
	_ = a.lease.extend(ctx) // else other workers get the offer sooner, and find the lease held
	a.tellHold()
	a.stop(ErrLeft)
}

// leaveKept leaves behind all attempts that outlive this worker. A last heartbeat confirms their
// leases.
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

// keptLook is how soon the worker checks whether only attempts that outlive it still run; then it checks less often.
const keptLook = 25 * time.Millisecond

// onlyKept returns a channel that closes when only attempts that outlive the worker still run.
func (w *Worker) onlyKept(ctx context.Context) <-chan struct{} {
	only := make(chan struct{})
	go func() {
		pause := keptLook
		for seen := 0; seen < 2; { // twice: an attempt may be claimed right now
			sleep(ctx, pause)
			pause = min(pause+keptLook, 10*keptLook)
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

// adoptLeft resumes the attempts that earlier processes of the node have left behind. If the task
// of one no longer belongs to the node, the worker stops the attempt and keeps its output as
// evidence.
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

// adopt resumes one attempt if enough slots are free.
func (w *Worker) adopt(ctx, attempts context.Context, l *Orphan, free *int) (*Attempt, error) {
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
		// First, so that no other worker is offered it meanwhile; else it comes again.
		_ = offer.Extend(ctx)
		asked := time.Now()
		t, _, err = w.protocol.Recorder.Do(ctx, t, task.Adopt{
			Epoch:   l.Task.Epoch,
			Node:    string(w.cfg.Node),
			Session: w.protocol.Session,
			PID:     l.PID,
			Gap:     value.Duration(max(l.Gap, 0).Round(time.Millisecond)),
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

// serveAdopted runs the adopted attempts in slots, each in as many as it takes, before those slots
// pull. It returns what each of n slots must do first.
func (w *Worker) serveAdopted(all []*Attempt, n int) []func() {
	first := make([]func(), n)
	at := 0
	for _, a := range all {
		ended := make(chan struct{})
		run := func() { defer close(ended); w.runToEnd(a) }
		cost := a.Task.Spec.Cost()
		if a.context.Err() != nil || at+cost > n { // it is being stopped, outside the slots
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

// place is how far the output of an attempt that outlives its worker has been read. The output is
// written to a file before it is read, so a later process can store each line and record exactly
// once.
type place struct {
	at   int64     // the position reached, including what is added next
	said time.Time // when that was printed
	upto int64     // lines up to here are added, or stored already
	// next is the number of the next record; records is how many are stored already.
	next, records int
}

// skips tells whether a line is stored already; if not, it gives the line its place and time. A
// line that the program did not print gets the place of the line before it. The caller holds mu.
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

// rest returns those of some records that are not stored yet. The caller holds mu.
func (p *place) rest(items []json.RawMessage) []json.RawMessage {
	if p == nil {
		return items
	}
	stored := min(max(p.records-p.next, 0), len(items))
	p.next += len(items)
	return items[stored:]
}

// OutputMemo is what an [Output] must remember about the output up to a place.
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

// Reading declares that what is added next was printed that long ago and ends at a place.
func (o *Output) Reading(at int64, ago time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.place.at, o.place.said = at, o.worker.cfg.Now().Add(-ago)
}

// ReadingTo is Reading for a later place within the same piece of output.
func (o *Output) ReadingTo(at int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.place.at = at
}

// Memo returns what must be remembered about the output so far.
func (o *Output) Memo() OutputMemo {
	o.mu.Lock()
	defer o.mu.Unlock()
	l := o.standing()
	return OutputMemo{
		Lines: o.printed, Records: o.place.next, Taken: o.taken, Bytes: o.records, Live: l.Live, Noted: l.noted,
		// The tail held back for the end is lost with this process; the next process starts a new
		// one.
		Cut: o.cut.lines + int64(len(o.tail.left())), Dropped: o.cut.bytes + o.tail.bytes,
	}
}

// Resume continues from a memo. It asks the store which later output it has already: that output is
// not stored again when it is read again.
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

// Then calls stored when everything added so far is in the store, or with an error if the store
// could not take the records.
func (o *Output) Then(stored func(error)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored = append(o.stored, stored)
	o.wait()
}

// Leave stores everything added so far and waits for that. Nothing may be added after it.
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
