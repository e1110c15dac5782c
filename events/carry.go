package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
	"millrace/task/queue"
)

// Carrying is the way in which what a kind of chain says outlives the front of the log.
type Carrying uint8

// The ways.
const (
	// CarryNothing: it is only needed while its message is there.
	CarryNothing Carrying = iota
	// CarryTask: the whole fold beside the chain, and a mark on it.
	CarryTask
	// CarryFold: the whole fold on the chain.
	CarryFold
	// CarryLast: the last fact once more. It says all.
	CarryLast
	// CarryAll: the last fact once more, and the earlier ones beside the chain.
	CarryAll
)

// Carries says for each kind of records how it is carried. What lives on chains that carry nothing
// holds the horizon back, until it does not count any more: offers, fires, and admissions.
var Carries = map[Kind]Carrying{
	KindOther: CarryNothing, KindProbe: CarryNothing, KindDead: CarryNothing, KindFire: CarryNothing, KindHorizon: CarryNothing,
	KindLimit: CarryNothing,
	KindOffer: CarryTask, KindHold: CarryTask, KindChain: CarryTask, KindCarried: CarryTask,
	KindNode: CarryFold, KindQueue: CarryFold,
	KindBreaker: CarryLast, KindTick: CarryLast, KindKey: CarryLast, KindCopies: CarryLast, KindTally: CarryLast,
	KindDefinition: CarryAll,
}

// CarryOf returns what carries a task of which the log has these records, and the end of its chain.
// It is false for a task that is not known.
func CarryOf(id task.ID, records []Record) (c task.Carried, ok bool) {
	t := FoldTask(id, records)
	history := make([]task.Recorded, len(records))
	for i := range records {
		history[i] = records[i].Task()
	}
	at := task.Born(history)
	if at < 0 || t.State == task.Unknown || t.Spec == nil {
		return c, false
	}
	t.Head, t.Carry, t.Rivals = headOf(records), nil, nil
	c.Fold = t
	c.Offers, c.OfferedAt = Offered(records, t.Turn)
	switch e := history[at].Event.(type) {
	case task.Submitted:
		c.Born = task.Beginning{
			Seq: history[at].Seq, Chain: history[at].Chain, Due: e.Due, Window: e.Window, Route: e.Route, Asked: e.Asked,
			Holds: e.Holds, Inputs: e.Inputs, StartBy: e.StartBy, EndBy: e.EndBy,
		}
	case task.Carried:
		c.Born = e.Born
	}
	return c, true
}

// keptAt returns what is carried by the [task.Kept] at a place in a task's records.
func keptAt(records []Record, i int) (task.Carried, bool) {
	k, is := records[i].Fact.Event.(task.Kept)
	if !is || i == 0 || records[i].Kind != KindChain || records[i-1].Seq+1 != records[i].Seq {
		return task.Carried{}, false
	}
	c, is := records[i-1].Fact.Event.(task.Carried)
	return c, is && c.Fold.Head == k.Head
}

// Stays tells whether a task's records from a sequence on say all that all of them say: the last
// carried fact lies there, and no offer had come between when the task was read and when that was
// written.
func Stays(records []Record, below uint64) bool {
	if len(records) > 0 && records[0].Seq >= below && birthIn(records) >= below {
		return true
	}
	for i := len(records) - 1; i > 0; i-- {
		c, ok := keptAt(records, i)
		if !ok {
			continue
		}
		for _, r := range records[:i] {
			if r.Seq > c.Fold.Seq && (r.Kind == KindOffer || r.Kind == KindHold) {
				return false
			}
		}
		return records[i-1].Seq >= below
	}
	return false
}

// carryTries is how often a task is carried that moves meanwhile, before somebody else has to.
const carryTries = 100

