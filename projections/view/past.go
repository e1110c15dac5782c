package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// Moment is a place in the log: a sequence, or else a time; the end if neither is set.
type Moment struct {
	Seq uint64
	// At selects the message before the first one that the log stored later than that time. If the
	// log's clock was set back, all messages behind that first one count as later, too.
	At time.Time
}

// Before tells whether the moment lies before a record, and so before all that follow it.
func (m Moment) Before(r *events.Record) bool {
	return m.Seq > 0 && r.Seq > m.Seq || m.Seq == 0 && !m.At.IsZero() && r.Stored.After(m.At)
}

// Begun tells whether a record is at the moment, or behind it: the zero moment has always begun.
func (m Moment) Begun(r *events.Record) bool { return r.Seq >= m.Seq && !r.Stored.Before(m.At) }

// ErrNotYet refuses a moment that the log has not reached. It is an [ErrQuery].
var ErrNotYet = errors.New("the log has not reached it")

// notYet is an [ErrNotYet] in words about the moment.
type notYet struct{ error }

func (notYet) Is(target error) bool { return target == ErrNotYet || target == ErrQuery }

// ErrForgotten refuses a moment before what the log keeps. It is an [ErrQuery].
var ErrForgotten = errors.New("before what the log keeps")

// Forgotten is an [ErrForgotten].
type Forgotten struct {
	// Seq is the first sequence of which is answered, and At when the log stored it; zero if that is not known.
	Seq uint64
	At  time.Time
}

func (f Forgotten) Error() string {
	if f.At.IsZero() {
		return fmt.Sprintf("%v (#%d and later)", ErrForgotten, f.Seq)
	}
	return fmt.Sprintf("%v (since %s, #%d)", ErrForgotten, f.At.Format("2006-01-02 15:04:05.000"), f.Seq)
}

func (Forgotten) Is(target error) bool { return target == ErrForgotten || target == ErrQuery }

// mayDiffer is how far a time may lie ahead of the asker's clock. The log's clock may be ahead of
// it, so such a time can still have passed in the log.
const mayDiffer = time.Minute

// Reached refuses a moment that a log has not reached which ends at a sequence, at the time now: a
// question about it would be answered as of the end. The error wraps [ErrNotYet].
func (m Moment) Reached(end uint64, now time.Time) error {
	switch {
	case m.Seq > end:
		return notYet{fmt.Errorf("there is no sequence %d yet: the log ends at %d", m.Seq, end)}
	case m.Seq == 0 && m.At.After(now.Add(mayDiffer)):
		return notYet{fmt.Errorf("%s has not come yet", m.At.Format("2006-01-02 15:04:05.000"))}
	}
	return nil
}

// Slice is a log in memory.
type Slice []events.Record

// About is a [Facts].
func (s Slice) About(_ context.Context, ref Ref) ([]events.Record, error) {
	var about []events.Record
	for i := range s {
		if isAbout(ref, &s[i]) {
			about = append(about, s[i])
		}
	}
	return about, nil
}

// Messages returns the messages that exist at sequences, in no particular order.
func (s Slice) Messages(_ context.Context, seqs []uint64) (found []events.Record, err error) {
	for _, seq := range seqs {
		if i, ok := slices.BinarySearchFunc(s, seq, func(r events.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) }); ok {
			found = append(found, s[i])
		}
	}
	return found, nil
}

// Memory is a read model in memory: the plain fold of its records. It scans everything for each
// question. Several goroutines may ask at once, but not while records are added.
type Memory struct {
	at          Point
	sums        sums
	ids         []task.ID  // of all tasks; sorted if sorted is set
	sorted      bool       // guarded by sorting
	sorting     sync.Mutex // held while they are sorted
	tasks       map[task.ID]*numberedTask
	nodes       map[node.ID]node.Node
	queues      map[string]queue.Queue
	definitions map[task.Def]task.Definition
	messages    map[uint64]Message
}

// numberedTask is a task with its rank by first appearance in the log, and the sequence with which
// it failed last.
type numberedTask struct {
	task.Task
	number uint32
	failed uint64
}

// NewMemory returns the model of an empty log.
func NewMemory() *Memory {
	return &Memory{
		sums: newSums(), tasks: map[task.ID]*numberedTask{}, nodes: map[node.ID]node.Node{}, queues: map[string]queue.Queue{},
		definitions: map[task.Def]task.Definition{}, messages: map[uint64]Message{},
	}
}

