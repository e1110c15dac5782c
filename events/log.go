package events

import (
	"context"
	"errors"
	"time"

	"millrace/node"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/queue"
)

// What an [Appender] can say instead of a sequence.
var (
	// ErrConflict: the chain has moved past the expected sequence; nothing was recorded.
	ErrConflict = errors.New("the chain has moved on")
	// ErrUnknown: the answer was lost, so the fact may or may not be recorded,
	// now or in a moment. Reading tells; writing the same fact again is safe.
	ErrUnknown = errors.New("no answer: it may or may not be recorded")
	// ErrNoStream: the log was removed, or its leader is changing; nothing was recorded.
	ErrNoStream = errors.New("no stream answers: it does not exist, or its leader is changing")
	// ErrMute: what is written to the log, or to what is kept beside it, is not stored.
	ErrMute = errors.New("the log takes no messages")
	// ErrOnChain: the birth of a task that a signal holds is no offer; it is appended to the task's chain.
	ErrOnChain = errors.New("a birth that a signal holds lies on the task's chain")
)

// Log is where all facts are, and the only truth: what a [Recorder] calls of it. Whoever reads all of it holds a
// [Follower], whoever runs tasks an [Offerer]. Implementations are safe for concurrent use. logtest has the suite that
// each of them passes.
type Log interface {
	Appender
	Placer
	Timekeeper
	Reader
}

// Appender writes to the chains of tasks, nodes, jobs and their breakers, of unique keys, and to those
// of admissions.
type Appender interface {
	// Append records f on the chain of its task, node or job if last is still the
	// sequence of the last message there, 0 for an empty chain, and returns
	// f's sequence. Else it records nothing and returns an error that wraps
	// [ErrConflict]. An error that wraps [ErrUnknown] leaves it open. Any other
	// error means that nothing was recorded.
	Append(ctx context.Context, f *Fact, last uint64) (uint64, error)
	// AppendAll is Append for facts of which each lies on another chain, at most [MostAtOnce]: if each chain
	// still ends where last says, it records all of them, directly one behind the other, and returns the
	// sequence of the first. Else it records none.
	AppendAll(ctx context.Context, facts []*Fact, last []uint64) (first uint64, err error)
}

// MostAtOnce is how many facts [Appender.AppendAll] takes.
const MostAtOnce = 500

// Placer writes what is no transition: births and offers.
type Placer interface {
	// Place records a birth ([task.Submitted]) or a later offer ([task.Queued])
	// and returns its sequence. A birth with a due time is held, anything else
	// is offered on its route at once. One that a signal holds is refused with [ErrOnChain]. After an error that wraps [ErrUnknown]
	// it may be recorded; placing it again is harmless.
	Place(ctx context.Context, f *Fact) (uint64, error)
	// PlaceAll is Place for many facts at once. Each fact's outcome goes to done, by index and
	// in order, from the caller's goroutine. With first a fact is recorded only if its task has no offer on the route yet, or,
	// if it is born to wait, no such birth; else the error wraps [ErrConflict].
	PlaceAll(ctx context.Context, facts []*Fact, first bool, done func(i int, seq uint64, err error))
	// PlaceClaimed records f only if the claim of a unique key with this sequence is still the key's last one. Else it
	// records nothing and returns an error that wraps [ErrConflict]. A birth is placed; with chain, f lies on the chain of
	// its task instead, wherever that stands: for a birth that belongs there, and for what means nothing unless the task has ended.
	PlaceClaimed(ctx context.Context, f *Fact, key string, claim uint64, chain bool) (uint64, error)
}

// Timekeeper keeps the timers of tasks. They lie beside the log and can all be lost: what is to be armed
// follows from the log.
type Timekeeper interface {
	// Arm has the log offer the task of a [task.Queued] fact by itself when that is due: by a
	// [task.Due] fact, which refers to the turn and holds nothing of the work. A
	// task has one timer; which of two stays, [task.Due.Replaces] says. After an error the timer may
	// be armed or not; arming it again is harmless.
	Arm(ctx context.Context, f *Fact) error
	// Disarm removes the task's timer if there is one of a turn before the fact at the
	// sequence given. That bound keeps a removal that comes late from taking
	// the timer of the task's next life.
	Disarm(ctx context.Context, id task.ID, before uint64) error
}

// Timers tells which tasks have timers.
type Timers interface {
	// Armed returns the timers of some tasks; those that have none are not there. A change of a moment ago may
	// be missing.
	Armed(ctx context.Context, ids []task.ID) (map[task.ID]task.Due, error)
	// Timers is how many tasks have a timer, or a little more.
	Timers(ctx context.Context) (int, error)
}

