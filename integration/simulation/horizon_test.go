package simulation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/value"
)

// In forgetting histories servers move the horizon of the log all the time, and what has ended stays
// for seconds only. The judge keeps all that ever was in the log.

// errForgets: what the log still has says something else than all that it ever had, or it has
// forgotten what was needed.
var errForgets = errors.New("horizon: the log forgets only what nobody needs")

// keepFor is how long ended tasks stay in a forgetting history.
const keepFor = 5 * time.Second

// frontLog is a log as a server sees it that moves the horizon.
type frontLog interface {
	events.Trimmer
	events.Follower
}

// startCollector begins a server that moves the horizon.
func (h *history) startCollector(name string, mortal bool) {
	h.start(name, mortal, func(a *actor) {
		v, stirs := h.view(a), &scheduler.Stirs{}
		v.hears = func(r *events.Record) {
			if h.variant.mishears {
				r = &events.Record{Seq: r.Seq}
			}
			stirs.Observe([]events.Step{{Record: r}})
		}
		p := &port{h.mem, a}
		f := &scheduler.Forget{
			Rec: h.recorder(a, "scheduler"), Log: p, Keeping: scheduler.Keeping{Age: keepFor, Least: 3, Most: 60},
			Model: v, Stirs: stirs,
			Wait: func(_ context.Context, d time.Duration) error {
				a.turn("waits", time.Now().Add(d))
				a.setClock(false)
				return v.ask("follow the log")
			},
		}
		if h.variant.front != nil {
			f.Log, f.Model, f.Stirs = h.variant.front(p), nil, nil
		}
		for {
			a.turn("waits", h.in(4*time.Second))
			a.setClock(false)
			done, err := f.Round(context.Background())
			if err != nil {
				h.remark(name, "no move: "+err.Error())
			}
			if done.Done {
				h.moved++
			}
		}
	})
}

// A server's calls that move the horizon.

func (p *port) First(ctx context.Context) (first uint64, err error) {
	err = p.actor.call(&call{kind: read, op: "read the first sequence", do: func() (err error) {
		first, err = p.Memory.First(ctx)
		return err
	}})
	return first, err
}

func (p *port) StoredAt(ctx context.Context, at time.Time) (seq uint64, stored time.Time, err error) {
	err = p.actor.call(&call{kind: read, op: "look for a time", do: func() (err error) {
		seq, stored, err = p.Memory.StoredAt(ctx, at)
		return err
	}})
	return seq, stored, err
}

func (p *port) Floor(ctx context.Context) (floor events.Floor, err error) {
	err = p.actor.call(&call{kind: read, op: "look at offers", do: func() (err error) {
		floor, err = p.Memory.Floor(ctx)
		return err
	}})
	return floor, err
}

func (p *port) Later(ctx context.Context, ids []task.ID, seq uint64) (later map[task.ID]bool, err error) {
	err = p.actor.call(&call{kind: read, op: "look what is later", do: func() (err error) {
		later, err = p.Memory.Later(ctx, ids, seq)
		return err
	}})
	return later, err
}

func (p *port) Trim(ctx context.Context, below uint64) error {
	return p.actor.call(&call{kind: write, op: fmt.Sprint("remove all below ", below), do: func() error {
		err := p.Memory.Trim(ctx, below)
		if p.actor.h != nil {
			p.actor.h.judgeTrim()
		}
		return err
	}})
}

// carries tells whether a record says only what others have said before.
func carries(r *events.Record) bool {
	switch r.Fact.Type {
	case events.TaskCarried, events.TaskKept, events.NodeCarried, events.QueueCarried:
		return true
	}
	return r.Fact.Repeats > 0
}