// CarryTask makes a task independent of what the log has of it below a sequence. It tells whether it
// had to write something. The error wraps [ErrForgotten] if the task is not known, and [ErrTooLarge]
// if the task is too large for one fact.
func (r *Recorder) CarryTask(ctx context.Context, id task.ID, below uint64) (wrote bool, err error) {
	for range carryTries {
		facts, last, err := r.carriedBy(ctx, id, below)
		if err != nil || facts == nil {
			return wrote, err
		}
		_, err = r.Log.AppendAll(ctx, facts, last)
		if err == nil {
			wrote = true
		} else if !errors.Is(err, ErrConflict) && !errors.Is(err, ErrUnknown) {
			return wrote, fmt.Errorf("carry task %s: %w", id, err)
		}
	}
	return wrote, fmt.Errorf("carry task %s: %w", id, ErrContended)
}

// carriedBy returns the facts that make a task independent of what the log has of it below a sequence,
// and which are to be the last ones before them. There are none if it is that already.
func (r *Recorder) carriedBy(ctx context.Context, id task.ID, below uint64) (facts []*Fact, last []uint64, err error) {
	records, err := r.Log.Task(ctx, id)
	if err != nil || Stays(records, below) {
		return nil, nil, err
	}
	c, ok := CarryOf(id, records)
	if !ok {
		return nil, nil, fmt.Errorf("carry task %s: %w", id, ErrForgotten)
	}
	_, beside, err := r.Log.Latest(ctx, Fact{Task: id, Event: task.Carried{}})
	return []*Fact{r.Fact(id, c), r.Fact(id, task.Kept{Head: c.Fold.Head})}, []uint64{beside, c.Fold.Head}, err
}

// carriedAtOnce is how many tasks are carried by one batch. A batch costs a server of NATS milliseconds,
// however few messages it has.
const carriedAtOnce = 25

// CarryTasks does for each of the tasks that are known what [Recorder.CarryTask] does. It returns for
// how many it had to write something.
func (r *Recorder) CarryTasks(ctx context.Context, ids []task.ID, below uint64) (wrote int, err error) {
	for some := range slices.Chunk(ids, carriedAtOnce) {
		did := map[task.ID]bool{}
		var facts []*Fact
		var last []uint64
		for _, id := range some {
			more, of, err := r.carriedBy(ctx, id, below)
			if err != nil && !errors.Is(err, ErrForgotten) {
				return wrote, err
			}
			facts, last = append(facts, more...), append(last, of...)
			did[id] = more != nil
		}
		if len(facts) > 0 {
			if _, err := r.Log.AppendAll(ctx, facts, last); err != nil {
				clear(did) // something has happened to one of them, or they are too large together
			}
		}
		for _, id := range some { // by itself, if it was not carried, or an offer has come meanwhile
			again, err := r.CarryTask(ctx, id, below)
			if err != nil && !errors.Is(err, ErrForgotten) {
				return wrote, err
			}
			if again || did[id] {
				wrote++
			}
		}
	}
	return wrote, nil
}

