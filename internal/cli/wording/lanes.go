package wording

import (
	"slices"
	"strings"
	"time"

	"millrace/projections/view"
	"millrace/task"
)

// Lane is a line of a timeline: an attempt's phase, or all waits of one kind.
type Lane struct {
	Name   string
	Phases []view.Phase
}

// Took is how long its phases took together.
func (l *Lane) Took() (sum time.Duration) {
	for _, p := range l.Phases {
		sum += p.To.Sub(p.From)
	}
	return sum
}

// Lanes assigns the phases of a task to lines, in the order in which those begin.
func Lanes(phases []view.Phase) (lanes []Lane) {
	for _, p := range phases {
		name := Phase(&p)
		i := slices.IndexFunc(lanes, func(l Lane) bool { return l.Name == name })
		if i < 0 {
			i, lanes = len(lanes), append(lanes, Lane{Name: name})
		}
		lanes[i].Phases = append(lanes[i].Phases, p)
	}
	return lanes
}

// PhaseState is the state whose colour a phase has.
func PhaseState(name string) task.State {
	if strings.HasPrefix(name, StepPhase) {
		return task.Finished
	}
	switch name {
	case task.PhaseRun:
		return task.Running
	case task.PhaseStop:
		return task.Cancelling
	}
	s, _ := task.ParseState(name) // a setup is none
	return s
}
