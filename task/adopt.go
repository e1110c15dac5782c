package task

import (
	"fmt"
	"time"

	"millrace/task/value"
)

// Adopt says that a new session of the node goes on with the attempt with this epoch,
// which an earlier one has left running, or which has ended since and was not reported.
type Adopt struct {
	Epoch         uint64
	Node, Session string
	PID           int
	Gap           value.Duration
}

// AttemptAdopted says that a new session of the node goes on with the attempt.
type AttemptAdopted struct {
	Attempt int    `json:"attempt,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"`
	Node    string `json:"node,omitzero"`
	Session string `json:"session,omitzero"`
	// PID is its process, on the node.
	PID int `json:"pid,omitzero"`
	// Gap is how long nobody attended it.
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

// adoptDuty is the duty of a live attempt that outlives its worker, since nothing is to be
// expected of the session that ran it. Its node has as long to come back as a silent
// worker keeps its lease; the attempt itself ends sooner, so nothing of it is left then.
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
