package birth

import (
	"slices"
	"strings"

	"millrace/task"
)

// What a scheduler passes on to the children of a task, as the beginning of its reason.
const (
	// ParentCancelled: a child is cancelled with its parent.
	ParentCancelled = "its parent was cancelled"
	// ParentLives: a child is reopened with its parent.
	ParentLives = "its parent has another life"
	// NeedLives: a step is reopened with those that it needs.
	NeedLives = "what it needs has another life"
)

// Asked says who asked for the latest cancel or retry of a task, and why: the scheduler that passes
// it on says so as well.
type Asked struct {
	words string // " (ann: too slow)"; "" if nobody is known, and no reason
	// Batch is the bulk command that it was part of; "" for none.
	Batch string
}

// AskedFor returns what the history of a task says about its latest cancel or retry. Scheduler is the
// actor that passes them on.
func AskedFor(history []task.Recorded, scheduler string) Asked {
	for _, r := range slices.Backward(history) {
		var why string
		switch e := r.Event.(type) {
		case task.Reopened:
			why = e.Reason
		case task.CancelRequested:
			why = e.Reason
		case task.CancelConfirmed:
			if e.Epoch > 0 {
				continue // the worker's word about a stop that somebody asked for before
			}
			why = e.Reason
		default:
			continue
		}
		a := Asked{Batch: r.Corr}
		switch by := r.Actor; {
		case by == scheduler:
			a.words = passedOn(why)
		case by != "" && why != "":
			a.words = " (" + by + ": " + why + ")"
		case by != "" || why != "":
			a.words = " (" + by + why + ")"
		}
		return a
	}
	return Asked{}
}

// passedOn returns what such a reason passes on.
func passedOn(reason string) string {
	for _, begins := range []string{ParentCancelled, ParentLives, NeedLives} {
		if words, ok := strings.CutPrefix(reason, begins); ok {
			return words
		}
	}
	return ""
}

// Because is the reason of what a scheduler passes on.
func (a *Asked) Because(words string) string { return words + a.words }
