// Package worker runs tasks: it pulls offers, claims them, runs the tasks and reports how they
// ended.
//
//	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{Queues: []string{"images"}})
//	…
//	w.Handle("resize", func(ctx context.Context, t task.Task) error { … })
//	err = w.Run(ctx)
//
// A task may run more than once, when a node is lost or cannot be reached; the log accepts only one
// result. A handler that acts on the outside should pass on the epoch of its task
// ([task.Task.Epoch]), which only grows, so that the other side can refuse a late attempt.
//
// A [Function] has the rules of a durable function while it runs: which of the steps that its task
// remembers it has come to, what is recorded and when, and what ends its attempt. Functions of Go
// programs go by them, and programs in other languages, over their lines.
//
// The rules of tasks are in package task. Package worker/process runs child processes; this package knows it
// only as a [Runner].
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
	"millrace/worker/claim"
)

// Worker is one node. Create it with [New], add handlers, then Run it once.
type Worker struct {
	cfg     Config
	offers  Offers
	nodes   Nodes
	outputs Outputs

	ackWait  time.Duration
	handlers handlers
	wrong    value.Faults // of handlers
	protocol *claim.Protocol
	leases   leases
	safety   safety
	aside    aside
	others   *others
	spools   *spools
	beaten   atomic.Pointer[time.Time] // when the last heartbeat by which the log holds the node for online was sent
	poke     chan struct{}             // holds one while something may have happened to the node
	beatTurn chan struct{}             // holds one while a heartbeat is being stored
	machine  machine                   // belongs to who holds beatTurn
	stored   chan struct{}             // holds one when there is a new one
	gate     *gate
	room     room
	pace     *pace
	known    atomic.Pointer[known] // the node as last read from the log
	log      *slog.Logger

	broken     <-chan events.Break // set by Run; see [events.Offers]
	parting    parting             // set by Run
	lasting    context.Context     // set by Run; context of attempts and reports, which end by themselves
	renewing   atomic.Bool
	counts     counts
	background sync.WaitGroup
}

// New returns a worker. An error names the wrong field of cfg.
func New(on Ports, cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if cfg.Now == nil {
		cfg.Now = nowOf(on.Log)
	}
	ackWait := on.Offers.AckWait()
	if err := cfg.validate(ackWait); err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, offers: on.Offers, outputs: on.Outputs, ackWait: ackWait, handlers: handlers{}, gate: newGate(), log: cfg.Log,
		protocol: &claim.Protocol{
			Recorder: &events.Recorder{Log: on.Log, Hints: on.Nodes, Now: cfg.Now, NewID: events.NewID},
			Node:     cfg.Node, Session: events.NewID(cfg.Now()),
			Accounts: &events.Accounts{Log: on.Log, Beats: on.Nodes, Lease: ackWait},
		},
	}
	w.protocol.Chance = rand.Float64
	w.nodes = countedBeats{on.Nodes, &w.counts}
	w.protocol.Labels = func() (map[string]string, uint64) { by := w.known.Load(); return by.labels, by.node.Head }
	w.known.Store(&known{node: events.UnreadNode(cfg.Node)})
	w.others = &others{log: w.protocol.Recorder, alive: on.Nodes.Alive, self: cfg.Node}
	w.protocol.Runs = w.runs
	w.protocol.Preferring = claim.Preferring{Peers: w.others.peers, Ran: on.Outputs.Ran, Remember: on.Outputs.SaveRan}
	w.leases.running = map[task.ID]*Attempt{}
	w.beatTurn, w.stored, w.poke = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	w.safety = safety{w.ackWait, cfg.NodeTTL, min(cfg.Beat, w.ackWait/3)}
	w.pace = newPace(cfg.Slots, w.safety.slowClaim())
	w.spools = newSpools(cfg.Spool, cfg.Node, w.protocol.Session, cfg.SpoolLimit)
	return w, nil
}