// Add folds the next record of the log.
func (m *Memory) Add(r *events.Record) {
	m.at = Point{r.Seq, r.Stored}
	switch is, unreadable := MessageOf(r); {
	case unreadable:
		m.messages[r.Seq] = is
	case r.Fact.Type == events.MessageDismissed:
		delete(m.messages, r.Fact.Message)
	}
	switch e := r.Fact.Event.(type) {
	case task.HorizonPurged:
		m.Forget(func(t *task.Task) bool { return t.Seq < e.Below })
		maps.DeleteFunc(m.messages, func(seq uint64, _ Message) bool { return seq < e.Below })
	case task.JobTallied:
		m.sums.tallies[r.Fact.Job] = e
	}
	switch ref := RefOf(r); ref.Kind {
	case Tasks:
		id := task.ID(ref.ID)
		t := m.tasks[id]
		if t == nil {
			t = &numberedTask{Task: task.Task{ID: id}, number: uint32(len(m.ids) + 1)}
			m.tasks[id], m.ids, m.sorted = t, append(m.ids, id), false
		}
		was := t.State
		took := t.Shift(r.Task())
		m.sumTask(r, t, was, took)
	case Nodes:
		n := m.nodes[node.ID(ref.ID)]
		n.ID = node.ID(ref.ID)
		m.nodes[n.ID] = node.Evolve(n, r.Node())
	case Queues:
		q := m.queues[ref.ID]
		q.Name = ref.ID
		e, _ := r.Fact.Event.(queue.Event)
		m.queues[ref.ID] = queue.Evolve(q, r.Seq, r.Fact.At, r.Fact.Actor, e)
	case Definitions:
		if e, ok := r.Fact.Event.(task.DefinitionEvent); ok && r.Err == nil {
			def := task.Def(ref.ID)
			m.definitions[def] = task.EvolveDefinition(m.definitions[def], r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
	default:
		m.sum(r)
	}
}

// Forget drops the tasks that the log has forgotten.
func (m *Memory) Forget(gone func(t *task.Task) bool) {
	m.ids = slices.DeleteFunc(m.ids, func(id task.ID) bool {
		is := gone(&m.tasks[id].Task)
		if is {
			delete(m.tasks, id)
		}
		return is
	})
	lost := func(_ string, l latestTask) bool { return m.tasks[l.id] == nil }
	maps.DeleteFunc(m.sums.ofJobs, lost)
	maps.DeleteFunc(m.sums.ofSchedules, lost)
	for _, id := range m.ids {
		m.latest(m.tasks[id])
	}
}

// Seq is the sequence of the last record that was added; 0 for none.
func (m *Memory) Seq() uint64 { return m.at.Seq }

// Task returns a task, which must not be modified and follows further records; nil if no record is
// about it.
func (m *Memory) Task(id task.ID) *task.Task {
	if t := m.tasks[id]; t != nil {
		return &t.Task
	}
	return nil
}

// All iterates over all tasks by id, like [Memory.Task].
func (m *Memory) All() iter.Seq[*task.Task] {
	return func(yield func(*task.Task) bool) {
		for _, id := range m.from("", true) {
			if !yield(&m.tasks[id].Task) {
				return
			}
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
		maps.DeleteFunc(page.Definitions, func(def task.Def, _ task.Definition) bool { return q.Of != "" && def.Kind() != q.Of })
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
	tasks := make([]task.Task, 0, min(len(m.ids), most+1))
	for _, id := range m.from(after, f.OldestFirst) {
		if t := &m.tasks[id].Task; f.Match(t) {
			if tasks = append(tasks, *t); len(tasks) > most {
				break
			}
		}
	}
	page.Tasks, page.Next = f.Cut(tasks, most)
	return page, nil
}

// from iterates over the ids after one, in either order; all after "".
func (m *Memory) from(after task.ID, oldestFirst bool) iter.Seq2[int, task.ID] {
	m.sorting.Lock()
	if !m.sorted {
		slices.Sort(m.ids)
		m.sorted = true
	}
	m.sorting.Unlock()
	at, found := slices.BinarySearch(m.ids, after)
	switch {
	case oldestFirst && found:
		return slices.All(m.ids[at+1:])
	case oldestFirst:
		return slices.All(m.ids[at:])
	case after == "":
		return slices.Backward(m.ids)
	}
	return slices.Backward(m.ids[:at])
}

// Count implements [Model].
func (m *Memory) Count(_ context.Context, q Query) (Counts, error) {
	c := Counts{Point: m.at}
	if q.Kind != Tasks {
		return c, wrong{fmt.Errorf("nothing is counted of %s", q.Kind)}
	}
	for _, t := range m.tasks {
		if q.Match(&t.Task) {
			c.Add(t.QueueName(), t.State, 1)
		}
	}
	return c, nil
}

// Unfolded is a model of a place in the log for questions about single subjects: it has folded
// nothing, and refuses to list or count.
type Unfolded Point

// Point implements [Model].
func (u Unfolded) Point(context.Context) (Point, error) { return Point(u), nil }

// List implements [Model].
func (Unfolded) List(context.Context, Query) (Page, error) { return Page{}, errUnfolded }

// Count implements [Model].
func (Unfolded) Count(context.Context, Query) (Counts, error) { return Counts{}, errUnfolded }

var errUnfolded = wrong{errors.New("nothing is listed or counted here: the log was not folded")}
