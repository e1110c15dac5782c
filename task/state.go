package task

import (
	"fmt"
	"slices"

	"millrace/task/value"
)

// State is where a task is in its life. There are few states; the reason code beside the state
// ([Task.Reason]) is precise.
type State uint8

// The states of a task. A task ends in exactly one of the terminal ones.
const (
	// Unknown is the state of a task without a known fact.
	Unknown State = iota
	// Scheduled tasks wait for their due time.
	Scheduled
	// Held tasks wait for something other than time: a limit, a dependency, a node.
	Held
	// Pending tasks are offered and not yet claimed.
	Pending
	// Running tasks are claimed by a node under an epoch.
	Running
	// Retrying tasks have failed and wait for their next attempt.
	Retrying
	// Cancelling tasks were asked to stop, and their end is not confirmed yet.
	Cancelling
	// Finished is terminal: the result was accepted.
	Finished
	// Error is terminal: the task itself failed and has no retries left.
	Error
	// Cancelled is terminal: the task was asked to stop, and its end is confirmed.
	Cancelled
	// Abnormal is terminal: the task's surroundings ended it, not the task itself.
	Abnormal

	stateCount
)

var stateNames [stateCount]string = value.StateNames

// String returns the state's name as the log, the command line and the API spell it.
func (s State) String() string {
	if s < stateCount {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// Terminal tells whether the task has ended: it changes only if it is reopened.
func (s State) Terminal() bool { return s >= Finished && s < stateCount }

// Failed tells whether a task in that state has failed: by itself, or by its surroundings.
func (s State) Failed() bool { return s == Error || s == Abnormal }

// ParseState is the reverse of [State.String]. The error lists the valid names.
func ParseState(name string) (State, error) {
	if err := value.ValidState(name); err != nil {
		return Unknown, err
	}
	return State(slices.Index(stateNames[:], name)), nil
}

// States lists all states but [Unknown], in the order of a task's life.
func States() []State {
	all := make([]State, 0, stateCount-1)
	for s := Scheduled; s < stateCount; s++ {
		all = append(all, s)
	}
	return all
}

// MarshalText spells the state by name, so JSON shows words.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the form that MarshalText writes.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}