// Handle makes h run the tasks with this handler name: 1 to 64 letters a to z, digits, '_', '-', '.'
// or ':'. Call it before Run. Run returns an error if a name is invalid, or has two handlers.
func (w *Worker) Handle(name string, h Handler) {
	if h == nil {
		w.wrong = append(w.wrong, fmt.Errorf("handler %q is nil", name))
	}
	w.HandleBy(name, h)
}

// HandleBy is [Worker.Handle] for handlers that are no Go functions. Their attempts can have their
// time extended.
func (w *Worker) HandleBy(name string, r Runner) {
	switch err := value.ValidName(value.KindHandler, name); {
	case err != nil:
		w.wrong = append(w.wrong, err)
	case w.handlers[name] != nil:
		w.wrong = append(w.wrong, fmt.Errorf("two handlers are called %q: give each a name of its own", name))
	}
	w.handlers[name] = r
}

// Run pulls and runs tasks until ctx ends. Then it takes no new ones, lets running tasks go on for
// the grace time, gives back those that have not ended, and returns nil once everything that it
// started has ended. It returns an error if it had to end by itself: another process has registered
// as the same node, the connection to the log is closed for good ([events.ErrGone]), the log cannot be
// used, or its handlers are wrong.
func (w *Worker) Run(ctx context.Context) error {
	if err := value.JoinFaults(w.wrong...); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	offers, err := w.offers.Offers(ctx, append(slices.Clone(w.cfg.Queues), placement.NodeQueue(string(w.cfg.Node))))
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer offers.Close()
	offers.Weigh(w.cfg.Weights)
	w.broken = offers.Broken()
	stopHints, err := w.nodes.OnHint(w.cfg.Node, w.hear)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer stopHints()
	stopPongs, err := w.nodes.OnPing(w.cfg.Node, w.pong)
	if err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	defer stopPongs()
	p := &presence{w: w, offers: offers}
	defer w.spools.close()
	// Read before the session begins: its begin loses the attempts of the last session.
	first, enough := context.WithTimeout(ctx, w.ackWait)
	left := w.handOverLeft(first)
	enough()
	if err := p.register(ctx); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	w.log.Info("worker started", "node", string(w.cfg.Node), "queues", w.cfg.Queues, "slots", w.cfg.Slots)

	// Three lifetimes: pulling ends first, then the attempts with their output, then what serves
	// them.
	pulling, stopPulling := context.WithCancel(ctx)
	defer stopPulling()
	w.lasting = context.WithoutCancel(ctx)
	attempts, stopAttempts := context.WithCancelCause(w.lasting)
	defer stopAttempts(nil)
	w.parting = newParting(ctx)
	defer w.parting.over()
	defer w.parting.start()
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	// Adopt before anything is pulled: the offer of a left attempt may be among the first.
	adopted := w.adoptLeft(ctx, attempts)

	var g errgroup.Group
	g.Go(func() error {
		defer stopPulling() // a node that no longer belongs to this process takes no work
		err := p.live(serving)
		if err != nil { // nor does it go on with any: those tasks start elsewhere soon
			w.gate.set(false)
			why := ErrSucceeded
			if errors.Is(err, events.ErrGone) {
				why = ErrCutOff
			}
			w.stopAll(why, stopAttempts)
		}
		return err
	})
	g.Go(func() error { return w.renew(serving) })
	if left {
		g.Go(func() error { w.watchLeft(serving); return nil })
	}
	g.Go(func() error {
		defer stopServing()
		var slots sync.WaitGroup
		w.counts.pulling.Store(true)
		for _, first := range w.serveAdopted(adopted, w.cfg.Slots) {
			slots.Go(func() {
				if first != nil {
					first()
				}
				w.slot(pulling, attempts, offers)
			})
		}
		<-pulling.Done()
		w.counts.pulling.Store(false)
		w.gate.set(false)
		w.drain(serving, &slots, stopAttempts)
		return nil
	})
	err = g.Wait()
	w.background.Wait()
	p.leave()
	return err
}