// judgeTrim compares what is left of the log with all that was.
func (h *history) judgeTrim() {
	h.observe()
	ctx := context.Background()
	for _, id := range slices.Sorted(maps.Keys(h.stories)) {
		whole := h.fold.tasks[id]
		if whole.State == task.Unknown || whole.Spec == nil {
			continue
		}
		records, _ := h.mem.Task(ctx, id)
		is := events.FoldTask(id, records)
		switch {
		case is.Spec == nil && whole.State.Terminal():
			if !h.gone[id] && time.Now().Before(whole.EndedAt.Add(keepFor-margin)) {
				h.blame(id, broken(errForgets, "it has ended %v ago", time.Since(whole.EndedAt)))
			}
			h.gone[id] = true
			if p := h.fold.tasks[whole.Parent]; whole.Parent != "" && p.Spec != nil && !p.State.Terminal() && !h.gone[whole.Parent] {
				h.blame(id, broken(errForgets, "its parent %s is %s", short(p.ID), p.State))
			}
		case is.Spec == nil:
			if last := h.stories[id][len(h.stories[id])-1]; !h.gone[id] && last.Fact.Type != events.TaskReopened {
				h.blame(id, broken(errForgets, "it is %s, and gone", whole.State))
			}
			h.gone[id] = true // whoever reopened it just now hears that
		default:
			if field := differsFrom(&is, &whole); field != "" {
				h.blame(id, broken(errForgets, "%s is not what it was: %+v\nand was %+v\n%s", field, is, whole, telling(records)))
			}
		}
	}
	for id, was := range h.fold.nodes {
		records, _ := h.mem.Node(ctx, id, 0)
		is := events.FoldNode(id, records)
		if is.Head, was.Head = 0, 0; was.State != node.Retired && !reflect.DeepEqual(is, was) {
			h.fail(broken(errForgets, "node %s is %+v and was %+v", id, is, was))
		}
	}
	queues := map[string]queue.Queue{}
	for i := range h.records {
		if r := &h.records[i]; r.Kind == events.KindQueue && r.Fact.Event != nil && !carries(r) {
			q := queues[r.Fact.Queue]
			q.Name = r.Fact.Queue
			queues[r.Fact.Queue] = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, r.Fact.Event.(queue.Event))
		}
	}
	for name, was := range queues {
		records, _ := h.mem.Queue(ctx, name)
		if is := events.FoldQueue(name, records); !is.Bounds().Same(was.Bounds()) || was.Rate.Limit > 0 && is.RateSince != was.RateSince {
			h.fail(broken(errForgets, "queue %s is %+v and was %+v", name, is, was))
		}
	}
}

// differsFrom names the first field in which two folds of a task differ; "" if none does. Where the log
// is, may differ.
func differsFrom(a, b *task.Task) string {
	x, y := reflect.ValueOf(*a), reflect.ValueOf(*b)
	for i := range x.NumField() {
		switch name := x.Type().Field(i).Name; name {
		case "Head", "Seq", "Carry", "Rivals":
		default:
			if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
				return name
			}
		}
	}
	return ""
}

// remembers tells whether the log still has a task.
func (h *history) remembers(id task.ID) bool {
	if !h.variant.forgets {
		return true
	}
	records, _ := h.mem.Task(context.Background(), id)
	t := events.FoldTask(id, records)
	return t.Spec != nil
}

// judgeKeys checks that no two open tasks have one unique key.
func (h *history) judgeKeys() {
	holder := map[string]task.ID{}
	for _, id := range slices.Sorted(maps.Keys(h.fold.tasks)) {
		t := h.fold.tasks[id]
		key, err := t.UniqueKey()
		if err != nil || key == "" || t.Spec.Collapse != nil || t.State.Terminal() || t.State == task.Unknown || h.gone[id] {
			continue
		}
		if other := holder[key]; other != "" {
			h.blame(id, broken(errForgets, "task %s has the unique key, too", short(other)))
		}
		holder[key] = id
	}
}

// unique gives some tasks a unique key.
func (h *history) unique(s *birth.Submission) {
	if h.policies.IntN(4) == 0 {
		s.Spec.Unique = job.Unique{Key: []string{"/x", "/y"}[h.policies.IntN(2)]}
	}
	if !h.variant.durable && h.policies.IntN(6) == 0 {
		s.Spec.Unique, s.Spec.Signal = job.Unique{}, nil
		s.Spec.Collapse = &job.Collapse{Key: []string{"/c", "/d"}[h.policies.IntN(2)], Quiet: value.Duration(time.Duration(1+h.policies.IntN(20)) * time.Second), Keep: []string{"", job.KeepAll}[h.policies.IntN(2)]}
	}
}

