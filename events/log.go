package events

import (
	"context"
	"errors"
	"time"

	"millrace/task"
	"millrace/task/node"
	"millrace/task/queue"
)

// Errors of an [Appender].
var (
	// ErrConflict: the chain has moved past the expected sequence; nothing was recorded.
	ErrConflict = errors.New("the chain has moved on")
	// ErrUnknown: the answer was lost, so the fact may or may not be recorded, now or a moment
	// later. Read to find out; writing the same fact again is safe.
	ErrUnknown = errors.New("no answer: it may or may not be recorded")
	// ErrNoStream: the log does not exist, or is electing a leader. The fact was not recorded.
	ErrNoStream = errors.New("no stream answers: it does not exist, or its leader is changing")
	// ErrMute: writes to the log, or to the state beside it, are not stored.
	ErrMute = errors.New("the log takes no messages")
	// ErrGone: the connection to the log is closed for good. Nothing that is asked through it will
	// be answered; a process that needs the log ends, or connects anew.
	ErrGone = errors.New("the connection to the log is closed for good")
	// ErrDenied: the rights of this process do not reach so far. Others must change that.
	ErrDenied = errors.New("a permission is missing")
)

// Log is the store of all facts and the only truth. It has the methods that a [Recorder] calls. A
// reader of the whole log uses a [Follower], a worker an [Offerer]. Implementations are safe for
// concurrent use. Package logtest has the suite that each of them passes.
type Log interface {
	Appender
	Placer
	Timekeeper
	Reader
}

// Appender writes to the chains of tasks, nodes, jobs and their breakers, of unique keys, and to those
// of admissions. Like [Placer], it writes nothing if ctx has ended before the call.
type Appender interface {
	// Append records f on the chain of its task, node or job if last is still the sequence of the
	// last message there, 0 for an empty chain. It returns f's sequence. Otherwise it records
	// nothing and returns an error that wraps [ErrConflict]. After an error that wraps [ErrUnknown]
	// the outcome is open. After any other error the fact is not recorded.
	Append(ctx context.Context, f *Fact, last uint64) (uint64, error)
	// AppendAll is Append for up to 500 facts, each on another chain. If each chain still
	// ends where last says, it records all facts, directly behind each other, and returns the
	// sequence of the first. Otherwise it records none.
	AppendAll(ctx context.Context, facts []*Fact, last []uint64) (first uint64, err error)
}

// Placer writes facts that are not transitions: births and offers.
type Placer interface {
	// Place records a birth ([task.Submitted]) or a later offer ([task.Queued], [task.Due]) and
	// returns its sequence. A birth that is no offer ([task.Submitted.OnChain]) begins the task's
	// chain: if that is not empty, the error wraps [ErrConflict]. All else is offered on its route at
	// once. After an error that wraps [ErrUnknown] it may be recorded; placing it again is harmless.
	Place(ctx context.Context, f *Fact) (uint64, error)
	// PlaceAll is Place for many facts at once. Done gets each fact's outcome, by index and in
	// order, on the caller's goroutine. With first, an offer is recorded only if its task has none
	// on the route yet; else the error wraps [ErrConflict].
	PlaceAll(ctx context.Context, facts []*Fact, first bool, done func(i int, seq uint64, err error))
	// PlaceClaimed records f only if the key's last claim has this sequence. Otherwise it records
	// nothing and returns an error that wraps [ErrConflict]. A birth is placed. With chain, f goes
	// onto the chain of its task instead, wherever that ends: for a birth that belongs there, and
	// for a fact that only has an effect on an ended task.
	PlaceClaimed(ctx context.Context, f *Fact, key string, claim uint64, chain bool) (uint64, error)
}

// Timekeeper keeps the timers of tasks. They are stored beside the log and can all be lost: which
// timers to arm follows from the log.
type Timekeeper interface {
	// Arm makes the log offer the task of a [task.Queued] fact by itself when that is due, with a
	// [task.Due] fact that refers to the turn and carries no work. A task has one timer;
	// [task.Due.Replaces] decides which of two stays. After an error the timer may or may not be
	// armed; arming it again is harmless.
	Arm(ctx context.Context, f *Fact) error
	// Disarm removes the task's timer if it belongs to a turn before the fact with the given
	// sequence. This bound keeps a late removal from removing the timer of the task's next life.
	Disarm(ctx context.Context, id task.ID, before uint64) error
}