// slot runs one task after the other.
func (w *Worker) slot(pulling, attempts context.Context, offers events.Offers) {
	for {
		w.room.stand(pulling)
		open, ok := w.gate.enter(pulling)
		if !ok {
			return
		}
		if beaten := w.beaten.Load(); beaten != nil && !w.safety.mayAsk(time.Since(*beaten)) {
			w.gate.set(false)
			w.wake() // the presence loop opens the gate again
			continue
		}
		if !w.pace.begin(open) {
			continue
		}
		offer, err := offers.Next(open)
		received := time.Now()
		w.counts.asked(err, open)
		if len(w.broken) > 0 {
			w.gate.set(false) // the presence loop waits for an answer, and has not heard of it yet
		}
		late := open.Err() != nil || pulling.Err() != nil // looked at once: it can change between two looks
		if err != nil || late {
			w.pace.end(time.Time{}, received, false)
		}
		switch {
		case err == nil && late:
			// The offer came just as the node stopped taking work: another worker starts it at
			// once, unless its task still runs here.
			if !w.leases.redelivered(offer, time.Now()) {
				_ = offer.Return() // else it is delivered again when its lease has expired
			}
		case err == nil:
			if cost := w.costOf(attempts, offer); cost > 1 && cost <= w.cfg.Slots {
				w.pace.end(time.Time{}, received, false) // it may have to wait for room
				w.serveLarge(pulling, attempts, offer, cost)
				continue
			}
			a := w.take(attempts, offer)
			w.hold(a, received)
		case open.Err() == nil:
			w.log.Error("no offers can be had; trying again", "error", err)
			sleep(open, time.Second)
		}
	}
}

// costOf returns how many slots the task of an offer takes. The offer of a timer does not say, so
// the task is read; if that fails it counts as one slot, and its claim will fail for the same
// reason.
func (w *Worker) costOf(ctx context.Context, o *events.Offer) int {
	switch e := o.Fact.Event.(type) {
	case task.Submitted:
		return e.Spec.Cost()
	case task.Queued:
		return e.Spec.Cost()
	case task.Due:
		if w.cfg.Slots == 1 {
			return 1 // there is nothing to make room in
		}
		if t, err := w.protocol.Recorder.Load(ctx, o.Fact.Task); err == nil {
			o.Read = &t
			if t.Awaits(e) {
				return t.Spec.Cost()
			}
		}
	}
	return 1
}

// serve does what an offer asks for, to its end.
func (w *Worker) serve(ctx context.Context, offer *events.Offer) {
	if !w.pace.join() { // the node leaves
		_ = offer.Return()
		return
	}
	received := time.Now()
	a := w.take(ctx, offer)
	w.hold(a, received)
}

// hold runs a begun attempt, whose offer came at that time, to its end; nil if none has begun.
func (w *Worker) hold(a *Attempt, received time.Time) {
	w.pace.end(received, time.Now(), a != nil)
	if a != nil {
		w.runToEnd(a)
		w.pace.release(received, time.Now(), errors.Is(context.Cause(a.context), ErrLeaseLost))
	}
}

// take claims the task of an offer and begins its attempt; nil if there is none to begin here.
func (w *Worker) take(ctx context.Context, offer *events.Offer) *Attempt {
	received := time.Now()
	if w.leases.redelivered(offer, received) {
		return nil
	}
	if !w.mayBegin(received) {
		w.gate.set(false)
		w.wake() // the presence loop opens the gate again
		_ = offer.Return()
		return nil
	}
	if rest := w.aside.rest(offer.Fact.Task, received); rest > 0 {
		_ = offer.Rest(rest)
		return nil
	}
	a := &Attempt{worker: w}
	mine, err := w.protocol.Claim(ctx, offer, &a.Task)
	if err != nil {
		w.log.Warn("offer not claimed; it comes again when its lease has run out", "error", err)
		return nil
	}
	if !mine {
		return nil
	}
	w.begin(ctx, a, offer, received, nil)
	return a
}

