package node

import (
	"time"

	"millrace/task/value"
)

// Event is a fact about a node. The set is closed.
type Event interface{ isEvent() }

// Registered begins a session and ends any earlier one. After [Retired] it begins a new life of the
// node.
type Registered struct {
	Session string `json:"session,omitzero" redact:"keep"`
	Profile
	// Until is when the heartbeat of the earlier session expires unless that session renews it; in
	// the past if it had none, zero if unknown.
	Until time.Time `json:"until,omitzero"`
}

// WentOnline records a heartbeat of the session over a connection that has not proved itself yet:
// the first one, or one that came back.
type WentOnline struct {
	Session    string `json:"session,omitzero" redact:"keep"`
	Reason     string `json:"reason,omitzero" redact:"hide"`
	Connection uint64 `json:"connection,omitzero"`
}

// BecameReady records that work reaches the node over its present connection.
type BecameReady struct {
	Session    string         `json:"session,omitzero" redact:"keep"`
	Reason     string         `json:"reason,omitzero" redact:"hide"`
	Connection uint64         `json:"connection,omitzero"`
	Took       value.Duration `json:"took,omitzero"`
	Kept       int            `json:"kept,omitzero"`
	Stopped    int            `json:"stopped,omitzero"`
	Low        uint64         `json:"low,omitzero"`
}

// Drained records that the session takes no new work, because it was asked to end.
type Drained struct {
	Session string `json:"session,omitzero" redact:"keep"`
	Reason  string `json:"reason,omitzero" redact:"hide"`
}

// WentOffline records that the session has ended. Lost says that it ended without announcing it.
type WentOffline struct {
	Session string `json:"session,omitzero" redact:"keep"`
	Reason  string `json:"reason,omitzero" redact:"hide"`
	Lost    bool   `json:"lost,omitzero"`
	Low     uint64 `json:"low,omitzero"`
}

// Changed is an order of an operator, for this and all later sessions.
type Changed struct {
	Order  Order          `json:"order"`
	Reason string         `json:"reason,omitzero" redact:"hide"`
	Grace  value.Duration `json:"grace,omitzero"`
}

// WasQuarantined keeps work from the node, at least until an instant.
type WasQuarantined struct {
	Reason string    `json:"reason,omitzero" redact:"hide"`
	Until  time.Time `json:"until,omitzero"`
}

// WasReleased ends a quarantine and resets the score that led to it.
type WasReleased struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// WasRetired records that the node will not come back.
type WasRetired struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// Carried is all that the facts of a node say, up to the one at its Head. It is written when the log
// is about to forget some of them.
type Carried struct {
	// Fold is the sum of the facts by the clocks of their writers, and Stored by when the log stored
	// them.
	Fold   Node `json:"fold"`
	Stored Node `json:"stored"`
}

func (Carried) isEvent()        {}
func (Registered) isEvent()     {}
func (WentOnline) isEvent()     {}
func (BecameReady) isEvent()    {}
func (Drained) isEvent()        {}
func (WentOffline) isEvent()    {}
func (Changed) isEvent()        {}
func (WasQuarantined) isEvent() {}
func (WasReleased) isEvent()    {}
func (WasRetired) isEvent()     {}

// Recorded is an event with its place in the log. Event is nil for an unreadable message.
type Recorded struct {
	Seq   uint64
	At    time.Time
	Actor string
	Event Event
}