// Reader reads one task, node, queue or chain. What it returns holds all that was recorded
// before the call.
type Reader interface {
	// Task returns the history of a task: its birth, its offers and its chain,
	// in the order of the log; nothing if there is no such task.
	Task(ctx context.Context, id task.ID) ([]Record, error)
	// Node returns what follows on the chain of a node after a sequence, all of it after 0. It
	// costs little if nothing does. The error wraps [node.ErrUnknown] if after is not 0 and the node
	// has no chain at all: it was on a log that is no more.
	Node(ctx context.Context, id node.ID, after uint64) ([]Record, error)
	// Queue returns what operators have said about a queue.
	Queue(ctx context.Context, name string) ([]Record, error)
	// Latest returns the last fact on a chain, false if there is none. The chain is that of a fact about the same, of which
	// nothing else has to be set: Fact{Key: key} is the chain of a unique key.
	Latest(ctx context.Context, about Fact) (Record, bool, error)
	// Definition returns what is defined under a name; of what never was, the zero value.
	Definition(ctx context.Context, def definition.Def) (definition.Definition, error)
}

// Follower reads everything.
type Follower interface {
	// Follow reads the log from a sequence on, without end.
	Follow(ctx context.Context, from uint64) (Feed, error)
	// Last is the sequence of the last message in the log, 0 if there is none.
	Last(ctx context.Context) (uint64, error)
}

// Feed is a place in the log that moves forward. It is for one goroutine.
type Feed interface {
	// Next returns the next records, in order: at least one, for which it waits,
	// and of those that are there as many as can be handled at once. The slice is
	// valid until the next call. After an error the feed is of no more use.
	Next(ctx context.Context) ([]Record, error)
	// Close gives back what the feed holds.
	Close()
}

// Offerer hands out offers.
type Offerer interface {
	// Offers pulls the offers of some queues; [where.NodeQueue] is what a node calls
	// its own. An offer is leased to whoever
	// pulled it; when the lease runs out, or is returned, it is offered again.
	// One of the queues may be a node's own route ([node.ID.Queue]), from which
	// nobody else pulls.
	Offers(ctx context.Context, queues []string) (Offers, error)
}

// Offers is a place from which offers come. It is safe for concurrent use.
type Offers interface {
	// Next waits for one offer. Who calls it must be able to start the task.
	Next(ctx context.Context) (*Offer, error)
	// Also has Next bring offers of these routes, too: it pulls from them, and no more from
	// those that an earlier call named and this one does not. What they brought is
	// handed out or goes back. The routes given to [Offerer.Offers] stay. If one cannot be
	// had the others are, and the error says why.
	Also(ctx context.Context, queues []string) error
	// Prove puts something that is no offer on the node's own route, and returns
	// when something from there has come through, on the way that offers take. It
	// tries until then, or until ctx ends. Without an own route it is an error.
	Prove(ctx context.Context) error
	// Trouble says what has kept offers from coming for some seconds; nil if
	// nothing does, as far as is known.
	Trouble() error
	// Broken gets a value each time the way of the offers was interrupted and
	// stands again: nobody knows what it missed. It may be nil.
	Broken() <-chan Break
	// Low is a sequence below which all offers of the own route are done with; 0 if that is not known.
	Low() uint64
	// Weigh says how often queues have their turn when several have offers; what is not
	// there has the weight 1. Implementations for tests may do without.
	Weigh(weights map[string]int)
	// Close gives back what was not handed out.
	Close()
}

// Break is an interruption that is over.
type Break struct {
	At time.Time
	// Reason says in words what was interrupted.
	Reason string
}

// Offer is a task that may be run, and the lease on it.
type Offer struct {
	Record
	// Deliveries counts how often the offer was handed out, this one included. What comes when nobody
	// waits for it any more goes back unseen, and has been handed out.
	Deliveries int
	// Rate is that of the queue from which it comes, as far as this log's client has heard.
	Rate queue.Rate
	// Window is that of the same queue, as far as this log's client has heard: the name of a calendar, "" for none.
	Window string
	// Read is the task as its worker has read it since the offer came; nil if it has not.
	Read *task.Task
	Lease
}

// Lease is the right to act on an offer.
type Lease interface {
	// Ack ends the offer: all that must follow from it is durable. It does not
	// wait; if it is lost, the offer comes again and finds nothing to do.
	Ack() error
	// Extend begins the lease anew. It waits until the log has confirmed that.
	Extend(ctx context.Context) error
	// Prolong begins the lease anew as well, but does not wait, so the word may be lost: for
	// who holds many, and bears it if one is handed out again.
	Prolong() error
	// Return gives the offer back at once, for somebody else.
	Return() error
	// Rest gives the offer back as well, but nobody gets it for a while. Each time counts
	// as a delivery, so it is for what is bounded.
	Rest(d time.Duration) error
}
