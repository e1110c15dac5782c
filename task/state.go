package task

import (
	"fmt"
	"slices"

	"millrace/task/value"
)

// State says where a task is in its life. There are few; the reason code
// beside it ([Task.Reason]) is precise.
type State uint8

// The states of a task. A task ends in exactly one of the terminal ones.
const (
	// Unknown is the state of a task of which no fact has been seen.
	Unknown State = iota
	// Scheduled tasks wait for their due time.
	Scheduled
	// Held tasks wait for something other than time: a limit, a dependency, a node.
	Held
	// Pending tasks are offered and nobody has claimed them.
	Pending
	// Running tasks are claimed by a node under an epoch.
	Running
	// Retrying tasks have failed and wait for their next attempt.
	Retrying
	// Cancelling tasks were asked to stop and have not been seen to.
	Cancelling
	// Finished is terminal: the result was accepted.
	Finished
	// Error is terminal: the task itself failed and has no retries left.
	Error
	// Cancelled is terminal: asked to stop, and its end was seen.
	Cancelled
	// Abnormal is terminal: not the task but its surroundings ended it.
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

// Terminal tells whether nothing further happens to the task by itself.
func (s State) Terminal() bool { return s >= Finished && s < stateCount }

// ParseState is the reverse of [State.String]. The error names the states there are.
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

// UnmarshalText reads what MarshalText writes.
func (s *State) UnmarshalText(text []byte) (err error) {
	*s, err = ParseState(string(text))
	return err
}
