package view

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/definition"
)

// Moment chooses a place in the log: a sequence, or else a time; the end if neither is set.
type Moment struct {
	Seq uint64
	// At means the last message before the first one that the log took later. Should its clock have been set
	// back, what was stored behind that one is later as well.
	At time.Time
}

// Before tells whether the moment is before a record, and so before all that follow it.
func (m Moment) Before(r *events.Record) bool {
	return m.Seq > 0 && r.Seq > m.Seq || m.Seq == 0 && !m.At.IsZero() && r.Stored.After(m.At)
}

// Past is the world as it was at a moment, of the log's records from the first one on.
func Past(records []events.Record, m Moment) *World {
	model := NewMemory()
	for i := range records {
		if m.Before(&records[i]) {
			break
		}
		model.Add(&records[i])
	}
	return At(model, Slice(records), model.at.Seq)
}

// Slice is a log in memory.
type Slice []events.Record

// About implements [Facts].
func (s Slice) About(_ context.Context, ref Ref) ([]events.Record, error) {
	var about []events.Record
	for i := range s {
		if RefOf(&s[i]) == ref {
			about = append(about, s[i])
		}
	}
	return about, nil
}

// Memory is a read model in memory: the plain fold of the records that it was given. It looks at everything for each
// question. It may be asked by several at once, but not while records are added.
type Memory struct {
	at          Point
	tasks       map[task.ID]*task.Task
	nodes       map[node.ID]node.Node
	queues      map[string]task.Queue
	definitions map[definition.Def]definition.Definition
	messages    map[uint64]Message
}

// NewMemory returns a model of the beginning of the log, when there was nothing.
func NewMemory() *Memory {
	return &Memory{
		tasks: map[task.ID]*task.Task{}, nodes: map[node.ID]node.Node{}, queues: map[string]task.Queue{},
		definitions: map[definition.Def]definition.Definition{}, messages: map[uint64]Message{},
	}
}

// Add folds the next record of the log.
func (m *Memory) Add(r *events.Record) {
	m.at = Point{r.Seq, r.Stored}
	switch why := r.Unreadable(); {
	case why != "":
		m.messages[r.Seq] = Message{r.Seq, r.Place, why, r.Raw[:min(len(r.Raw), MaxRaw)]}
	case r.Fact.Type == events.MessageDismissed:
		delete(m.messages, r.Fact.Message)
	}
	switch ref := RefOf(r); ref.Kind {
	case Tasks:
		id := task.ID(ref.ID)
		if m.tasks[id] == nil {
			m.tasks[id] = &task.Task{ID: id}
		}
		m.tasks[id].Apply(r.Task())
	case Nodes:
		n := m.nodes[node.ID(ref.ID)]
		n.ID = node.ID(ref.ID)
		m.nodes[n.ID] = node.Evolve(n, r.Node())
	case Queues:
		q := m.queues[ref.ID]
		q.Name = ref.ID
		e, _ := r.Fact.Event.(task.QueueEvent)
		m.queues[ref.ID] = task.EvolveQueue(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
	case Definitions:
		if e, ok := r.Fact.Event.(definition.DefinitionEvent); ok && r.Err == nil {
			def := definition.Def(ref.ID)
			m.definitions[def] = definition.EvolveDefinition(m.definitions[def], r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
	}
}

// Point implements [Model].
func (m *Memory) Point(context.Context) (Point, error) { return m.at, nil }

// List implements [Model].
func (m *Memory) List(_ context.Context, q Query) (Page, error) {
	page := Page{Point: m.at}
	if q.AtLeast > m.at.Seq {
		return page, wrong{fmt.Errorf("at_least is %d, and this is as of sequence %d", q.AtLeast, m.at.Seq)}
	}
	most, err := q.Most()
	if err != nil {
		return page, err
	}
	switch q.Kind {
	case Tasks:
		return m.list(&q.Filter, most)
	case Nodes:
		for _, id := range slices.Sorted(maps.Keys(m.nodes)) {
			page.Nodes = append(page.Nodes, m.nodes[id])
		}
	case Queues:
		for _, name := range slices.Sorted(maps.Keys(m.queues)) {
			page.Queues = append(page.Queues, m.queues[name])
		}
	case Definitions:
		page.Definitions = maps.Clone(m.definitions)
	case Messages:
		for _, seq := range slices.Backward(slices.Sorted(maps.Keys(m.messages))) {
			if (q.Before == 0 || seq < q.Before) && len(page.Messages) < most {
				page.Messages = append(page.Messages, m.messages[seq])
			}
		}
	default:
		return page, wrong{fmt.Errorf("nothing is listed of %s", q.Kind)}
	}
	return page, nil
}

func (m *Memory) list(f *Filter, most int) (Page, error) {
	page := Page{Point: m.at}
	after, err := f.Start()
	if err != nil {
		return page, err
	}
	order := func(a, b task.ID) int {
		if f.OldestFirst {
			return strings.Compare(string(a), string(b))
		}
		return strings.Compare(string(b), string(a))
	}
	var found []task.ID
	for id, t := range m.tasks {
		if (after == "" || order(id, after) > 0) && f.Match(t) {
			found = append(found, id)
		}
	}
	slices.SortFunc(found, order)
	tasks := make([]task.Task, min(len(found), most+1))
	for i := range tasks {
		tasks[i] = *m.tasks[found[i]]
	}
	page.Tasks, page.Next = f.Cut(tasks, most)
	return page, nil
}

// Count implements [Model].
func (m *Memory) Count(_ context.Context, q Query) (Counts, error) {
	c := Counts{Point: m.at}
	if q.Kind != Tasks {
		return c, wrong{fmt.Errorf("nothing is counted of %s", q.Kind)}
	}
	for _, t := range m.tasks {
		if q.Match(t) {
			c.Add(t.QueueName(), t.State, 1)
		}
	}
	return c, nil
}

// Unfolded is a model of a place in the log for who asks for things one by one: it has folded nothing, and refuses to
// list or count.
type Unfolded Point

// Point implements [Model].
func (u Unfolded) Point(context.Context) (Point, error) { return Point(u), nil }

// List implements [Model].
func (Unfolded) List(context.Context, Query) (Page, error) { return Page{}, errUnfolded }

// Count implements [Model].
func (Unfolded) Count(context.Context, Query) (Counts, error) { return Counts{}, errUnfolded }

var errUnfolded = wrong{errors.New("nothing is listed or counted here: the log was not folded")}
