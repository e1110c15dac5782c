package node

import (
	"time"

	"millrace/task/value"
)

// Event is a fact about a node. The set is closed.
type Event interface{ isEvent() }

// Registered begins a session; whatever session was there before is over. After
// [Retired] it begins a new life.
type Registered struct {
	Session string `json:"session,omitzero"`
	Profile
	// Until is when the heartbeat of the session before runs out, if that does not renew
	// it; in the past if it had none, zero if that is not known.
	Until time.Time `json:"until,omitzero"`
}

// WentOnline says that a heartbeat of the session was seen over a connection
// which has not proved itself yet: the first one, or one that came back.
type WentOnline struct {
	Session    string `json:"session,omitzero"`
	Reason     string `json:"reason,omitzero"`
	Connection uint64 `json:"connection,omitzero"`
}

// BecameReady says that work reaches the node over its present connection.
type BecameReady struct {
	Session    string         `json:"session,omitzero"`
	Reason     string         `json:"reason,omitzero"`
	Connection uint64         `json:"connection,omitzero"`
	Took       value.Duration `json:"took,omitzero"`
	Kept       int            `json:"kept,omitzero"`
	Stopped    int            `json:"stopped,omitzero"`
	Low        uint64         `json:"low,omitzero"`
}

// Drained says that the session takes no new work, because it was asked to end.
type Drained struct {
	Session string `json:"session,omitzero"`
	Reason  string `json:"reason,omitzero"`
}

// WentOffline ends what can be expected of the session. Lost says that it did
// not say goodbye.
type WentOffline struct {
	Session string `json:"session,omitzero"`
	Reason  string `json:"reason,omitzero"`
	Lost    bool   `json:"lost,omitzero"`
	Low     uint64 `json:"low,omitzero"`
}

// Changed is an order of an operator, for this and all later sessions.
type Changed struct {
	Order  Order          `json:"order"`
	Reason string         `json:"reason,omitzero"`
	Grace  value.Duration `json:"grace,omitzero"`
}

// WasQuarantined keeps work from the node, until an instant at the earliest.
type WasQuarantined struct {
	Reason string    `json:"reason,omitzero"`
	Until  time.Time `json:"until,omitzero"`
}

// WasReleased ends a quarantine and forgets what led to it.
type WasReleased struct {
	Reason string `json:"reason,omitzero"`
}

// WasRetired says that the node will not come back.
type WasRetired struct {
	Reason string `json:"reason,omitzero"`
}

func (Registered) isEvent()     {}
func (WentOnline) isEvent()     {}
func (BecameReady) isEvent()    {}
func (Drained) isEvent()        {}
func (WentOffline) isEvent()    {}
func (Changed) isEvent()        {}
func (WasQuarantined) isEvent() {}
func (WasReleased) isEvent()    {}
func (WasRetired) isEvent()     {}

// Recorded is an event with its place in the log. Event is nil for a message
// that could not be understood.
type Recorded struct {
	Seq   uint64
	At    time.Time
	Actor string
	Event Event
}
