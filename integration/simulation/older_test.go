package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/worker/claim"
)

// Where the server comes back with an older log, as after a loss of power or a restore beneath living
// processes, no process goes by what the log has lost: all tasks of which the log still knows come to
// their ends, and at the end every worker that lives is a node that takes work.
func TestSimulationOfOlderLogs(t *testing.T) {
	var lost, nodes, births, anew atomic.Int64
	each(max(*historiesFlag/5, 1), func(seed uint64) bool {
		h := play(t, *firstFlag+seed, variant{older: true})
		h.report(t)
		lost.Add(int64(h.lost.messages))
		nodes.Add(int64(h.lost.nodes))
		births.Add(int64(h.lost.births))
		anew.Add(int64(h.lost.anew))
		return !t.Failed()
	})
	if *seedFlag >= 0 || t.Failed() {
		return
	}
	for what, n := range map[string]*atomic.Int64{"loses a message": &lost, "loses a fact of a node": &nodes, "loses a birth": &births, "has a worker that registers anew": &anew} {
		if n.Load() == 0 {
			t.Errorf("no history %s", what)
		}
	}
	t.Logf("%d messages were lost, %d of them facts of nodes and %d births; %d times a worker registered anew", lost.Load(), nodes.Load(), births.Load(), anew.Load())
}

// The simulation finds out what goes by a sequence that the log has lost.
func TestSimulationFindsWhatRemembersTooMuch(t *testing.T) {
	for name, m := range map[string]struct {
		lacks   variant
		promise error
		known   uint64 // a seed that shows it
	}{
		"a chain that ends before what is remembered of it has nothing new": {variant{log: func(p *port) events.Log { return blithe{p, map[uint64]events.Record{}} }}, errIdle, 1},
		"an offer in hand outlives its birth": {variant{
			protocol: func(p *claim.Protocol) protocol { return trustingOffers{p} }, log: func(p *port) events.Log { return stubborn{p} },
		}, errUnborn, 1160},
	} {
		t.Run(name, func(t *testing.T) {
			m.lacks.older = true
			if !searched(m.known, func(seed uint64) bool {
				found := errors.Is(play(t, seed, m.lacks).failure, m.promise)
				if found {
					t.Logf("found by seed %d", seed)
				}
				return found
			}) {
				t.Errorf("in %d histories nobody has noticed", enough)
			}
		})
	}
}

// blithe is a log of which a node's chain says nothing new where it has lost what its reader remembers,
// as long as there is any.
type blithe struct {
	*port
	seen map[uint64]events.Record
}

func (l blithe) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := l.port.Append(ctx, f, last)
	if err == nil {
		l.seen[seq] = events.Record{Seq: seq, Fact: *f}
	}
	return seq, err
}

func (l blithe) Node(ctx context.Context, id node.ID, from uint64) ([]events.Record, error) {
	records, err := l.port.Node(ctx, id, from)
	for i := range records {
		l.seen[records[i].Seq] = records[i]
	}
	if from > 0 && errors.Is(err, node.ErrUnknown) {
		if some, _ := l.Memory.Node(ctx, id, 0); len(some) > 0 {
			return []events.Record{l.seen[from]}, nil
		}
	}
	return records, err
}

// stubborn is a log that claims are sent to again until there is an answer, whatever it has become by then.
type stubborn struct{ *port }

func (l stubborn) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := l.port.Append(ctx, f, last)
	for f.Type == events.AttemptStarted && errors.Is(err, events.ErrUnknown) {
		seq, err = l.port.Append(ctx, f, last)
	}
	return seq, err
}

// trustingOffers does not ask whether the server was away since an offer came.
type trustingOffers struct{ *claim.Protocol }

func (p trustingOffers) Claim(ctx context.Context, o *events.Offer, t *task.Task) (bool, error) {
	trusted := *o
	trusted.Lease = sure{o.Lease}
	return p.Protocol.Claim(ctx, &trusted, t)
}

// sure is the lease of a server that was never away.
type sure struct{ events.Lease }

var (
	// errIdle: a worker lives, and the log does not have it among the nodes that are online.
	errIdle = errors.New("a worker lives, and takes no work")
	// errUnborn: a worker runs what was never born, as far as the log knows.
	errUnborn = errors.New("a worker runs a task of which the log does not say what it is")
)

// losses are what the log of a history has lost.
type losses struct {
	times, messages int
	nodes, births   int // facts of nodes, and births of tasks that have no other
	// tasks have lost messages of their own.
	tasks map[task.ID]bool
	anew  int // how often a worker registered because the log did not have its node any more
}

// losesOnce is how many steps there are for each loss, on average.
const losesOnce = 80

// mostLost is how many messages are lost at once at most.
const mostLost = 12

// lose brings the server back without its last messages. What was on its way to it is lost, too, and
// every read model is made again.
func (h *history) lose() {
	h.observe()
	if len(h.records) == 0 || h.failure != nil {
		return
	}
	n := 1 + h.rng.IntN(min(len(h.records), mostLost))
	gone := h.records[len(h.records)-n:]
	h.remark("server", fmt.Sprintf("comes back without its last %d messages", n))
	h.mem.Lose(n)
	h.flying = nil
	for _, a := range h.actors {
		if a.pending != nil && a.pending.kind != turn {
			a.pending.cut = true
		}
	}
	h.lost.times++
	h.lost.messages += n
	kept := h.records[:len(h.records)-n]
	h.seen = uint64(len(kept))
	h.records, h.stories, h.fold, h.rated = nil, map[task.ID]story{}, newFold(), map[string]*ratedUse{}
	for i := range kept {
		h.learn(&kept[i])
	}
	h.feed, _ = h.mem.Follow(context.Background(), h.seen+1)
	for i := range gone {
		r := &gone[i]
		if h.lost.tasks[r.Fact.Task] = true; r.Kind == events.KindNode {
			h.lost.nodes++
		}
		if _, birth := r.Fact.Event.(task.Submitted); birth && !hasBirth(h.stories[r.Fact.Task]) {
			h.lost.births++
			delete(h.accepted, r.Fact.Task)
		}
	}
	unsure := func(r *run) { r.lost = r.lost || r.task.Head > h.seen }
	for _, w := range h.workers {
		w.shut = true      // until it has beaten over the new connection
		if w.runs != nil { // it may wait to begin
			unsure(w.runs)
		}
	}
	for _, runs := range h.runs {
		for _, r := range runs {
			unsure(r)
		}
	}
}

// hasBirth tells whether the log has the birth of a task.
func hasBirth(s story) bool { return kept("", s) == nil }

// says tells whether the log says what a task is: it has the birth, or an offer that has its work, too.
func (h *history) says(id task.ID) bool { return h.fold.tasks[id].Spec != nil }

// judgeWorkers checks that every worker that lives is online, as far as the log knows. Of those with one
// name it is the latest.
func (h *history) judgeWorkers() {
	for range 3 { // what has just begun gets its time
		h.round()
	}
	latest := map[node.ID]*workerProcess{}
	for _, w := range h.workers {
		if w.actor != nil && !w.actor.dead && !w.leaving {
			latest[w.node] = w
		}
	}
	for _, id := range slices.Sorted(maps.Keys(latest)) {
		if n := h.fold.nodes[id]; n.Session != latest[id].session || !n.Alive() {
			h.fail(fmt.Errorf("%w: %s; the log has the session %q of the node, %v", errIdle, latest[id].session, n.Session, n.Link))
		}
	}
}
