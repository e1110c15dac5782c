package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/claim"
)

// Times of a history; those of the dev profile.
const (
	ackWait = 6 * time.Second
	nodeTTL = 6 * time.Second
	beat    = 2 * time.Second
)

var queues = []string{placement.DefaultQueue, "bulk"}

// protocol decides about offers on a worker's behalf; in an honest history it is a
// [claim.Protocol].
type protocol interface {
	Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error)
	Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error
}

// workerProcess is one life of a node, with one slot or several: the steps of package worker,
// without its goroutines and timers.
type workerProcess struct {
	*actor
	port     *port
	rec      *events.Recorder
	protocol protocol
	node     node.ID
	session  string
	beaten   time.Time
	// shut is set while it takes nothing before it has beaten once more.
	shut bool
	// succeeded is whether another process has the node's name now.
	succeeded bool
	beats     int // how many were sent
	stored    int // the latest that was stored
	leaving   bool
	runs      *run   // the attempt that runs, or reports; nil for none
	beside    []*run // those that run as well, in roomy histories
	places    *claim.Protocol
	offers    events.Offers
	known     events.KnownNode // its own, as last read
	has       *leftover        // the attempt that runs, if it outlives the process
}

// startWorker begins a new session of a node. If the process is killed, another
// takes its place after a while.
func (h *history) startWorker(id node.ID, mortal bool, left *leftover) {
	h.sessions++
	session := fmt.Sprintf("%s.%d", id, h.sessions)
	w := &workerProcess{node: id, session: session, has: left}
	h.workers = append(h.workers, w)
	a := h.start(session, mortal, func(a *actor) {
		w.actor, w.port = a, &port{h.mem, a}
		w.rec = h.recorder(a, "")
		honest := &claim.Protocol{
			Recorder: w.rec, Node: id, Session: session, Labels: func() (map[string]string, uint64) { return w.self().Selectable(), 0 },
			Accounts: &events.Accounts{Log: w.port, Beats: w.port, Lease: ackWait},
		}
		w.protocol, w.places = honest, honest
		if h.variant.protocol != nil {
			w.protocol = h.variant.protocol(honest)
		}
		w.run()
	})
	a.gone = func() {
		away := 8 * time.Second
		if h.variant.retiring {
			away = 40 * retireAfter
		}
		r := replacement{node: id, at: h.in(away)}
		if a.dead && w.has != nil {
			r.left, r.at = w.has, h.in(4*time.Second)
		}
		h.replacements = append(h.replacements, r)
	}
}

// replacement is a session to come.
type replacement struct {
	node node.ID
	at   time.Time
	left *leftover // left by the process before; nil for nothing
}

// self describes the node itself.
func (w *workerProcess) self() *node.Node {
	slots := 1
	if w.h.variant.roomy {
		slots = roomyRuns
	}
	return &node.Node{ID: w.node, State: node.Ready, Profile: node.Profile{Slots: slots, Queues: queues}}
}

// choose has the node pull from the routes of selectors that it matches, as it finds them at this
// moment.
func (w *workerProcess) choose(ctx context.Context, offers events.Offers) {
	declared, err := w.h.mem.Declared(ctx)
	var names []string
	for _, d := range declared {
		if rule, _ := w.self().Excluded(node.Want{Queue: d.Queue, Needs: d.Needs}); rule == "" || rule.Passing() {
			names = append(names, d.Route())
		}
	}
	if err == nil {
		err = offers.Also(ctx, names)
	}
	if err != nil {
		panic(err) // a log in memory always has them
	}
}

func (w *workerProcess) register(ctx context.Context) error {
	profile := w.self().Profile
	profile.TTL = value.Duration(nodeTTL)
	n, _, err := w.rec.DoKnownNode(ctx, events.UnreadNode(w.node), node.Register{Session: w.session, Profile: profile})
	w.known = n
	return err
}

// do records an event of the worker's own node, of which it knows the earlier facts.
func (w *workerProcess) do(c node.Command) (err error) {
	w.known, _, err = w.rec.DoKnownNode(context.Background(), w.known, c)
	return err
}

// online is the command that makes sure that the log says so, over each new connection anew.
func (w *workerProcess) online() node.Beat {
	return node.Beat{Session: w.session, Connection: uint64(w.h.lost.times)}
}