// Whatever the log forgets, and whenever, nothing is lost and nothing happens twice.
func TestSimulationOfForgetting(t *testing.T) {
	var moved, forgotten, carried atomic.Int64
	each(max(min(*historiesFlag, usualHistories)/2, *historiesFlag/8, 1), func(seed uint64) bool {
		seed += *firstFlag
		if *seedFlag >= 0 {
			seed = uint64(*seedFlag)
		}
		h := play(t, seed, variant{forgets: true, families: seed%4 == 3, retiring: seed%8 == 1, roomy: seed%8 == 5})
		h.verify(t)
		h.report(t)
		moved.Add(int64(h.moved))
		forgotten.Add(int64(len(h.gone)))
		for i := range h.records {
			if h.records[i].Kind == events.KindCarried {
				carried.Add(1)
			}
		}
		return !t.Failed()
	})
	if !t.Failed() && (moved.Load() == 0 || forgotten.Load() == 0 || carried.Load() == 0) {
		t.Errorf("the horizon moved %d times, %d tasks were forgotten and %d carried", moved.Load(), forgotten.Load(), carried.Load())
	}
	t.Logf("the horizon moved %d times, %d tasks were forgotten, %d facts carried some", moved.Load(), forgotten.Load(), carried.Load())
}

// The simulation finds out what goes wrong when the horizon moves in another way.
func TestSimulationFindsWhatForgetsTooMuch(t *testing.T) {
	for _, m := range []struct {
		name  string
		lacks variant
		known uint64 // a seed that shows it
	}{
		{"the front goes before what lives there is carried", variant{log: func(p *port) events.Log { return rash{p} }}, 0},
		{"a task is carried without its turn", variant{log: func(p *port) events.Log { return mangling{p, noTurn} }}, 0},
		{"a task is carried without its holds", variant{log: func(p *port) events.Log { return mangling{p, func(c *task.Carried) { c.Fold.Holds = nil }} }}, 1},
		{"a kind of chain is forgotten: nodes", variant{log: func(p *port) events.Log { return omitting{p, events.NodeCarried} }}, 0},
		{"a kind of chain is forgotten: queues", variant{log: func(p *port) events.Log { return omitting{p, events.QueueCarried} }}, 1},
		{"nobody looks again before the front goes", variant{front: func(p *port) frontLog { return hurried{p} }, log: func(p *port) events.Log { return unaware{p} }}, 857},
		{"nobody hears what happens before the front goes", variant{mishears: true, log: func(p *port) events.Log { return unaware{p} }}, 930},
		{"a task is carried as if it had no offer", variant{log: func(p *port) events.Log { return mangling{p, func(c *task.Carried) { c.Fold.Offered = false }} }}, 0},
		{"the mark of a carried task does not expect the end of the chain", variant{log: func(p *port) events.Log { return pushing{p} }}, 21},
	} {
		t.Run(m.name, func(t *testing.T) {
			m.lacks.forgets = true
			if !searched(m.known, func(seed uint64) bool {
				m.lacks.families = seed%4 == 3
				h := play(t, seed, m.lacks)
				if h.failure != nil {
					t.Logf("found by seed %d: %.300v", seed, h.failure)
				}
				return h.failure != nil
			}) {
				t.Errorf("%d seeds did not find it", enough)
			}
		})
	}
}

// rash removes the front of the log as soon as the horizon is chosen.
type rash struct{ *port }

func (l rash) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := l.port.Append(ctx, f, last)
	if e, ok := f.Event.(task.HorizonChosen); ok && err == nil {
		err = l.port.Trim(ctx, e.Below)
	}
	return seq, err
}

// mangling carries tasks wrongly.
type mangling struct {
	events.Log
	lose func(*task.Carried)
}

func (l mangling) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	for i, f := range facts {
		if c, ok := f.Event.(task.Carried); ok {
			l.lose(&c)
			wrong := *f
			wrong.Event = c
			facts[i] = &wrong
		}
	}
	return l.Log.AppendAll(ctx, facts, last)
}

// omitting believes that facts of a type are recorded.
type omitting struct {
	events.Log
	typ events.Type
}

func (l omitting) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if f.Type == l.typ {
		return 1, nil
	}
	return l.Log.Append(ctx, f, last)
}

// hurried sees nothing that comes into the log after a server has looked once.
type hurried struct{ *port }

func (l hurried) Last(ctx context.Context) (uint64, error) {
	about := events.Fact{Event: task.HorizonChosen{}}
	last, _, err := l.Memory.Latest(ctx, about)
	if _, open := last.Fact.Event.(task.HorizonCarried); open && err == nil {
		return 0, nil
	}
	return l.Memory.Last(ctx)
}

// unaware does not see that the horizon moves, except to who moves it.
type unaware struct{ *port }

func (l unaware) Latest(ctx context.Context, about events.Fact) (events.Record, uint64, error) {
	if _, ok := about.Event.(task.HorizonEvent); ok && !strings.HasPrefix(l.actor.name, "horizon-") {
		return events.Record{}, 0, nil
	}
	return l.port.Latest(ctx, about)
}

