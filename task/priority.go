package task

import (
	"hash/fnv"

	"millrace/task/placement"
)

// CancelWaiting is [Cancel] for a task only while it waits.
type CancelWaiting struct{ Reason string }

func (CancelWaiting) isCommand() {}

// Prioritize gives a waiting task another priority.
type Prioritize struct {
	Priority int
	Reason   string
}

func (Prioritize) isCommand() {}

func prioritize(t *Task, c Prioritize) (Event, error) {
	if err := placement.ValidPriority(c.Priority); err != nil {
		return nil, err
	}
	return reassign(t, Reassign{From: t.Route, To: t.Route.At(c.Priority), Reason: c.Reason})
}

// Lane is the lane in which the task waits when it is offered.
func (w *Work) Lane() placement.Lane {
	l := placement.Lane{Queue: w.Route.Queue(), Priority: w.Route.Priority()}
	if w.FairKey != "" {
		h := fnv.New32a()
		h.Write([]byte(w.FairKey))
		l.Number = int(h.Sum32()%placement.Lanes) + 1
	}
	return l
}