func (w *workerProcess) run() {
	ctx := context.Background()
	for w.register(ctx) != nil {
	}
	offers, err := w.h.mem.Offers(ctx, append(slices.Clone(queues), placement.NodeQueue(string(w.node))))
	if err != nil {
		panic(err) // a log in memory always has them
	}
	w.offers = offers
	for w.beaten.IsZero() && !w.leaving { // a session that is not online is over, to the others
		if w.keepBeating(); w.beaten.IsZero() {
			w.turn("is not online", w.h.in(time.Second/2))
		}
	}
	if w.has != nil {
		w.takeUp(ctx)
	}
	for !w.leaving {
		w.keepBeating()
		if !w.take(ctx) {
			w.turn("idles", w.h.in(time.Second/2))
		}
		if w.mortal && w.h.chance(w.h.weather.stop/2) && !w.h.calm {
			w.leave(ctx)
		}
	}
	if w.gone != nil {
		w.dead = true
		w.gone()
	}
}

// take takes an offer and does what it asks for. It returns false if there is none.
func (w *workerProcess) take(ctx context.Context) bool {
	w.choose(ctx, w.offers)
	var offer *events.Offer
	if !w.shut && time.Since(w.beaten) < stopAfter { // otherwise nothing that it runs would be safe
		offer = w.port.pull(w.offers.(*events.MemoryOffers))
	}
	switch {
	case offer == nil:
		return false
	case w.leaving || w.h.chance(w.h.weather.stop):
		_ = offer.Return()
	default:
		w.serve(ctx, offer)
	}
	return true
}

// roomyRuns is how many attempts run on a node at once at most, where several do.
const roomyRuns = 4

// takeBeside takes another offer while an attempt runs; the attempt stands still meanwhile.
func (w *workerProcess) takeBeside(ctx context.Context) {
	r := w.runs
	w.beside = append(w.beside, r)
	w.take(ctx)
	w.beside, w.runs = w.beside[:len(w.beside)-1], r
}

// heard are the attempts that the next heartbeat names.
func (w *workerProcess) heard() (named []*run) {
	for _, r := range append(w.beside[:len(w.beside):len(w.beside)], w.runs) {
		if r != nil && !r.told && !r.lazy {
			named = append(named, r)
		}
	}
	return named
}

func (w *workerProcess) leave(ctx context.Context) {
	w.leaving = true
	if w.succeeded {
		return // the heartbeat is the other one's
	}
	if w.runs != nil {
		w.beat() // the last word about what it leaves
	}
	_ = w.do(node.Drain{Session: w.session, Reason: "asked to end"})
	_ = w.do(node.Leave{Session: w.session, Reason: "the worker has ended"})
	_ = w.call(&call{kind: write, op: "forget", do: func() error {
		if p, _ := w.h.mem.Pulse(ctx, w.node); p.Beat.Session == w.session {
			return w.h.mem.Forget(ctx, w.node)
		}
		return nil
	}})
}

// keepBeating sends a heartbeat if the last one is at least a beat old.
func (w *workerProcess) keepBeating() {
	if !w.shut && time.Since(w.beaten) < beat {
		return
	}
	w.setClock(false)
	w.beat()
}

// beat sends a heartbeat that names the attempts.
func (w *workerProcess) beat() {
	asked := time.Now()
	h := node.Heartbeat{Session: w.session, At: w.now()}
	named := w.heard() // as the worker believes
	for _, r := range named {
		if !w.h.variant.nameless {
			h.Runs = append(h.Runs, r.task.Epoch)
		}
	}
	w.beats++
	err := w.port.beat(w.node, h, &w.stored, w.beats)
	if errors.Is(err, events.ErrConflict) { // the log says whose node it is
		if err = w.do(w.online()); err != nil {
			w.refused(err)
		} else {
			asked = time.Now()
			err = w.port.beat(w.node, h, &w.stored, w.beats)
		}
	}
	if err != nil {
		return
	}
	for _, r := range named {
		r.confirm(asked)
	}
	if err := w.do(w.online()); err != nil {
		w.refused(err)
		return
	}
	w.beaten, w.shut = asked, false
	for _, r := range append(w.beside[:len(w.beside):len(w.beside)], w.runs) {
		if r != nil && time.Now().Before(r.stops()) {
			r.beaten = asked
		}
	}
}

