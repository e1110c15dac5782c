package task

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// Taken is a step to which a function has come: as people see it.
type Taken struct {
	Step
	// Place is which step it is, from 1, and Is one of the words below.
	Place int
	Is    string
	// From is when its last try or its wait began.
	From time.Time
	// Until is when a sleep or the pause before another try ends, and how long a signal may take; zero
	// if that is over, or for ever.
	Until time.Time
	// Children are those of a call.
	Children []ID
}

// Values of [Taken.Is].
const (
	StepDone   = "done"
	StepFailed = "failed"
	StepAgain  = "failed, and is tried again"
	StepWaits  = "waits"
)

// Taken lists the steps to which the function has come, as far as the log knows: those that are done,
// then the one for which it waits.
func (d *Durable) Taken() (all []Taken) {
	if d == nil {
		return nil
	}
	for i := range d.Steps {
		k := Taken{Step: d.Steps[i], Place: i + 1, Is: StepDone, From: d.Steps[i].At.Add(-d.Steps[i].Took.Std())}
		switch {
		case k.Open:
			k.Is = StepAgain
		case k.Error != "":
			k.Is = StepFailed
		case k.Kind == StepCall:
			var ended map[string]Input
			_ = json.Unmarshal(k.Result, &ended) // else it has none
			for _, name := range slices.Sorted(maps.Keys(ended)) {
				k.Children = append(k.Children, ended[name].Task)
			}
		}
		all = append(all, k)
	}
	p := d.Parked
	if p == nil {
		return all
	}
	if n := len(all); p.Kind == StepDo && n > 0 {
		all[n-1].Until = p.Until
		return all
	}
	k := Taken{Step: Step{Name: p.Step, Kind: p.Kind}, Place: len(all) + 1, Is: StepWaits, From: p.Since, Until: p.Until}
	for _, need := range p.Of {
		k.Children = append(k.Children, need.Task)
	}
	return append(all, k)
}

// Lasted is how long the step took, or has been waited for by now.
func (k *Taken) Lasted(now time.Time) time.Duration {
	if k.Is == StepWaits {
		return max(now.Sub(k.From), 0)
	}
	return k.Took.Std()
}

// State is the state of a task that is where the step is.
func (k *Taken) State() State {
	switch k.Is {
	case StepDone:
		return Finished
	case StepFailed:
		return Error
	case StepAgain:
		return Retrying
	}
	if k.Kind == StepSleep {
		return Scheduled
	}
	return Held
}