// Timers tells which tasks have timers.
type Timers interface {
	// Armed returns the timers of the given tasks; tasks without one are missing. Very recent
	// changes may be missing.
	Armed(ctx context.Context, ids []task.ID) (map[task.ID]task.Due, error)
	// Timers is how many tasks have a timer, or slightly more.
	Timers(ctx context.Context) (int, error)
}

// Reader reads one task, node, queue or chain. The result includes everything recorded before the
// call.
type Reader interface {
	// Task returns the history of a task: its birth, its offers and its chain,
	// in the order of the log; nothing if there is no such task.
	Task(ctx context.Context, id task.ID) ([]Record, error)
	// Node returns the facts on a node's chain from a sequence on, all of them from 0. It costs
	// little if there are none behind that. The error wraps [node.ErrUnknown] if from is not 0 and the
	// chain has no fact there: the node was on a log that was deleted, or that has lost its last
	// messages. What was known of the node is then void. So it is if the fact there is another one.
	Node(ctx context.Context, id node.ID, from uint64) ([]Record, error)
	// Queue returns the facts about a queue, which operators write.
	Queue(ctx context.Context, name string) ([]Record, error)
	// Latest returns the last readable fact on a chain, of sequence 0 if there is none, and the
	// sequence of the chain's last message, which the next fact must follow. Another message than a
	// fact changes nothing. The chain is that of facts with the same subject as about, whose other
	// fields need not be set: Fact{Key: key} is the chain of a unique key.
	Latest(ctx context.Context, about Fact) (last Record, end uint64, err error)
	// Definition returns the definition of a name; the zero value if it never existed.
	Definition(ctx context.Context, def task.Def) (task.Definition, error)
}

// Beginner is a [Reader] that reads the beginning of a chain for less than a history. A log need not
// be one.
type Beginner interface {
	// Beginning returns the first facts on a task's chain, in order, up to the one at a sequence. It
	// may return nothing although that one exists: any replica answers, and only for chains that are
	// short up to there. What follows on the chain is not in it.
	Beginning(ctx context.Context, id task.ID, to uint64) ([]Record, error)
}

// Resumer is a [Reader] that reads what is new of a task for less than its history. A log need not be one.
type Resumer interface {
	// Rest returns the history of a task from a fact of its chain on, which is the first of it. It returns
	// nothing if the chain has no fact at that sequence any more, or was carried since: then only the whole
	// history tells what the task is.
	Rest(ctx context.Context, id task.ID, from uint64) ([]Record, error)
}

// Follower reads the whole log.
type Follower interface {
	// Follow reads the log from a sequence on, without end.
	Follow(ctx context.Context, from uint64) (Feed, error)
	// Last is the sequence of the last message in the log, 0 if there is none.
	Last(ctx context.Context) (uint64, error)
}

// Trimmer is a log that can forget its front.
type Trimmer interface {
	// First is the sequence of the first message in the log; that of the next one if there is none.
	First(ctx context.Context) (uint64, error)
	// StoredAt returns the sequence of the first message that the log stored at a time or later, and
	// when; 0 if there is none.
	StoredAt(ctx context.Context, at time.Time) (seq uint64, stored time.Time, err error)
	// Floor returns the first offer, or fire of a schedule, that was not handed out yet or is not
	// acknowledged, of 0 if there is none. It may be too low, never too high.
	Floor(ctx context.Context) (Floor, error)
	// Later returns those of the tasks about which there is a message at a sequence or behind it,
	// carried ones included. It includes everything recorded before the call.
	Later(ctx context.Context, ids []task.ID, seq uint64) (map[task.ID]bool, error)
	// Trim removes all messages below a sequence. Doing it again is harmless. The sequences of the
	// others stay. A chain whose messages are all gone is empty, and its next fact expects 0.
	Trim(ctx context.Context, below uint64) error
}

// Floor is what the front of the log must not pass.
type Floor struct {
	Seq uint64
	// Holder is the task that is offered there; "" if it is none.
	Holder task.ID
	// Since is when the log stored it.
	Since time.Time
}

