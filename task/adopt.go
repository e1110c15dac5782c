package task

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task/value"
)

// What becomes of an attempt whose worker ends before it.
const (
	// RestartStop ends it: it is given back, or lost, and starts anew.
	RestartStop = "stop"
	// RestartAdopt leaves it running, and the next worker of the node goes on with it if
	// that comes in time. Else it is stopped before anybody else can have started the task.
	RestartAdopt = "adopt"
)

// Restarts lists the values of [Spec.OnRestart].
var Restarts = []string{RestartStop, RestartAdopt}

// Adopts tells whether an attempt outlives its worker. A spec that is not known does not.
func (s *Spec) Adopts() bool { return s != nil && s.OnRestart == RestartAdopt && s.Run != nil }

func (s *Spec) validateRestart() error {
	switch {
	case s.OnRestart == "" || s.OnRestart == RestartStop:
		return nil
	case !slices.Contains(Restarts, s.OnRestart):
		return fmt.Errorf("on_restart is %q, want %s or %s", s.OnRestart, RestartStop, RestartAdopt)
	case s.Run == nil:
		return errors.New("on_restart: adopt is for commands: a handler ends with the program that it is part of")
	case s.Continues():
		return errors.New("on_restart: adopt and on_disconnect: continue are both set; choose one: what nobody attends cannot go on without an end")
	case s.Files != nil && s.Files.Mode == FilesShared:
		return errors.New("on_restart: adopt needs files of its own, which no other worker removes: set files.mode to copy or link")
	}
	return nil
}

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
