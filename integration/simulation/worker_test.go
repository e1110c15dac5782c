package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/worker"
)

// Times of a history; those of the dev profile.
const (
	ackWait = 6 * time.Second
	nodeTTL = 6 * time.Second
	beat    = 2 * time.Second
)

var queues = []string{task.DefaultQueue, "bulk"}

// protocol is what a worker says about an offer; in an honest history a [worker.Protocol].
type protocol interface {
	Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error)
	Report(ctx context.Context, t *task.Task, o *events.Offer, c task.Command) error
}

// workerProcess is one life of a node with one slot: the steps of package worker,
// without its goroutines and timers.
type workerProcess struct {
	*actor
	port     *port
	rec      *events.Recorder
	protocol protocol
	node     node.ID
	session  string
	beaten   time.Time
	leaving  bool
	has      *leftover // the attempt that runs, if it outlives the process
}

// startWorker begins a new session of a node. If the process is killed, another
// takes its place after a while.
func (h *history) startWorker(id node.ID, mortal bool, left *leftover) {
	h.sessions++
	session := fmt.Sprintf("%s.%d", id, h.sessions)
	w := &workerProcess{node: id, session: session, has: left}
	a := h.start(session, mortal, func(a *actor) {
		w.actor, w.port = a, &port{h.mem, a}
		w.rec = h.recorder(a, "")
		honest := &worker.Protocol{Recorder: w.rec, Node: id, Session: session}
		w.protocol = honest
		if h.variant.protocol != nil {
			w.protocol = h.variant.protocol(honest)
		}
		w.run()
	})
	a.gone = func() {
		r := replacement{node: id, at: h.in(8 * time.Second)}
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
	left *leftover // what the process before has left; nil for nothing
}

func (w *workerProcess) run() {
	ctx := context.Background()
	for {
		_, _, err := w.rec.DoNode(ctx, w.node, node.Register{Session: w.session, Profile: node.Profile{Slots: 1, Queues: queues}})
		if err == nil {
			break
		}
	}
	offers, err := w.h.mem.Offers(ctx, append(slices.Clone(queues), task.NodeQueue(string(w.node))))
	if err != nil {
		panic(err) // a log in memory always has them
	}
	if w.has != nil {
		w.takeUp(ctx)
	}
	for !w.leaving {
		w.keepBeating()
		offer := w.port.pull(offers.(*events.MemoryOffers))
		switch {
		case offer == nil:
			w.turn("idles", w.h.in(time.Second/2))
		case w.leaving || w.h.chance(w.h.weather.stop):
			_ = offer.Return()
		default:
			w.serve(ctx, offer)
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

func (w *workerProcess) leave(ctx context.Context) {
	w.leaving = true
	_, _, _ = w.rec.DoNode(ctx, w.node, node.Drain{Session: w.session, Reason: "asked to end"})
	_, _, _ = w.rec.DoNode(ctx, w.node, node.Leave{Session: w.session, Reason: "the worker has ended"})
	_ = w.call(&call{kind: write, op: "forget", do: func() error {
		if w.h.beats[w.node].Session == w.session {
			delete(w.h.beats, w.node)
		}
		return nil
	}})
}

// keepBeating says that the node lives if it has not done so for a while.
func (w *workerProcess) keepBeating() {
	if time.Since(w.beaten) < beat {
		return
	}
	h := node.Heartbeat{Session: w.session, At: time.Now()}
	if w.call(&call{kind: write, op: "beat", do: func() error { w.h.beats[w.node] = h; return nil }}) != nil {
		return
	}
	w.beaten = h.At
	if _, _, err := w.rec.DoNode(context.Background(), w.node, node.Beat{Session: w.session}); errors.Is(err, node.ErrSuperseded) {
		w.leaving = true
	}
}

func (w *workerProcess) serve(ctx context.Context, offer *events.Offer) {
	received := time.Now()
	var t task.Task
	mine, err := w.protocol.Claim(ctx, offer, &t)
	if err != nil || !mine {
		return
	}
	if t.Spec.Adopts() {
		w.has = &leftover{task: t, offer: offer, received: received, confirmed: received}
		w.conclude(ctx, w.work(ctx, t, offer, received))
		return
	}
	w.end(ctx, t, offer, w.work(ctx, t, offer, received))
}

// conclude ends an attempt that outlives the process, unless that is what it does.
func (w *workerProcess) conclude(ctx context.Context, stop error) {
	if !errors.Is(stop, errLeft) {
		w.end(ctx, w.has.task, w.has.offer, stop)
		w.has = nil
	}
}

func (w *workerProcess) end(ctx context.Context, t task.Task, offer *events.Offer, stop error) {
	if stop != nil && w.h.rng.IntN(2) == 0 {
		w.turn("stops", w.h.in(time.Second))
	}
	w.report(ctx, t, offer, w.command(t, stop))
}

// fatal is the handler that takes its process down.
const fatal = "fatal"

// work runs an attempt. It returns why it was stopped, nil if it came to its end.
func (w *workerProcess) work(ctx context.Context, t task.Task, offer *events.Offer, confirmed time.Time) error {
	lazy := w.h.chance(w.h.weather.lazy) && !w.h.calm
	for range w.h.rng.IntN(7) {
		w.turn("works", w.h.in(ackWait/6))
		if t.Spec.Handler == fatal {
			w.die()
		}
		w.keepBeating()
		now := time.Now()
		if run := t.Spec.Timeout.Run.Std(); run > 0 && now.After(t.StartedAt.Add(run)) {
			return worker.ErrTimeout
		}
		if w.leaving || w.mortal && !w.h.calm && w.h.chance(w.h.weather.stop) {
			w.leaving = true
			if w.has != nil {
				w.leave(ctx)
				return errLeft
			}
			return worker.ErrShutdown
		}
		if lazy || now.Sub(confirmed) < ackWait/3 {
			continue
		}
		if now.Sub(confirmed) >= ackWait*2/3 {
			return worker.ErrLeaseLost
		}
		if offer.Extend(ctx) != nil {
			continue
		}
		confirmed = now
		if w.has != nil {
			w.has.confirmed = now
		}
		if stop := w.look(ctx, t); stop != nil {
			return stop
		}
	}
	return nil
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

// command is what the end of an attempt means.
func (w *workerProcess) command(t task.Task, stop error) task.Command {
	fail := task.Fail{Epoch: t.Epoch, Class: task.ReasonTask, Chance: w.h.rng.Float64()}
	switch {
	case errors.Is(stop, worker.ErrCancelled):
		return task.Stopped{Epoch: t.Epoch}
	case errors.Is(stop, worker.ErrTimeout):
		fail.Class = task.ReasonTimeout
		return fail
	case errors.Is(stop, worker.ErrShutdown), errors.Is(stop, worker.ErrLeaseLost):
		return task.Release{Epoch: t.Epoch, Reason: stop.Error()}
	case stop != nil, w.h.rng.IntN(3) == 0:
		return fail
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