// pushing writes the mark of a carried task wherever its chain ends.
type pushing struct{ *port }

func (l pushing) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	seq, err := l.port.AppendAll(ctx, facts, last)
	if n := len(facts) - 1; errors.Is(err, events.ErrConflict) && facts[n].Type == events.TaskKept {
		records, _ := l.Memory.Task(ctx, facts[n].Task)
		for i := range records {
			switch records[i].Kind {
			case events.KindChain:
				last[n] = records[i].Seq
			case events.KindCarried:
				last[0] = records[i].Seq
			}
		}
		return l.port.AppendAll(ctx, facts, last)
	}
	return seq, err
}

// forget moves the horizon of a small world once, in one step or in as many as it has writes: it reads as
// if at once.
func (p *place) forget(r *resident) {
	port := &port{p.mem, r.actor}
	for p.forgets > 0 {
		r.turn("moves the horizon", time.Time{})
		var log interface {
			events.Log
			frontLog
		} = coarse{port}
		if p.swift {
			log = p.mem
		}
		f := &scheduler.Forget{Rec: p.recorder(log), Log: log, Keeping: scheduler.Keeping{Age: time.Second, Least: 1},
			Settle: time.Nanosecond, Wait: func(context.Context, time.Duration) error { return nil }}
		switch {
		case p.orphans:
			f.Log = orphaning{log}
		case p.rash:
			f.Rec = p.recorder(rash{port})
		case p.loses != nil:
			f.Rec = p.recorder(mangling{log, p.loses})
		case p.omits != "":
			f.Rec = p.recorder(omitting{log, p.omits})
		}
		done, err := f.Round(context.Background())
		if err == nil && done.Horizon.Below == 0 {
			r.turn("waits for something to end", time.Time{})
		}
		p.forgets--
	}
}

// reopen gives the first task another life, if it has ended.
func (p *place) reopen(r *resident) {
	rec := p.recorder(&port{p.mem, r.actor})
	again := ""
	if p.family {
		again = task.AllAgain
	}
	for range p.reopens {
		r.turn("thinks", time.Time{})
		if t, err := rec.Load(context.Background(), taskID(1)); err == nil && t.State.Terminal() {
			if t, _, err = rec.Do(context.Background(), t, task.Reopen{Reason: "a whim", Again: again}); err == nil {
				_ = rec.Settle(context.Background(), &t) // or the sweep would
			}
		}
	}
}

// remembers checks that the log has not forgotten a task that is open, and says of it what all facts
// say.
func (p *place) remembers(id task.ID, s story) error {
	if p.first <= 1 {
		return nil
	}
	whole := events.FoldTask(id, s)
	records, err := p.mem.Task(context.Background(), id)
	p.must(nil, err)
	is := events.FoldTask(id, records)
	switch {
	case is.Spec == nil && whole.State.Terminal():
		return nil
	case is.Spec == nil && s[len(s)-1].Fact.Type == events.TaskReopened:
		return nil // whoever reopened it just now hears that
	case is.Spec == nil:
		return broken(errForgets, "%s is %s, and gone", short(id), whole.State)
	}
	if field := differsFrom(&is, &whole); field != "" {
		return broken(errForgets, "%s of %s is not what it was: %+v, and was %+v", field, short(id), is, whole)
	}
	return nil
}

// coarse reads at once.
type coarse struct{ *port }

func (l coarse) First(ctx context.Context) (uint64, error) { return l.Memory.First(ctx) }
func (l coarse) Last(ctx context.Context) (uint64, error)  { return l.Memory.Last(ctx) }
func (l coarse) StoredAt(ctx context.Context, at time.Time) (uint64, time.Time, error) {
	return l.Memory.StoredAt(ctx, at)
}
func (l coarse) Floor(ctx context.Context) (events.Floor, error) { return l.Memory.Floor(ctx) }
func (l coarse) Later(ctx context.Context, ids []task.ID, seq uint64) (map[task.ID]bool, error) {
	return l.Memory.Later(ctx, ids, seq)
}
func (l coarse) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	return l.Memory.Task(ctx, id)
}
func (l coarse) Node(ctx context.Context, id node.ID, from uint64) ([]events.Record, error) {
	return l.Memory.Node(ctx, id, from)
}
func (l coarse) Latest(ctx context.Context, about events.Fact) (events.Record, uint64, error) {
	return l.Memory.Latest(ctx, about)
}
