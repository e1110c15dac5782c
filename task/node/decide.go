package node

import (
	"errors"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/value"
)

// Command asks for a change of a node and may be refused. The set is closed.
type Command interface{ isCommand() }

// Register begins a session.
type Register struct {
	Session string
	Profile
	// Until is when the node's present heartbeat expires; zero if unknown.
	Until time.Time
}

// Beat reports that the session's heartbeat was stored over its Connection-th connection (0 if
// connections are not counted). Reason says why it has that connection.
type Beat struct {
	Session    string
	Connection uint64
	Reason     string
}

// Prove reports that a message put on the node's own route has come through the connection, how
// long that took, and what became of the attempts that the node still ran.
type Prove struct {
	Session, Reason string
	Connection      uint64
	Took            value.Duration
	Kept, Stopped   int
	Low             uint64
}

// Drain asks the session to take no new work, because its process is about to end. An operator's
// order is a [Change].
type Drain struct{ Session, Reason string }

// Leave ends the session at its own request.
type Leave struct {
	Session, Reason string
	Low             uint64
}

// Judged is a command whose decision used more than the history of the node.
type Judged struct {
	Command
	By task.By
}

// DecidedBy returns the inputs of the event that follows from a command; nil if the event depends
// only on the node and the time, or if the command is an operator's plain order.
func DecidedBy(c Command) *task.By {
	switch c := c.(type) {
	case Judged:
		return &c.By
	case Forget:
		return &task.By{At: c.At, Bounds: &task.Bounds{RetireAfter: value.Duration(c.After)}}
	case Judge:
		return &task.By{At: c.At, Alone: c.Alone, Flap: &task.FlapBounds{Limit: c.Policy.Limit, Release: c.Policy.Release}}
	}
	return nil
}

// RanOut is the reason why a session ends that stopped sending heartbeats without announcing its
// end.
const RanOut = "its heartbeat ran out"

// Vanish ends the session because its heartbeat stopped.
type Vanish struct{ Session, Reason string }

// Change is an operator's order.
type Change struct {
	Order  Order
	Reason string
	Grace  value.Duration
}

// Judge asks, by the node's score at an instant, whether to quarantine a node that comes and goes
// too often, or to release one that has been calm since.
type Judge struct {
	At     time.Time
	Policy FlapPolicy
	// Alone says that no other node takes work from one of its queues ([Node.Alone]): it is then
	// released once it has stayed for [ShortSession].
	Alone bool
}

// Release ends a quarantine at an operator's order.
type Release struct{ Reason string }

// Retire records that the node will not come back. It must be offline.
type Retire struct{ Reason string }

func (Register) isCommand() {}
func (Beat) isCommand()     {}
func (Prove) isCommand()    {}
func (Drain) isCommand()    {}
func (Leave) isCommand()    {}
func (Vanish) isCommand()   {}
func (Change) isCommand()   {}
func (Judge) isCommand()    {}
func (Release) isCommand()  {}
func (Retire) isCommand()   {}

// Why a command is refused.
var (
	// ErrSuperseded refuses a command of an ended session: another process has registered under the
	// same node id.
	ErrSuperseded = errors.New("another session has registered under this node id")
	// ErrUnknown: no worker has ever registered under this id.
	ErrUnknown = errors.New("no such node")
	// ErrRetired: the node was retired, and no worker has registered under its id since.
	ErrRetired = errors.New("the node is retired")
	// ErrAlive refuses to retire a node that beats.
	ErrAlive = errors.New("the node is alive: stop its worker first")
	// ErrNotOnline refuses a proof over a connection that has ended.
	ErrNotOnline = errors.New("the connection that the proof is about is over")
)

// Decide returns the event that follows from a command, to be recorded at n.Head. No event and no
// error means that the requested state holds already.
func Decide(n Node, c Command) (Event, error) {
	switch c := c.(type) {
	case Judged:
		return Decide(n, c.Command)
	case Register:
		if n.is(c.Session) {
			return nil, nil
		}
		return Registered(c), nil
	case Beat:
		if err := n.own(c.Session); err != nil || n.Alive() && c.Connection <= n.Connection {
			return nil, err
		}
		reason := c.Reason
		if reason == "" {
			reason = "its heartbeat was stored"
		}
		return WentOnline{Session: c.Session, Connection: c.Connection, Reason: reason}, nil
	case Prove:
		switch err := n.own(c.Session); {
		case err != nil:
			return nil, err
		case !n.Alive() || n.Connection != c.Connection:
			return nil, fmt.Errorf("%w: %s is %s, with connection %d of its session", ErrNotOnline, n.ID, n.Link, n.Connection)
		case n.Link == Ready:
			return nil, nil
		}
		return BecameReady(c), nil
	case Drain:
		if err := n.own(c.Session); err != nil || n.Leaving || !n.Alive() {
			return nil, err
		}
		return Drained(c), nil
	case Leave:
		if err := n.own(c.Session); err != nil || !n.Alive() {
			return nil, err
		}
		return WentOffline{Session: c.Session, Reason: c.Reason, Low: c.Low}, nil
	case Vanish:
		if !n.is(c.Session) || !n.Alive() {
			return nil, nil
		}
		return WentOffline{Session: c.Session, Reason: c.Reason, Lost: true}, nil
	case Change:
		now := n.Standing
		if err := n.exists(); err != nil || now.Order == c.Order && (c.Order != OrderDrain || now.Grace == c.Grace) {
			return nil, err
		}
		return Changed(c), nil
	case Label:
		return n.label(c)
	case Judge:
		if !n.registered() {
			return nil, nil
		}
		return c.Policy.judge(&n, c), nil
	case Release:
		if err := n.exists(); err != nil || n.Quarantine == nil {
			return nil, err
		}
		return WasReleased(c), nil
	case Forget:
		return n.forget(c), nil
	case Retire:
		switch {
		case n.State == Unknown:
			return nil, n.exists()
		case n.State == Retired:
			return nil, nil
		case n.Alive():
			return nil, fmt.Errorf("node %s is %s: %w", n.ID, n.State, ErrAlive)
		}
		return WasRetired(c), nil
	}
	return nil, fmt.Errorf("no rule for the command %T", c)
}

// exists refuses a node without a life.
func (n *Node) exists() error {
	switch n.State {
	case Unknown:
		return fmt.Errorf("node %q: %w", n.ID, ErrUnknown)
	case Retired:
		return fmt.Errorf("node %q: %w", n.ID, ErrRetired)
	}
	return nil
}

func (n *Node) own(session string) error {
	switch {
	case n.State == Retired:
		return n.exists()
	case !n.is(session):
		return fmt.Errorf("%w: the session of %s is %q, not %q", ErrSuperseded, n.ID, n.Session, session)
	}
	return nil
}
