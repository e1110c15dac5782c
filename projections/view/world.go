package view

import (
	"context"
	"fmt"
	"math"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/quota"
)

// Model is a read model: the searchable sum of facts. It may lag behind the log.
type Model interface {
	Point(ctx context.Context) (Point, error)
	List(ctx context.Context, q Query) (Page, error)
	Count(ctx context.Context, q Query) (Counts, error)
}

// Facts returns the facts about one subject, in the order of the log, including the most recent
// ones.
type Facts func(ctx context.Context, ref Ref) ([]events.Record, error)

// World is a [View] from a read model and the facts beside it.
type World struct {
	Model
	facts Facts
	until uint64 // facts behind it have not happened yet
}

var _ View = (*World)(nil)

// Live is the present: lists and counts come from a read model, and each single item is the fold of
// its facts at this moment.
func Live(m Model, f Facts) *World { return &World{m, f, math.MaxUint64} }

// At is the past: it ignores facts after a sequence, and the model has folded none of them.
func At(m Model, f Facts, seq uint64) *World { return &World{m, f, seq} }

// Records implements [View].
func (w *World) Records(ctx context.Context, ref Ref, r Range, each func(*events.Record) error) error {
	records, err := w.about(ctx, ref)
	if err != nil {
		return err
	}
	for i := range records {
		if !r.has(records[i].Seq) {
			continue
		}
		if err := each(&records[i]); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) about(ctx context.Context, ref Ref) ([]events.Record, error) {
	records, err := w.facts(ctx, ref)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ref, err)
	}
	if ref.Kind != Tasks && ref.Kind != Nodes && ref.Kind != Queues {
		records = events.Recall(records)
	}
	return upTo(records, w.until), nil
}

// upTo are the records up to a sequence.
func upTo(records []events.Record, seq uint64) []events.Record {
	for n := len(records); n > 0 && records[n-1].Seq > seq; n-- {
		records = records[:n-1]
	}
	return records
}

// FoldAt is a subject as of a sequence, of which some records tell, those that the log has about it. n is
// how many of them count. What was carried later tells of the time before, if nothing has happened to the
// task in between; otherwise the error wraps [ErrForgotten].
func FoldAt(ref Ref, records []events.Record, seq uint64) (item Item, n int, err error) {
	if (ref.Kind == Definitions || ref.Kind == Breakers) && seq < math.MaxUint64 { // else its last message counts
		records = events.Recall(records)
	}
	then := upTo(records, seq)
	at, c := carriedIn(records)
	switch {
	case ref.Kind != Tasks || c == nil || at < len(then) || c.Born.Seq >= records[0].Seq:
	case c.Fold.Seq <= seq:
		return Item{Task: &c.Fold}, 1, nil
	case c.Born.Seq <= seq:
		return item, 0, fmt.Errorf("task %s: %w", ref.ID, Forgotten{Seq: c.Fold.Seq})
	}
	return Fold(ref, then), len(then), nil
}

// carriedIn returns the first fact that carries a task and counts, and the place of the one that says so.
func carriedIn(records []events.Record) (at int, c *task.Carried) {
	for i := range records {
		is, ok := records[i].Fact.Event.(task.Carried)
		if !ok || i+1 == len(records) || records[i+1].Seq != records[i].Seq+1 {
			continue
		}
		if _, kept := records[i+1].Fact.Event.(task.Kept); kept {
			return i + 1, &is
		}
	}
	return 0, nil
}

// Get implements [View].
func (w *World) Get(ctx context.Context, ref Ref) (Item, error) {
	records, err := w.facts(ctx, ref)
	if err != nil {
		return Item{}, fmt.Errorf("read %s: %w", ref, err)
	}
	item, n, err := FoldAt(ref, records, w.until)
	if err == nil {
		err = Absent(ref, &item, n)
	}
	return item, err
}

// Standing implements [View]. It does not know.
func (w *World) Standing(context.Context, task.ID, int) (*quota.Standing, error) { return nil, nil }

// Absent returns the error that a subject does not exist, given its number of facts.
func Absent(ref Ref, item *Item, facts int) error {
	switch {
	case ref.Kind == Tasks && facts == 0:
		return fmt.Errorf("task %s: %w", ref.ID, task.ErrUnknown)
	case ref.Kind == Nodes && item.Node.State == node.Unknown:
		return fmt.Errorf("node %q: %w", ref.ID, node.ErrUnknown)
	case *item == Item{}:
		return wrong{fmt.Errorf("%s: nothing of that kind can be read by itself", ref)}
	}
	return nil
}

// All returns the facts about one subject that a view knows, in the order of the log. The error
// wraps [task.ErrUnknown] if it is a task without facts.
func All(ctx context.Context, v View, ref Ref) ([]events.Record, error) {
	var all []events.Record
	err := v.Records(ctx, ref, Range{}, func(r *events.Record) error {
		all = append(all, *r)
		return nil
	})
	if err == nil && len(all) == 0 && ref.Kind == Tasks {
		err = fmt.Errorf("task %s: %w", ref.ID, task.ErrUnknown)
	}
	return all, err
}

// GetTask returns a task of a view. The error is that of [View.Get].
func GetTask(ctx context.Context, v View, id task.ID) (task.Task, error) {
	item, err := v.Get(ctx, Task(id))
	if err != nil {
		return task.Task{ID: id}, err
	}
	return *item.Task, nil
}

// GetNode returns a node of a view. The error is that of [View.Get].
func GetNode(ctx context.Context, v View, id node.ID) (node.Node, error) {
	item, err := v.Get(ctx, Node(id))
	if err != nil {
		return node.Node{ID: id}, err
	}
	return *item.Node, nil
}

// GetQueue returns the settings of a queue. A queue without facts is not an error.
func GetQueue(ctx context.Context, v View, name string) (queue.Queue, error) {
	item, err := v.Get(ctx, Queue(name))
	if err != nil {
		return queue.Queue{Name: name}, err
	}
	return *item.Queue, nil
}
