package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/placement"
	"millrace/task/value"
)

// ID identifies a node: 1 to 64 letters, digits, '_' or '-'. It stays the same over restarts.
type ID string

// Validate refuses an ID that cannot be one token of a subject.
func (id ID) Validate() error { return value.ValidName("node", string(id)) }

// Queue is the queue part of the node's own route, "@node-1". The node serves it besides its
// queues; no other node does.
func (id ID) Queue() string { return placement.NodeQueue(string(id)) }

// State says how far a node can be relied on.
type State uint8

// The states of a node.
const (
	// Unknown: no worker has ever registered under this id.
	Unknown State = iota
	// Online nodes beat, and have not proved yet that work reaches them.
	Online
	// Ready nodes have proved that they can fetch over their present connection.
	Ready
	// Draining nodes take no new work and end or release their tasks: their process was asked to
	// end, or an operator has drained them.
	Draining
	// Quarantined nodes came and went too often; they beat and get no work.
	Quarantined
	// Offline nodes announced their end, fell silent, or have not beaten yet.
	Offline
	// Retired nodes will not come back: an operator has said so, or they were offline for too long.
	Retired
)

var stateNames = []string{"unknown", "online", "ready", "draining", "quarantined", "offline", "retired"}

// States lists all states by name.
func States() []State {
	return []State{Unknown, Online, Ready, Draining, Quarantined, Offline, Retired}
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// MarshalText writes the state as its name, so JSON shows words.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form that MarshalText writes.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames, string(text))
	if i < 0 {
		return fmt.Errorf("no node state is called %q", text)
	}
	*s = State(i)
	return nil
}

// Order is an operator's order to a node. It holds until the next one, over any number of restarts.
type Order uint8

// The orders.
const (
	// OrderServe: no restriction, the node works normally.
	OrderServe Order = iota
	// OrderCordon: no new work; running tasks continue.
	OrderCordon
	// OrderDrain: no new work; running tasks end or are given back. The process stays.
	OrderDrain
)

var orderNames = []string{"serve", "cordon", "drain"}

func (o Order) String() string {
	if int(o) < len(orderNames) {
		return orderNames[o]
	}
	return fmt.Sprintf("order(%d)", uint8(o))
}

// MarshalText writes the order as its name.
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the form that MarshalText writes.
func (o *Order) UnmarshalText(text []byte) error {
	i := slices.Index(orderNames, string(text))
	if i < 0 {
		return fmt.Errorf("no order is called %q: want serve, cordon or drain", text)
	}
	*o = Order(i)
	return nil
}

// Profile is what a worker announces about its node when it starts.
type Profile struct {
	// Host is the name of the machine, PID the worker's process, and Version that of its program.
	Host    string `json:"host,omitempty" redact:"hide"`
	PID     int    `json:"pid,omitempty"`
	Version string `json:"version,omitempty" redact:"keep"`
	// Labels are what the worker says of its node, for selectors.
	Labels map[string]string `json:"labels,omitempty" redact:"values"`
	// Slots is how many tasks it runs at once.
	Slots int `json:"slots,omitempty"`
	// Queues are the queues that it serves.
	Queues []string `json:"queues,omitempty" redact:"keep"`
	// Probes says that the node proves its readiness. Older workers do not: they count as serving
	// once online.
	Probes bool `json:"probes,omitempty"`
	// Announces says that the node runs tasks of Handlers, commands if Commands is set, and no
	// others. Older workers announce nothing: they may run any.
	Announces bool     `json:"announces,omitempty"`
	Handlers  []string `json:"handlers,omitempty" redact:"keep"`
	Commands  bool     `json:"commands,omitempty"`
	// Runtimes are the programs by which it runs images, the preferred one first.
	Runtimes []string `json:"runtimes,omitempty" redact:"keep"`
	// TTL is the lifetime of the node's heartbeats; 0 if it names none.
	TTL value.Duration `json:"ttl,omitempty"`
}

