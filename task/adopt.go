package task

import (
	"fmt"
	"time"

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
	Node    string `json:"node,omitzero"`
	Session string `json:"session,omitzero"`
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

// adoptDuty is the duty of a live attempt that outlives its worker when the session that ran it is
// gone. The node may come back for as long as a silent worker keeps its lease. The attempt itself
// ends earlier than that, so none of its processes is left afterwards.
func adoptDuty(t Task, gone time.Time, d Duty, s Settings) Duty {
	d.Who = "scheduler"
	d.What = fmt.Sprintf("declare the attempt lost, unless the worker of node %s comes back and goes on with it: it outlives the session that ended at %s", t.Node, value.Clock(gone))
	if by := gone.Add(s.AckWait); d.Command == nil || by.Before(d.By) {
		d.By = by
	}
	d.Look = false
	d.Command = Lose{Epoch: t.Epoch, Reason: "node " + t.Node + " did not come back for it in time"}
	return d
}