// runToEnd runs a begun attempt to its end, and reports that.
func (w *Worker) runToEnd(a *Attempt) {
	defer w.protocol.Vacate(&a.Task)
	var outcome Outcome
	if !w.awaitStart(a) {
		outcome.Stopped = true
	} else if err := a.resume(a.context); err != nil && a.Left() == nil {
		// The task is not at fault, so this costs none of its attempts.
		a.stop(fmt.Errorf("%w: %w", ErrUnread, err))
		outcome = Outcome{Stopped: true}
	} else {
		outcome = w.runner(&a.Task).Run(a.context, a)
	}
	if outcome.Left {
		w.leases.leave(a)
		a.end()
		return
	}
	if err := a.Output.close(); err != nil && outcome.Class == "" {
		outcome.Class, outcome.Message = value.System, err.Error()
	}
	a.traced(&outcome)
	if outcome.Stopped && ownFault(context.Cause(a.context)) {
		w.aside.put(a.Task.ID, time.Now(), w.safety) // before its next offer can arrive
	}
	w.report(a, outcome)
	w.leases.remove(a)
	a.end()
}

// runs tells whether this worker can run tasks of a spec.
func (w *Worker) runs(s *job.Spec) bool {
	if s != nil && s.Run != nil && s.Run.Image != "" {
		return w.cfg.Commands != nil && len(w.cfg.Runtimes) > 0 && (s.Run.Runtime == "" || slices.Contains(w.cfg.Runtimes, s.Run.Runtime))
	}
	if s == nil || s.Run != nil {
		return w.cfg.Commands != nil
	}
	_, ok := w.handlers[s.Handler]
	return ok
}

func (w *Worker) runner(t *task.Task) Runner {
	if t.Spec.Run == nil {
		return w.handlers
	}
	if w.cfg.Commands == nil {
		return noCommands{}
	}
	return w.cfg.Commands
}

// begin turns a claimed task, or one that an earlier process has left, into a running attempt.
func (w *Worker) begin(ctx context.Context, a *Attempt, offer *events.Offer, received time.Time, left *Orphan) {
	t := &a.Task
	a.output = Output{
		worker:  w,
		ctx:     w.storing(ctx, t.Spec.Continues()),
		task:    t.ID,
		attempt: t.Attempt,
		epoch:   t.Epoch,
		heard:   received,
		beat:    received,
		allowed: w.allows(t),
	}
	a.Output, a.heard = &a.output, make(chan struct{}, 1)
	a.started.Store(left != nil)
	if t.Spec.Continues() {
		a.Output.spill = &spill{w: w, out: a.Output, task: *t}
	}
	a.lease.begin(offer, received)
	if left == nil {
		a.lease.since = received
	}
	if left != nil || w.keeps(t) {
		a.keep(ctx, left, received)
	}
	// This context does not derive from ctx: stopAll cancels it directly.
	a.context, a.stop = context.WithCancelCause(w.lasting)
	a.trace()
	if left != nil {
		a.Output.heard = time.Now()
		a.Output.beat = a.Output.heard
	}
	a.watchSilence()
	if until := t.RunUntil(); !until.IsZero() {
		a.Deadline = until
		rest := until.Sub(t.StartedAt) - w.ran(t, received)
		if !a.fixed() {
			a.watchRun(rest)
			a.runUntil(until)
		} else {
			a.context, a.release = context.WithTimeoutCause(a.context, rest, ErrTimeout)
		}
	}
	if left != nil {
		w.protocol.Occupy(t)
	}
	w.leases.add(a)
	if ctx.Err() != nil { // stopAll ran before this attempt was listed
		a.stop(context.Cause(ctx))
	}
	if left == nil && !a.mayGoOn(time.Now(), *w.beaten.Load()) { // the answer to the claim came too late
		a.stop(ErrLeaseLost)
	}
}