// refused does what follows when the log does not take the node for this process's, or for one that is
// there.
func (w *workerProcess) refused(err error) {
	switch {
	case errors.Is(err, node.ErrSuperseded):
		w.leaving, w.succeeded = true, true
	case errors.Is(err, node.ErrUnknown): // the log has lost facts of the node
		w.h.lost.anew++
		w.anew()
	case errors.Is(err, node.ErrRetired): // it slept, and was taken for gone
		w.anew()
	}
}

// anew registers the node once more. The next heartbeat tries again.
func (w *workerProcess) anew() {
	w.shut = true
	_ = w.register(context.Background())
}

func (w *workerProcess) serve(ctx context.Context, offer *events.Offer) {
	received := time.Now()
	var t task.Task
	mine, err := w.protocol.Claim(ctx, offer, &t)
	if err != nil || !mine {
		return
	}
	r := &run{task: t, offer: offer, losses: w.h.lost.times, actor: w.actor, began: received, confirmed: received, beaten: w.beaten, lazy: w.h.chance(w.h.weather.lazy) && !w.h.calm, outlives: t.Spec.Adopts()}
	if t.Spec.Adopts() {
		w.has = &leftover{task: t, offer: offer, run: r}
	}
	w.conclude(ctx, r, offer, w.work(ctx, r, offer))
}

// conclude ends an attempt, unless the process leaves it to the next one.
func (w *workerProcess) conclude(ctx context.Context, r *run, offer *events.Offer, stop error) {
	if errors.Is(stop, errLeft) {
		return
	}
	if !r.told {
		w.tell(ctx, r, offer, stop)
	}
	w.runs, w.has = nil, nil
}

// tell reports the end of an attempt of which nothing is left.
func (w *workerProcess) tell(ctx context.Context, r *run, offer *events.Offer, stop error) {
	if stop != nil && w.h.rng.IntN(2) == 0 {
		w.turn("stops", w.h.in(time.Second))
	}
	w.h.endRun(r)
	w.report(ctx, r.task, offer, w.command(r, stop))
	w.places.Vacate(&r.task)
}

// fatal is the handler that takes its process down.
const fatal = "fatal"

// work runs an attempt. It returns why it was stopped, nil if it came to its end.
func (w *workerProcess) work(ctx context.Context, r *run, offer *events.Offer) error {
	w.runs = r
	w.crowded(r)
	for r.waits = !r.lazy; r.waits && !r.mayStart(time.Now()); {
		if !time.Now().Before(r.stops()) {
			return worker.ErrLeaseLost // the answer to the claim, or to a heartbeat, came too late
		}
		w.turn("waits for a heartbeat", w.h.in(time.Second/2))
		w.keepBeating()
		if stop := w.look(ctx, r.task); stop != nil {
			return stop
		}
	}
	r.waits = false
	w.h.begin(r)
	extended := r.confirmed
	if r.task.Spec.Handler == durable {
		return w.function(ctx, r, offer, &extended)
	}
	for range w.h.rng.IntN(7) {
		if over, stop := w.works(ctx, r, offer, &extended); over {
			return stop
		}
	}
	return nil
}

// works lets an attempt run for a while. With over it is to end then, and stop says why; nil if its end
// was told.
func (w *workerProcess) works(ctx context.Context, r *run, offer *events.Offer, extended *time.Time) (over bool, stop error) {
	w.turn("works", w.h.in(ackWait/6))
	if r.task.Spec.Handler == fatal {
		w.die()
	}
	now := time.Now()
	if w.tooLong(r) {
		return true, worker.ErrTimeout
	}
	w.watchBeside(ctx)
	if !r.lazy && !now.Before(r.stops()) {
		return true, worker.ErrLeaseLost
	}
	w.keepBeating()
	if w.h.variant.roomy && len(w.beside)+1 < roomyRuns && !w.leaving && w.h.rng.IntN(2) == 0 {
		if w.takeBeside(ctx); r.told {
			return true, nil
		}
	}
	if w.leaving || w.mortal && !w.h.calm && w.h.chance(w.h.weather.stop) {
		w.leaving = true
		if w.has != nil {
			w.leave(ctx)
			return true, errLeft
		}
		return true, worker.ErrShutdown
	}
	if r.lazy || now.Sub(*extended) < ackWait/3 {
		return false, nil
	}
	if offer.Extend(ctx) == nil {
		*extended = now
	}
	stop = w.look(ctx, r.task)
	return stop != nil, stop
}

