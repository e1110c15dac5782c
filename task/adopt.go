package task

import (
	"fmt"

	"millrace/task/value"
)

// Adopt reports that a new session of the node continues the attempt with this epoch. An earlier
// session left it running; it may have ended since, without a report.
type Adopt struct {
	Epoch         uint64
	Node, Session string
	PID           int
	Gap           value.Duration
}

// AttemptAdopted records that a new session of the node continues the attempt.
type AttemptAdopted struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Node    string `json:"node,omitzero" redact:"keep"`
	Session string `json:"session,omitzero" redact:"keep"`
	// PID is its process, on the node.
	PID int `json:"pid,omitzero"`
	// Gap is how long no worker attended the attempt.
	Gap value.Duration `json:"gap,omitzero"`
}

func (Adopt) isCommand()        {}
func (AttemptAdopted) isEvent() {}

func adopt(t *Task, c Adopt) (Event, error) {
	switch {
	case t.Node != c.Node:
		return nil, fmt.Errorf("%w: it is on node %s", ErrFenced, t.Node)
	case t.Session == c.Session:
		return nil, nil
	}
	return AttemptAdopted{Attempt: t.Attempt, Epoch: c.Epoch, Node: c.Node, Session: c.Session, PID: c.PID, Gap: c.Gap}, nil
}