// Node is the sum of the facts about a node. Its size does not grow with their number.
type Node struct {
	// ID is the node's name, and State how far it is on its way from offline to ready and back.
	ID    ID    `json:"id" redact:"keep"`
	State State `json:"state"`
	// Reason is why it is in this state, in words.
	Reason string `json:"reason" redact:"hide"`
	// Session identifies the process's life; it is new at each start.
	Session string `json:"session" redact:"keep"`
	Profile
	// Relabels are the labels that an operator has set or removed (null), and OwnLabels the worker's
	// own, if there are Relabels. Labels are the sum.
	Relabels  map[string]*string `json:"relabels,omitempty" redact:"values"`
	OwnLabels map[string]string  `json:"own_labels,omitempty" redact:"values"`
	// Head is the sequence of the last fact, which the next one must expect.
	Head uint64 `json:"head"`
	// Since is when the present state began. Started is when the session began.
	Since   time.Time `json:"since"`
	Started time.Time `json:"started"`

	// Before is the session before this one.
	Before Predecessor `json:"before,omitzero"`

	// Link is the progress of the session itself, apart from other reasons to get no work: Offline,
	// Online or Ready. LinkReason explains it.
	Link       State  `json:"link"`
	LinkReason string `json:"link_reason,omitempty" redact:"hide"`
	// OnlineSince is when the present connection first beat. ReadySince is when it proved that work
	// reaches it; zero if that does not hold.
	OnlineSince time.Time `json:"online_since,omitzero"`
	ReadySince  time.Time `json:"ready_since,omitzero"`
	// Connection counts the session's connections from 1; 0 if it does not report them.
	Connection uint64 `json:"connection,omitempty"`
	// Took is how long the connection took to become ready.
	Took value.Duration `json:"took,omitempty"`
	// Kept and Stopped are the attempts that the node presented then: those that were still its
	// own, and those that it had to stop.
	Kept    int `json:"kept,omitempty"`
	Stopped int `json:"stopped,omitempty"`
	// Low is a sequence below which all offers on the node's own route are finished.
	Low uint64 `json:"low,omitempty"`

	// Leaving says that the session was asked to end.
	Leaving bool `json:"leaving,omitempty"`
	// LeavingReason says why.
	LeavingReason string `json:"leaving_reason,omitempty" redact:"hide"`
	// Standing is the operator's order to the node.
	Standing Standing `json:"standing,omitzero"`
	// Quarantine keeps work from the node because it came and went too often; nil for none.
	Quarantine *Quarantine `json:"quarantine,omitempty"`

	Stability
}

// Standing is an order and its origin.
type Standing struct {
	// Order is serve, cordon or drain. Reason is what the operator said.
	Order  Order  `json:"order"`
	Reason string `json:"reason,omitempty" redact:"hide"`
	// By is the operator that gave the order.
	By string `json:"by,omitempty" redact:"actor"`
	// Grace is how long running tasks may continue after a drain; 0 for the worker's own setting.
	Grace value.Duration `json:"grace,omitempty"`
	// Since is when the order was given; zero if there never was one.
	Since time.Time `json:"since,omitzero"`
}

// Quarantine says why and how long a node gets no work.
type Quarantine struct {
	// Reason says why it gets none, and Since is when that began.
	Reason string    `json:"reason" redact:"hide"`
	Since  time.Time `json:"since"`
	// Until is when it ends by itself at the earliest.
	Until time.Time `json:"until"`
}

// Takes tells whether the node takes any new work.
func (n *Node) Takes() bool {
	return n.Standing.Order == OrderServe && (n.State == Ready || n.State == Online && !n.Probes)
}

// TakesSince is since when the node takes new work, or takes none: its state and its operator's order
// both decide that.
func (n *Node) TakesSince() time.Time { return value.Later(n.Since, n.Standing.Since) }

// Serves tells whether the node takes new work from the queue, which may also name its own route.
func (n *Node) Serves(queue string) bool {
	return n.Takes() && (slices.Contains(n.Queues, queue) || queue == n.ID.Queue())
}

// Alive tells whether by the log the session beats.
func (n *Node) Alive() bool { return n.Link == Online || n.Link == Ready }

// Stable tells whether the node has been ready without a drop for d.
func (n *Node) Stable(now time.Time, d time.Duration) bool {
	return n.State == Ready && !now.Before(n.ReadySince.Add(d))
}

// Predecessor is a session that another one has replaced.
type Predecessor struct {
	// Session is its id.
	Session string `json:"session,omitempty" redact:"keep"`
	// Gone is since when it counts as gone, and Older since when those before it do.
	Gone  time.Time `json:"gone,omitzero"`
	Older time.Time `json:"older,omitzero"`
}

// succeeded returns the predecessor that remains of a session when another one registers. Its
// heartbeat lasts until then (zero if unknown).
func (p Predecessor) succeeded(session string, at, until time.Time) Predecessor {
	if session == "" {
		return p
	}
	gone := at.Add(Succession)
	if !until.IsZero() && until.Before(gone) {
		gone = until
	}
	if gone.Before(at) || gone.Year() > 9999 { // which JSON cannot say
		gone = at
	}
	return Predecessor{Session: session, Gone: gone, Older: p.Gone}
}

// Succession is for how long, after another session has taken a node's name, no other node starts
// the tasks of the earlier session. It is shorter if the earlier session's heartbeat would have
// expired sooner. A worker learns of its successor at once while it is connected, and ends its
// attempts within that time.
const Succession = 3 * time.Second

