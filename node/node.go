// Package node holds the rules of nodes as pure functions: the states of a
// worker process, which command is allowed in which state ([Decide]) and how
// facts add up to a state ([Evolve]). Like package task it reads no clock and
// does no I/O.
//
// Only the fold of a node's facts says what its state is. Heartbeats are not
// facts; what follows from their presence or absence is.
package node

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task"
)

// ID names a node: 1 to 64 letters, digits, '_' or '-'. It stays the same over restarts.
type ID string

// Validate refuses an ID that cannot be one token of a subject.
func (id ID) Validate() error { return task.ValidName("node", string(id)) }

// State says how far a node can be counted on.
type State uint8

// The states of a node.
const (
	Unknown State = iota
	// Online nodes beat.
	Online
	// Draining nodes take no new work and end or release what they run.
	Draining
	// Offline nodes said goodbye, or fell silent.
	Offline
)

var stateNames = []string{"unknown", "online", "draining", "offline"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText spells the state by name, so JSON shows words.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames, string(text))
	if i < 0 {
		return fmt.Errorf("no node state is called %q", text)
	}
	*s = State(i)
	return nil
}

// Profile is what a node says of itself when it starts.
type Profile struct {
	Host    string            `json:"host,omitempty"`
	PID     int               `json:"pid,omitempty"`
	Version string            `json:"version,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Slots is how many tasks it runs at once.
	Slots int `json:"slots,omitempty"`
	// Queues are those that it serves.
	Queues []string `json:"queues,omitempty"`
}

// Node is the sum of the facts about a node.
type Node struct {
	ID    ID    `json:"id"`
	State State `json:"state"`
	// Reason is why it is in this state, in words.
	Reason string `json:"reason"`
	// Session names the process's life; it is new at each start.
	Session string `json:"session"`
	Profile
	// Head is the sequence of the last fact: what the next one must expect.
	Head uint64 `json:"head"`
	// Since is when the present state began, Started when the session did.
	Since   time.Time `json:"since"`
	Started time.Time `json:"started"`
}

// Serves tells whether the node takes new work from the queue, or from its own
// route ([task.NodeQueue]).
func (n *Node) Serves(queue string) bool {
	return n.State == Online && (slices.Contains(n.Queues, queue) || queue == task.NodeQueue(string(n.ID)))
}

// Heartbeat is what a node writes again and again while it lives. It is no
// fact: it vanishes by itself when it is not renewed.
type Heartbeat struct {
	Session string    `json:"session"`
	At      time.Time `json:"at"`
}

// Event is a fact about a node. The set is closed.
type Event interface{ isEvent() }

// Registered begins a session; whatever session was there before is over.
type Registered struct {
	Session string
	Profile
}

// WentOnline says that the session's heartbeat was seen.
type WentOnline struct{ Session, Reason string }

// Drained says that the session takes no new work.
type Drained struct{ Session, Reason string }

// WentOffline ends what can be expected of the session.
type WentOffline struct{ Session, Reason string }

func (Registered) isEvent()  {}
func (WentOnline) isEvent()  {}
func (Drained) isEvent()     {}
func (WentOffline) isEvent() {}

// Recorded is an event with its place in the log. Event is nil for a message
// that could not be understood.
type Recorded struct {
	Seq   uint64
	At    time.Time
	Event Event
}

// Evolve adds one recorded event to a node. It is total; an event of a session
// that is over changes nothing but Head, one at or below n.Head nothing at all.
func Evolve(n Node, r Recorded) Node {
	if r.Seq <= n.Head {
		return n
	}
	n.Head = r.Seq
	switch e := r.Event.(type) {
	case Registered:
		n.Session, n.Profile, n.Started = e.Session, e.Profile, r.At
		n.enter(Offline, "registered, no heartbeat seen yet", r.At)
	case WentOnline:
		if n.is(e.Session) {
			n.enter(Online, e.Reason, r.At)
		}
	case Drained:
		if n.is(e.Session) {
			n.enter(Draining, e.Reason, r.At)
		}
	case WentOffline:
		if n.is(e.Session) {
			n.enter(Offline, e.Reason, r.At)
		}
	}
	return n
}

// is tells whether the session is the present one; a node that never registered has none.
func (n *Node) is(session string) bool { return n.State != Unknown && n.Session == session }

func (n *Node) enter(s State, reason string, at time.Time) {
	n.State, n.Reason, n.Since = s, reason, at
}

// Command asks for a change of a node and may be refused. The set is closed.
type Command interface{ isCommand() }

// Register begins a session.
type Register struct {
	Session string
	Profile
}

// Beat says that the session's heartbeat was stored.
type Beat struct{ Session string }

// Drain asks the session to take no new work.
type Drain struct{ Session, Reason string }

// Leave ends the session, by its own word.
type Leave struct{ Session, Reason string }

// Vanish ends the session because its heartbeat stopped.
type Vanish struct{ Session, Reason string }

func (Register) isCommand() {}
func (Beat) isCommand()     {}
func (Drain) isCommand()    {}
func (Leave) isCommand()    {}
func (Vanish) isCommand()   {}

// ErrSuperseded refuses a command of a session that is over: another process
// has registered under the same node id.
var ErrSuperseded = errors.New("another session has registered under this node id")

// Decide returns the event that follows from a command, to be recorded at
// n.Head. No event and no error means that what was asked for holds already.
func Decide(n Node, c Command) (Event, error) {
	switch c := c.(type) {
	case Register:
		if n.Session == c.Session && n.State != Unknown {
			return nil, nil
		}
		return Registered(c), nil
	case Beat:
		if err := n.own(c.Session); err != nil || n.State != Offline {
			return nil, err
		}
		return WentOnline{Session: c.Session, Reason: "its heartbeat was stored"}, nil
	case Drain:
		if err := n.own(c.Session); err != nil || n.State == Draining || n.State == Offline {
			return nil, err
		}
		return Drained(c), nil
	case Leave:
		if err := n.own(c.Session); err != nil || n.State == Offline {
			return nil, err
		}
		return WentOffline(c), nil
	case Vanish:
		if n.Session != c.Session || n.State == Offline || n.State == Unknown {
			return nil, nil
		}
		return WentOffline(c), nil
	}
	return nil, fmt.Errorf("no rule for the command %T", c)
}

func (n *Node) own(session string) error {
	if !n.is(session) {
		return fmt.Errorf("%w: the session of %s is %q, not %q", ErrSuperseded, n.ID, n.Session, session)
	}
	return nil
}