func (w *workerProcess) tooLong(r *run) bool {
	run := r.task.Spec.Timeout.Run.Std()
	return run > 0 && w.now().After(r.task.StartedAt.Add(run))
}

// watchBeside stops those of the attempts that run besides which have to stop.
func (w *workerProcess) watchBeside(ctx context.Context) {
	for _, r := range w.beside {
		var stop error
		switch {
		case r.told || r.lazy:
		case w.tooLong(r):
			stop = worker.ErrTimeout
		default:
			stop = w.look(ctx, r.task)
		}
		if stop != nil {
			r.told = true
			w.tell(ctx, r, r.offer, stop)
		}
	}
}

// crowded fails the history if more of a kind run in the process than one of them lets run on a
// node.
func (w *workerProcess) crowded(r *run) {
	counters, err := r.task.OnNode()
	if err != nil {
		panic(err) // such a task is refused at its birth
	}
	for _, c := range counters {
		n, most := 1, c.Max
		for _, other := range w.beside {
			if other.told {
				continue
			}
			others, _ := other.task.OnNode()
			if i := slices.IndexFunc(others, func(o limit.Counter) bool { return o.Name == c.Name }); i >= 0 {
				n, most = n+1, max(most, others[i].Max)
			}
		}
		if n > most {
			w.h.fail(fmt.Errorf("node %s runs %d tasks under %s at once, and %d may", w.node, n, c.Name, most))
		}
	}
}

// look reads the task and tells whether its attempt has to stop.
func (w *workerProcess) look(ctx context.Context, mine task.Task) error {
	t, err := w.rec.Load(ctx, mine.ID)
	switch {
	case err != nil:
		return nil
	case t.Epoch != mine.Epoch || !t.Live():
		return worker.ErrFenced
	case t.State == task.Cancelling:
		return worker.ErrCancelled
	}
	return nil
}

// three is an exit code.
var three = 3

// command returns the command that the end of an attempt amounts to.
func (w *workerProcess) command(r *run, stop error) task.Command {
	t := r.task
	if waits, ok := errors.AsType[parks](stop); ok {
		return waits.Suspend
	}
	fail := task.Fail{Epoch: t.Epoch, Class: value.Task, Chance: w.h.rng.Float64(), Drawn: r.drawn}
	switch {
	case errors.Is(stop, worker.ErrCancelled):
		return task.Stopped{Epoch: t.Epoch}
	case errors.Is(stop, worker.ErrTimeout):
		fail.Class = value.Timeout
		return fail
	case errors.Is(stop, worker.ErrShutdown), errors.Is(stop, worker.ErrLeaseLost):
		return task.Release{Epoch: t.Epoch, Reason: stop.Error(), Drawn: r.drawn}
	case stop != nil, w.h.rng.IntN(3) == 0:
		fail.Final = w.h.policies.IntN(12) == 0
		if w.h.policies.IntN(8) == 0 {
			fail.RetryAfter = time.Duration(w.h.policies.IntN(9000)) * time.Millisecond
		}
		if w.h.variant.values {
			fail.Message, fail.Exit = oneOf(w.h, messages), oneOf(w.h, []*int{nil, new(int), &three})
		}
		return fail
	}
	if r.gave != nil {
		result, err := json.Marshal(r.gave)
		if err != nil {
			panic(err) // it is a list of texts
		}
		return task.Finish{Epoch: t.Epoch, Result: result, Drawn: r.drawn}
	}
	if w.h.variant.values {
		return task.Finish{Epoch: t.Epoch, Result: json.RawMessage(oneOf(w.h, values))}
	}
	return task.Finish{Epoch: t.Epoch, Result: json.RawMessage(fmt.Sprintf(`{"session":%q}`, w.session))}
}

// patience is how often a result is offered to a log that does not answer.
const patience = 8

func (w *workerProcess) report(ctx context.Context, t task.Task, offer *events.Offer, c task.Command) {
	for range patience {
		err := w.protocol.Report(ctx, &t, offer, c)
		if err == nil || errors.Is(err, task.ErrFenced) || errors.Is(err, task.ErrEnded) || errors.Is(err, task.ErrUnknown) {
			return
		}
		w.turn("tries again", w.h.in(time.Second/2))
		w.keepBeating()
	}
}