// Heartbeat is what a node writes again and again while it lives. It is not a fact: it expires if
// it is not renewed.
type Heartbeat struct {
	Session string    `json:"session"`
	At      time.Time `json:"at"`
	// Every is the time until the next heartbeat, and TTL the lifetime of this one: readers judge
	// the node by its own promise. Both are 0 if the worker names none.
	Every value.Duration `json:"every,omitempty"`
	TTL   value.Duration `json:"ttl,omitempty"`
	// Runs are the epochs of the attempts that the session runs, or is about to start: the heartbeat
	// renews their leases. One that has only just been claimed may be missing.
	Runs []uint64 `json:"runs,omitempty"`
	// Machine is what the worker measured of its machine; zero if it cannot.
	Machine Machine `json:"machine,omitzero"`
}

// Machine is what the machine of a node has, and how much of that all its programs use.
type Machine struct {
	// Processors is how many there are, and Busy for which part of the time they worked since the heartbeat
	// before, or in the first one since the machine started, from 0 to 1.
	Processors int     `json:"processors"`
	Busy       float64 `json:"busy"`
	// Memory is how many bytes there are, and MemoryUsed how many of them a new program could not have.
	Memory     int64 `json:"memory"`
	MemoryUsed int64 `json:"memory_used"`
}

// PulseOf is a node's pulse at a time of the server if its last heartbeat was stored at one and
// expires at another; an end of zero never comes.
func PulseOf(h Heartbeat, stored, end, now time.Time) Pulse {
	if !end.IsZero() && !now.Before(end) {
		return Pulse{Now: now, Stored: end, RanOut: true}
	}
	return Pulse{Now: now, Beat: h, Stored: stored}
}

// Pulse is the server's state of a node's heartbeat at one moment.
type Pulse struct {
	// Now is the server's time, read before the heartbeat.
	Now time.Time
	// Beat is the heartbeat; its session is "" if there is none.
	Beat Heartbeat
	// Stored is when the server stored the heartbeat or, without one, when it ended; zero if that is
	// not known.
	Stored time.Time
	// RanOut says that the heartbeat expired. Otherwise the node withdrew it.
	RanOut bool
	// Made is when the place of heartbeats was made, if it has neither one nor the trace of one; zero if
	// that is not known. From before, none can be missing.
	Made time.Time
	// Leap is the last leap of the server's clock that the reader has seen. What is stored from before
	// it is as old as it was by the clock of then.
	Leap value.Leap
}

// Vanished tells whether the session has ended, by the heartbeat as read. An expired or withdrawn
// heartbeat stays stored for a while. If there is none, the bucket was emptied or lost: a living
// node beats again before its heartbeat would have expired. Since is since when nothing has come as
// far as the caller knows: when the last heartbeat that it followed was stored, or when it first
// found none. It is zero if that is now.
func (n *Node) Vanished(p Pulse, since time.Time) bool {
	switch {
	case p.Beat.Session != "":
		return false
	case !p.Stored.IsZero() || n.TTL == 0:
		return true
	}
	return !since.IsZero() && p.Now.Sub(since) >= n.TTL.Std()
}

// Account returns what the node's facts, and its heartbeat as read after them, say about the lease
// of a live attempt on the node. claimed is when the server stored the claim of the attempt, or its
// adoption. Of an unknown node only the heartbeat gives evidence. A session that beats has not ended,
// even if a slow recorder says so.
func (n *Node) Account(t *task.Task, claimed time.Time, p Pulse, lease time.Duration) task.Account {
	return n.account(t, claimed, p, lease).After(t, p.Leap)
}

func (n *Node) account(t *task.Task, claimed time.Time, p Pulse, lease time.Duration) task.Account {
	a := task.Account{Epoch: t.Epoch, Session: t.Session, Now: p.Now, Claimed: claimed, Lease: value.Duration(lease)}
	names := slices.Contains(p.Beat.Runs, t.Epoch)
	a.From = task.LeaseBy{
		Node:    n.Head,
		At:      p.Now,
		Lasts:   a.Lease,
		Beat:    p.Stored,
		Session: p.Beat.Session,
		Named:   names,
		TTL:     p.Beat.TTL,
		RanOut:  p.RanOut,
	}
	if p.Beat.Session == t.Session {
		if names {
			a.Named, a.Beats = p.Stored, cmp.Or(p.Beat.TTL, n.TTL)
		}
		return a
	}
	if n.State != Unknown {
		a.Over = n.Gone(t.Session)
	}
	if n.Session == t.Session && a.Over.After(p.Now) {
		a.Over = p.Now // it has ended; the recorder's clock is ahead
	}
	switch {
	case n.State != Unknown && n.Session != t.Session || p.Stored.IsZero():
	case p.Beat.Session != "":
		// A suspended process has overwritten the heartbeat: until then, it may have named the
		// epoch.
		a.Named, a.Beats = p.Stored, n.TTL
	case p.RanOut:
		a.Silent = p.Stored.Add(-n.TTL.Std())
	default:
		a.Silent = p.Stored
	}
	return a
}