// Feed is a place in the log that moves forward. It is for one goroutine.
type Feed interface {
	// Next returns the next records, in order: it waits for at least one, and returns as many of
	// the available ones as can be handled at once. The slice is valid until the next call. After
	// an error the feed cannot be used.
	Next(ctx context.Context) ([]Record, error)
	// Close releases the resources of the feed.
	Close()
}

// Offerer hands out offers.
type Offerer interface {
	// Offers pulls the offers of the given queues; [placement.NodeQueue] names a node's own route. An
	// offer is leased to the caller that pulled it. When the lease expires or is returned, it is
	// offered again. One of the queues may be a node's own route ([node.ID.Queue]), from which no
	// other node pulls.
	Offers(ctx context.Context, queues []string) (Offers, error)
}

// Offers is a source of offers. It is safe for concurrent use.
type Offers interface {
	// Next waits for one offer. The caller must be able to start the task.
	Next(ctx context.Context) (*Offer, error)
	// Also makes Next pull from these routes, too, and stop pulling from those that only an earlier
	// call named; their offers are handed out or go back. The routes given to [Offerer.Offers]
	// stay. If one route fails the others are pulled, and the error says why. It wraps [ErrDenied] if
	// all that failed are not granted to this process.
	Also(ctx context.Context, queues []string) error
	// Prove sends a message that is not an offer to the node's own route, and returns when a
	// message from there has come through, by the way that offers take. It tries until then, or
	// until ctx ends. Without an own route it returns an error.
	Prove(ctx context.Context) error
	// Trouble says what has blocked the offers for some seconds; nil if nothing known does.
	Trouble() error
	// Broken gets a value each time the way of the offers was interrupted and works again: messages
	// may have been missed. It may be nil.
	Broken() <-chan Break
	// Low is a sequence below which all offers of the own route are finished; 0 if unknown.
	Low() uint64
	// Weigh sets how often queues have their turn when several have offers. A missing queue has
	// weight 1. Implementations for tests may ignore it.
	Weigh(weights map[string]int)
	// Close returns the offers that were not handed out.
	Close()
}

// Break is an interruption that has ended.
type Break struct {
	At time.Time
	// Reason says in words what was interrupted.
	Reason string
	// Foreign says that somebody who is no part of this program did it.
	Foreign bool
}

// Offer is a task that may be run, and the lease on it.
type Offer struct {
	Record
	// Deliveries counts how often the offer was handed out, including this time. An offer that
	// arrives after its caller stopped waiting goes back unseen, and counts.
	Deliveries int
	// Rate is the rate of its queue, as far as this client knows.
	Rate queue.Rate
	// Valve is that of its queue, as far as this client knows.
	Valve queue.Valve
	// Read is the task as its worker has read it since the offer came; nil if it has not.
	Read *task.Task
	Lease
}

// Doubtful is a [Lease] that knows when its server was away.
type Doubtful interface {
	Lease
	// Severed tells whether the server that handed out the offer was away since. It may have come
	// back with a log that has lost the offer.
	Severed() bool
}

// MayBeLost tells whether the log may have lost the offer since it came ([Doubtful]). Then the log
// must be read before and after a claim: a claim on an empty chain would succeed, and begin the chain
// of a task that was never born.
func (o *Offer) MayBeLost() bool {
	l, ok := o.Lease.(Doubtful)
	return ok && l.Severed()
}

// Lease is the right to act on an offer.
type Lease interface {
	// Ack ends the offer: everything that follows from it is durable. It does not wait. If it is
	// lost, the offer comes again and has no effect.
	Ack() error
	// Extend renews the lease. It waits until the log has confirmed that.
	Extend(ctx context.Context) error
	// Prolong renews the lease without waiting, so the message may be lost. It is for a worker that
	// holds many offers and tolerates a redelivery.
	Prolong() error
	// Return gives the offer back at once, for another node.
	Return() error
	// Rest gives the offer back and delays its next delivery by d. Each delivery counts, so use it
	// only a bounded number of times.
	Rest(d time.Duration) error
}

// Lasting is a [Lease] that another process can take over.
type Lasting interface {
	Lease
	// Token identifies the lease to its store.
	Token() string
}