// report tells the log how an attempt ended, and repeats it as often as necessary.
func (w *Worker) report(a *Attempt, o Outcome) {
	c := w.command(a, o)
	if a.Output.spill != nil {
		w.reportSpooled(a, c)
		return
	}
	ctx, enough := w.reporting() // the report outlives the stop of its attempt
	defer enough()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		offer, confirmed := a.lease.get()
		told, err := w.tell(ctx, a.known(), offer, c)
		if told {
			a.tellReported()
			return
		}
		if errors.Is(err, events.ErrGone) || ctx.Err() != nil || time.Since(confirmed) > w.abandonAfter() {
			w.log.Error("result could not be recorded; the next worker runs the task again", "error", err, "task", string(a.Task.ID))
			return
		}
		w.log.Warn("result not recorded yet; trying again", "error", err, "task", string(a.Task.ID))
		sleep(ctx, pause)
	}
}

// abandonAfter is how long a result is offered to a log that does not answer, counted from its last
// answer.
func (w *Worker) abandonAfter() time.Duration { return 10*w.ackWait + time.Minute }

// givenBack are the causes for which a stopped attempt gives its task back.
var givenBack = []error{ErrShutdown, ErrHurry, ErrDrained, ErrSucceeded, ErrCutOff, ErrLeaseLost, ErrCrowded, ErrLeft, ErrUnread}

// command turns an outcome into a command for the task, given why the attempt was stopped.
func (w *Worker) command(a *Attempt, o Outcome) task.Command {
	epoch, drawn := a.Task.Epoch, a.drawn()
	if o.Class == "" && !o.Stopped {
		if err := a.Task.Spec.Fits(o.Result); err != nil {
			// Another attempt would only do it again.
			return task.Fail{Epoch: epoch, Class: value.Task, Exit: o.Exit, Message: "the result does not fit what the job says of it: " + err.Error(), Usage: o.Usage, Final: true, Drawn: drawn}
		}
		return task.Finish{Epoch: epoch, Exit: o.Exit, Result: o.Result, Usage: o.Usage, Drawn: drawn}
	}
	fail := task.Fail{
		Epoch:      epoch,
		Class:      o.Class,
		Exit:       o.Exit,
		Message:    o.Message,
		Usage:      o.Usage,
		Final:      o.Final,
		RetryAfter: o.RetryAfter,
		Chance:     rand.Float64(),
		Drawn:      drawn,
	}
	switch {
	case o.Park != nil && !o.Stopped:
		return task.Suspend{Epoch: epoch, Park: *o.Park, First: o.First, Steps: o.Steps, Usage: o.Usage}
	case o.Snooze > 0 && !o.Stopped:
		return task.Release{Epoch: epoch, Reason: o.Message, Until: w.cfg.Now().Add(o.Snooze), Drawn: drawn}
	case !o.Stopped:
		return fail
	}
	switch cause := context.Cause(a.context); {
	case errors.Is(cause, ErrCancelled) && o.Survivors > 0:
		return task.Lose{Epoch: epoch, Reason: fmt.Sprintf("%d processes could not be killed", o.Survivors)}
	case errors.Is(cause, ErrCancelled):
		return task.Stopped{Epoch: epoch, Exit: o.Exit, Usage: o.Usage}
	case !a.started.Load(): // it has not used its time
		return task.Release{Epoch: epoch, Reason: ErrLeaseLost.Error()}
	case errors.Is(cause, ErrTimeout):
		fail.Class, fail.Message = value.Timeout, fmt.Sprintf("timeout: ran longer than %v", a.allowed())
		return fail
	case errors.Is(cause, ErrHeartbeat):
		fail.Class, fail.Message = value.Timeout, fmt.Sprintf("heartbeat timeout: sent no message for %v", a.Task.Spec.Timeout.Heartbeat)
		return fail
	case errors.Is(cause, ErrIdle):
		fail.Class, fail.Message = value.Timeout, fmt.Sprintf("idle timeout: said nothing for %v", a.Task.Spec.Timeout.Idle)
		return fail
	case slices.ContainsFunc(givenBack, func(of error) bool { return errors.Is(cause, of) }):
		return task.Release{Epoch: epoch, Reason: cause.Error(), Drawn: drawn}
	}
	return fail
}

// sleep waits for d, or until ctx ends.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
