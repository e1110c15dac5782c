package view

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/value"
)

// View answers questions about Millrace at one place in the log. Implementations are safe for
// concurrent use.
type View interface {
	// Point is the place that lists and counts reflect.
	Point(ctx context.Context) (Point, error)
	// List returns a page of items of one kind. The error wraps [ErrQuery] if the query is invalid.
	List(ctx context.Context, q Query) (Page, error)
	// Get returns one item. The error wraps [task.ErrUnknown] or [node.ErrUnknown] if there is no
	// such task or node; a queue, definition or breaker without facts has only its name.
	Get(ctx context.Context, ref Ref) (Item, error)
	// Records calls each for the facts about one subject within a range, in the order of the log.
	// An error of each ends that and is returned. A subject without facts is not an error.
	Records(ctx context.Context, ref Ref, r Range, each func(*events.Record) error) error
	// Count counts the tasks that a query selects, regardless of its page.
	Count(ctx context.Context, q Query) (Counts, error)
	// Standing is the position of a task before its limits, with up to holders of their holders;
	// nil if it has no limits, if no scheduler of the present answers, or if the view does not know.
	Standing(ctx context.Context, id task.ID, holders int) (*quota.Standing, error)
}

// Present is an optional part of a [View]: the answers that do not follow from the log. A view of
// the past does not have it, and programs that show one say that this was not recorded.
type Present interface {
	// Beats returns the heartbeats that have not expired.
	Beats(ctx context.Context) (map[node.ID]node.Heartbeat, error)
	// Ran is the node that last ran a task under a sticky name; "" if unknown.
	Ran(ctx context.Context, name string) (string, error)
	// Paused is the NATS server's pause of a lane; nil if it hands out the lane's offers.
	Paused(ctx context.Context, lane placement.Lane) (*queue.Pause, error)
}

// Rows are tasks as a read model stores them.
type Rows struct {
	// Rows are objects in JSON, in the form of data that only Millrace reads ([form.Own]).
	Rows []json.RawMessage `json:"rows"`
	// Next is the After of the next page; "" if this is the last.
	Next task.ID `json:"next,omitempty"`
	// Seq is the sequence that the rows reflect.
	Seq uint64 `json:"seq"`
}

// ErrQuery refuses a query.
var ErrQuery = errors.New("the query is wrong")

// ErrUnlisted: no millrace server answers, and nothing else knows all tasks.
var ErrUnlisted = errors.New("nothing lists all tasks")

// wrong is an error that is an [ErrQuery] and keeps its own text.
type wrong struct{ error }

func (w wrong) Is(target error) bool { return target == ErrQuery }
func (w wrong) Unwrap() error        { return w.error }

// Kind is a kind of subject.
type Kind uint8

// The kinds of things.
const (
	Tasks Kind = iota + 1
	Nodes
	Queues
	Definitions
	Messages  // the unreadable ones in the log
	Breakers  // by their jobs
	Decisions // on a tick of a schedule: see [Tick]
)