// outlives makes sure that a task which has another life stays, with its children, if the horizon is
// on its way past it: a server may have found it ended a moment ago. The error wraps [ErrForgotten] if
// it is too late; then it has no other life.
func (r *Recorder) outlives(ctx context.Context, t *task.Task) error {
	h, err := r.Horizon(ctx)
	if err != nil || h.Below == 0 {
		return err
	}
	if _, err = r.CarryTask(ctx, t.ID, h.Below); err != nil {
		return err
	}
	for _, id := range birth.ChildIDs(t) {
		if _, failed := r.CarryTask(ctx, id, h.Below); failed != nil && !errors.Is(failed, ErrForgotten) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// NeedsStay makes sure that what a held task needs stays, if the horizon is on its way past it: a server
// may have found a moment ago that nobody needs it. If it is too late, the task is cancelled, and the
// error wraps [ErrNeedForgotten]; ended is false if another call had cancelled it. Needed children stay
// with their parent. Whoever submits a task asks at once, and the sweep for one whose submitter has died.
func (r *Recorder) NeedsStay(ctx context.Context, t *task.Task) (ended bool, err error) {
	if t.Needs == nil || t.Parent != "" {
		return false, nil
	}
	h, err := r.Horizon(ctx)
	if err != nil || h.Below == 0 {
		return false, err
	}
	for _, need := range t.Needs.Of {
		switch _, err := r.CarryTask(ctx, need.Task, h.Below); {
		case errors.Is(err, ErrForgotten) && !h.Older(need.Task.Time()): // it may be born yet
		case errors.Is(err, ErrForgotten):
			err = fmt.Errorf("%w: task %s", ErrNeedForgotten, need.Task)
			_, did, failed := r.Do(ctx, *t, task.Cancel{Reason: err.Error()})
			return did != nil, errors.Join(err, failed)
		case err != nil:
			return false, err
		}
	}
	return false, nil
}

// StepHorizon records a step of the horizon behind the last known one. It is false if another server
// was first, or the outcome is not known: then the horizon must be read.
func (r *Recorder) StepHorizon(ctx context.Context, h *task.Horizon, e task.HorizonEvent) (bool, error) {
	f := r.factAt(r.Moment(), "", nil)
	f.Type, f.Event, f.Corr = TypeOf(e), e, ""
	seq, err := r.Log.Append(ctx, f, h.Head)
	done, err := tried(err)
	if done {
		*h = task.EvolveHorizon(*h, seq, f.At, e)
	}
	return done, recording(f, err)
}

// CarryLast repeats the last readable fact of a chain, if that is below a sequence and lives. It tells
// whether it wrote something. About is that of [Reader.Latest].
func (r *Recorder) CarryLast(ctx context.Context, about Fact, below uint64, lives func(last *Record) (bool, error)) (bool, error) {
	for range carryTries {
		last, end, err := r.Log.Latest(ctx, about)
		if err != nil || last.Seq == 0 || last.Seq >= below {
			return false, err
		}
		if ok, err := lives(&last); err != nil || !ok {
			return false, err
		}
		f := last.Fact
		f.Repeats = last.Original()
		if done, err := tried(second(r.Log.Append(ctx, &f, end))); done || err != nil {
			return done, err
		}
	}
	return false, fmt.Errorf("carry %s: %w", about.About(), ErrContended)
}

func second(_ uint64, err error) error { return err }

// CarryNode writes the fold of a node of which facts lie below a sequence, unless that is done. What
// was said of a node that is retired since then goes.
func (r *Recorder) CarryNode(ctx context.Context, id node.ID, below uint64) (bool, error) {
	return r.carryFold(ctx, func(ctx context.Context) (*Fact, uint64, error) {
		records, err := r.Log.Node(ctx, id, 0)
		if err != nil || !misses(records, below) {
			return nil, 0, err
		}
		by := node.Node{ID: id}
		for i := range records {
			by = node.Evolve(by, stored(&records[i]))
		}
		n := FoldNode(id, records)
		if n.State == node.Unknown || n.State == node.Retired && n.Head < below {
			return nil, 0, nil
		}
		f := r.factAt(r.Moment(), "", nil)
		f.Node, f.Event = id, node.Carried{Fold: n, Stored: by}
		return f, n.Head, nil
	})
}

// CarryQueue writes the fold of a queue of which facts lie below a sequence, unless that is done, or
// there is nothing to say.
func (r *Recorder) CarryQueue(ctx context.Context, name string, below uint64) (bool, error) {
	return r.carryFold(ctx, func(ctx context.Context) (*Fact, uint64, error) {
		records, err := r.Log.Queue(ctx, name)
		if err != nil || !misses(records, below) {
			return nil, 0, err
		}
		q := FoldQueue(name, records)
		if q.Head < below && q.Paused == nil && q.Bounds().Same(queue.Limited{}) {
			return nil, 0, nil
		}
		f := r.factAt(r.Moment(), "", nil)
		f.Queue, f.Event = name, queue.Carried{Fold: q}
		return f, q.Head, nil
	})
}

func (r *Recorder) carryFold(ctx context.Context, make func(context.Context) (*Fact, uint64, error)) (bool, error) {
	for range carryTries {
		f, head, err := make(ctx)
		if err != nil || f == nil {
			return false, err
		}
		f.Type, f.Corr = TypeOf(f.Event), ""
		if done, err := tried(second(r.Log.Append(ctx, f, head))); done || err != nil {
			return done, err
		}
	}
	return false, ErrContended
}

// misses tells whether the records of a chain from a sequence on say less than all of them.
func misses(records []Record, below uint64) bool {
	if len(records) == 0 || records[0].Seq >= below {
		return false
	}
	for i := range records {
		switch records[i].Fact.Event.(type) {
		case node.Carried, queue.Carried:
			if records[i].Seq >= below {
				return false
			}
		}
	}
	return true
}

// KeepRevisions is how many revisions of a definition outlive the front of the log.
const KeepRevisions = 100

// CarryDefinition keeps the definition of a name, and its earlier revisions among the records below a
// sequence, in order. It returns how many facts it wrote.
func (r *Recorder) CarryDefinition(ctx context.Context, def task.Def, front []Record, below uint64) (n int, err error) {
	last, _, err := r.Log.Latest(ctx, Fact{Def: def})
	if err != nil {
		return 0, err
	}
	present, end, err := r.Log.Latest(ctx, Fact{Def: def, Event: task.DefinitionCarried{}})
	if err != nil {
		return 0, err
	}
	done := uint64(0)
	if present.Seq >= below {
		done = present.Original()
	}
	front = slices.Clone(front)
	slices.SortStableFunc(front, func(a, b Record) int { return cmp.Compare(a.Original(), b.Original()) })
	front = front[max(len(front)-KeepRevisions, 0):]
	for i := range front {
		f := front[i].Fact
		at := front[i].Original()
		if at <= done || at >= last.Original() {
			continue
		}
		done = at
		switch e := f.Event.(type) {
		case task.DefinitionApplied:
			f.Event = task.DefinitionCarried{Edition: e.Edition, As: string(f.Type), Source: e.Source}
		case task.DefinitionRemoved:
			f.Event = task.DefinitionCarried{Edition: task.Edition{Revision: e.Revision}, As: string(f.Type)}
		case task.SchedulePaused:
			f.Event = task.DefinitionCarried{Edition: e.Edition, As: string(f.Type), Reason: e.Reason}
		case task.ScheduleResumed:
			f.Event = task.DefinitionCarried{Edition: e.Edition, As: string(f.Type), Reason: e.Reason}
		case task.DefinitionCarried:
		default:
			continue
		}
		f.Type, f.Repeats = DefinitionCarried, at
		if end, err = r.Log.Append(ctx, &f, end); err != nil {
			return n, err // by who was faster, or who comes next
		}
		n++
	}
	wrote, err := r.CarryLast(ctx, Fact{Def: def}, below, func(*Record) (bool, error) { return true, nil })
	if wrote {
		n++
	}
	return n, err
}

// Tally adds the tasks of a job that go below a horizon to what its tally says, unless they are in it.
func (r *Recorder) Tally(ctx context.Context, job string, more task.JobTallied) error {
	for range carryTries {
		last, end, err := r.Log.Latest(ctx, Fact{Job: job, Event: task.JobTallied{}})
		if err != nil {
			return err
		}
		sum, _ := last.Fact.Event.(task.JobTallied)
		if sum.Below >= more.Below {
			return nil
		}
		sum.Join(more)
		f := r.factAt(r.Moment(), "", nil)
		f.Type, f.Corr, f.Job, f.Event = JobTallied, "", job, sum
		if done, err := tried(second(r.Log.Append(ctx, f, end))); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("tally of job %s: %w", job, ErrContended)
}