var kindNames = [...]string{Tasks: "task", Nodes: "node", Queues: "queue", Definitions: "definition", Messages: "message", Breakers: "breaker of job", Decisions: "planned run of schedule"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && k > 0 {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", k)
}

// Ref names one subject.
type Ref struct {
	Kind Kind
	ID   string
}

// Task names a task.
func Task(id task.ID) Ref { return Ref{Tasks, string(id)} }

// Node names a node.
func Node(id node.ID) Ref { return Ref{Nodes, string(id)} }

// Queue names a queue.
func Queue(name string) Ref { return Ref{Queues, name} }

// Definition names a definition.
func Definition(def task.Def) Ref { return Ref{Definitions, string(def)} }

// Breaker names the breaker of a job.
func Breaker(job string) Ref { return Ref{Breakers, job} }

// Validate returns an error if nothing of the kind can have the name.
func (r Ref) Validate() error {
	var err error
	switch r.Kind {
	case Nodes:
		err = node.ID(r.ID).Validate()
	case Queues:
		err = value.ValidName("queue", r.ID)
	case Definitions:
		err = task.Def(r.ID).Validate()
	}
	if err != nil {
		err = wrong{err}
	}
	return err
}

// Few tells whether things of a kind are few: all of them are listed at once, and each is the fold of
// its own facts.
func (k Kind) Few() bool { return k == Nodes || k == Queues || k == Definitions }

func (r Ref) String() string { return r.Kind.String() + " " + r.ID }

// RefOf names the subject of a record; zero if there is none to ask for.
func RefOf(r *events.Record) Ref {
	f := &r.Fact
	switch r.Kind {
	case events.KindOffer, events.KindHold, events.KindChain, events.KindCarried:
		if f.Task != "" {
			return Task(f.Task)
		}
		if f.Def != "" {
			return Definition(f.Def)
		}
	case events.KindNode:
		if f.Node != "" {
			return Node(f.Node)
		}
	case events.KindQueue:
		if f.Queue != "" {
			return Queue(f.Queue)
		}
	case events.KindDefinition:
		if f.Def != "" {
			return Definition(f.Def)
		}
	case events.KindBreaker:
		if f.Job != "" {
			return Breaker(f.Job)
		}
	}
	return Ref{}
}

// Item is one subject. The pointer that the kind names is set.
type Item struct {
	Task       *task.Task
	Node       *node.Node
	Queue      *queue.Queue
	Definition *task.Definition
	Breaker    *limit.Circuit
}

// Fold adds up the facts about one subject, in the order of the log.
func Fold(ref Ref, records []events.Record) Item {
	item := Nothing(ref)
	for i := range records {
		item.Add(ref, &records[i])
	}
	return item
}

// Nothing is a subject without facts.
func Nothing(ref Ref) Item {
	switch ref.Kind {
	case Tasks:
		return Item{Task: &task.Task{ID: task.ID(ref.ID)}}
	case Nodes:
		return Item{Node: &node.Node{ID: node.ID(ref.ID)}}
	case Queues:
		return Item{Queue: &queue.Queue{Name: ref.ID}}
	case Definitions:
		return Item{Definition: &task.Definition{}}
	case Breakers:
		return Item{Breaker: &limit.Circuit{State: limit.StateClosed}}
	}
	return Item{}
}

// Add folds the next fact about the subject into the item's targets.
func (i *Item) Add(ref Ref, r *events.Record) {
	switch ref.Kind {
	case Tasks:
		i.Task.Apply(r.Task())
	case Nodes:
		*i.Node = node.Evolve(*i.Node, r.Node())
	case Queues:
		e, _ := r.Fact.Event.(queue.Event)
		*i.Queue = queue.Evolve(*i.Queue, r.Seq, r.Fact.At, r.Fact.Actor, e)
	case Definitions:
		if e, ok := r.Fact.Event.(task.DefinitionEvent); ok && r.Err == nil {
			*i.Definition = task.EvolveDefinition(*i.Definition, r.Seq, r.Fact.At, r.Fact.Actor, e)
		}
	case Breakers:
		*i.Breaker = r.Circuit(*i.Breaker)
	}
}

// Clone returns a copy that is independent of the original.
func (i Item) Clone() Item {
	return Item{Task: clone(i.Task), Node: clone(i.Node), Queue: clone(i.Queue), Definition: clone(i.Definition), Breaker: clone(i.Breaker)}
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	is := *p
	return &is
}

// Point is a place in the log.
type Point struct {
	// Seq is the sequence of the last message that counts.
	Seq uint64
	// At is when the log stored it; zero if unknown, as in the present.
	At time.Time
}

// Range selects records by sequence, From and To inclusive; 0 is no bound.
type Range struct{ From, To uint64 }

func (r Range) has(seq uint64) bool { return seq >= r.From && (r.To == 0 || seq <= r.To) }

// Query selects items of a kind.
type Query struct {
	Kind Kind
	// Filter selects tasks. Other kinds come all at once, except messages: of these the latest, as
	// many as Limit says.
	Filter
	// Of is the selected kind of definitions, such as [task.DefJob]; "" for all.
	Of string
	// Before selects messages before a sequence: the last one of the page before.
	Before uint64
	// AtLeast makes a lagging model wait until it reflects this sequence.
	AtLeast uint64
}

// Page is the result of a query; the slice of its kind is set.
type Page struct {
	Tasks       []task.Task
	Nodes       []node.Node // by id
	Queues      []queue.Queue
	Definitions map[task.Def]task.Definition // including removed ones
	Messages    []Message                    // the latest first
	// Next is the cursor of the next page of tasks, "" if this is the last.
	Next string
	// Point is the place that the page reflects.
	Point Point
	// Beating says that only nodes with a live heartbeat are listed, because no millrace server
	// answers.
	Beating bool
}

// Message is an unreadable message in the log that was not dismissed.
type Message struct {
	Seq uint64
	// Place is where the log keeps it, in the log's own terms.
	Place string
	// Reason is why it is unreadable.
	Reason string
	// Raw is its beginning, at most [MaxRaw] bytes.
	Raw []byte
}

// MessageOf returns a record as an unreadable message; false if the record can be read.
func MessageOf(r *events.Record) (Message, bool) {
	why := r.Unreadable()
	return Message{r.Seq, r.Place, why, r.Raw[:min(len(r.Raw), MaxRaw)]}, why != ""
}

// MaxRaw is how much of an unreadable message is kept, in bytes.
const MaxRaw = 4 << 10

// Counts are numbers of tasks by queue ([task.Work.QueueName]) and by state; a missing one is 0.
type Counts struct {
	Of    map[string]map[task.State]int
	Point Point
}

// Add counts n more.
func (c *Counts) Add(queue string, state task.State, n int) {
	if c.Of == nil {
		c.Of = map[string]map[task.State]int{}
	}
	if c.Of[queue] == nil {
		c.Of[queue] = map[task.State]int{}
	}
	c.Of[queue][state] += n
}

// States adds up the counts of all queues.
func (c *Counts) States() map[task.State]int {
	sum := map[task.State]int{}
	for _, states := range c.Of {
		for state, n := range states {
			sum[state] += n
		}
	}
	return sum
}

// All is the sum of all counts.
func (c *Counts) All() (all int) {
	for _, n := range c.States() {
		all += n
	}
	return all
}
