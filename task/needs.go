package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/job"
	"millrace/task/value"
)

// Needs are the tasks that must end before another may run.
type Needs struct {
	// Rule says how many of them must end as required. Default [job.NeedAll].
	Rule string `json:"rule,omitempty" redact:"word"`
	// Of are these tasks, 1 to [job.MaxNeeds].
	Of []Need `json:"of"`
}

// Need is a task for which another one waits.
type Need struct {
	// Task is the needed one.
	Task ID `json:"task" redact:"keep"`
	// Name is the needing task's name for it, for example its step. Default: its id.
	Name string `json:"name,omitempty" redact:"keep"`
	// When is the required end. Default [job.WhenSuccess].
	When string `json:"when,omitempty" redact:"word"`
}

// endsAs tells whether an end in this state with this reason code meets the condition when.
func endsAs(when string, state State, reason string) bool {
	skipped := End{State: state, Reason: reason}.Skipped()
	failure := state.Failed()
	cancel := state == Cancelled && !skipped
	switch when {
	case "", job.WhenSuccess:
		return state == Finished
	case job.WhenFailure:
		return failure
	case job.WhenCancel:
		return cancel
	case job.WhenTrouble:
		return failure || cancel
	}
	return state.Terminal()
}

// Verdict is the consequence for a task of the ends of its needs.
type Verdict uint8

// The verdicts.
const (
	NotYet Verdict = iota // some have not ended, and their ends matter
	Met                   // it may run
	Never                 // it will never run, unless one of them is reopened
)

// End is the progress of a needed task. The zero value is a task without known facts.
type End struct {
	State State
	// Reason is the code beside the state.
	Reason string
	// Message says in words why the task failed; "" if it did not.
	Message string
	// Seq is [Task.EndSeq], and Life [Task.Life]. Both may be 0 of a task that finished or is open:
	// most decisions need neither.
	Seq, Life uint64
}

// EndOf returns the progress of a task.
func EndOf(t *Task) End {
	e := End{State: t.State, Reason: t.Reason, Seq: t.EndSeq, Life: t.Life}
	if e.Failed() {
		e.Message = t.Message
	}
	return e
}

// Failed tells whether the task ended in error or abnormal.
func (e End) Failed() bool { return e.State.Failed() }

// Skipped tells whether the task was skipped because its needs could not be met.
func (e End) Skipped() bool { return e.State == Cancelled && e.Reason == value.Skipped }

// Judge says whether the needs are met, given the ends of the tasks in Of, in their order. The text
// explains it.
func (n *Needs) Judge(ends []End) (Verdict, string) {
	open, meant := 0, 0
	for i, need := range n.Of {
		var e End
		if i < len(ends) {
			e = ends[i]
		}
		switch {
		case !e.State.Terminal():
			open++
		case endsAs(need.When, e.State, e.Reason):
			meant++
		case n.Rule == "" || n.Rule == job.NeedAll:
			return Never, fmt.Sprintf("%s ended as %s, and its %s is needed", need.name(), e, need.when())
		}
	}
	switch {
	case open > 0:
		return NotYet, fmt.Sprintf("%d of the %d tasks that it needs have not ended", open, len(n.Of))
	case n.Rule == job.NeedAny && meant == 0:
		return Never, fmt.Sprintf("none of the %d tasks that it needs ended in %s", len(n.Of), n.Of[0].when())
	case n.Rule == job.NeedNone && meant > 0:
		return Never, fmt.Sprintf("%d of the tasks that it needs ended in %s", meant, n.Of[0].when())
	}
	return Met, "all that it needs has ended"
}

// String describes the needs in words.
func (n *Needs) String() string {
	const shown = 5
	var parts []string
	for _, need := range n.Of[:min(len(n.Of), shown)] {
		parts = append(parts, need.name()+" ("+need.when()+")")
	}
	if more := len(n.Of) - shown; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	rule := n.Rule
	if rule == "" {
		rule = job.NeedAll
	}
	return rule + " of " + strings.Join(parts, ", ")
}

func (n Need) name() string {
	if n.Name != "" {
		return n.Name
	}
	return string(n.Task)
}

func (n Need) when() string {
	if n.When == "" {
		return job.WhenSuccess
	}
	return n.When
}

// String is the end for display: error/exit, cancelled.
func (e End) String() string {
	if e.Reason == "" {
		return e.State.String()
	}
	return e.State.String() + "/" + e.Reason
}

// Validate names the first invalid field.
func (n *Needs) Validate() error {
	switch {
	case len(n.Of) == 0:
		return errors.New("needs: no task is named")
	case len(n.Of) > job.MaxNeeds:
		return fmt.Errorf("needs: %d tasks, want at most %d; to wait for more, need their parent", len(n.Of), job.MaxNeeds)
	case n.Rule != "" && !slices.Contains(job.NeedRules, n.Rule):
		return fmt.Errorf("needs.rule is %q, want one of %s", n.Rule, value.List(job.NeedRules))
	}
	for i, need := range n.Of {
		if _, err := ParseID(string(need.Task)); err != nil {
			return fmt.Errorf("needs: %w", err)
		}
		if need.When != "" && !slices.Contains(job.Whens, need.When) {
			return fmt.Errorf("needs: when is %q, want one of %s", need.When, value.List(job.Whens))
		}
		if slices.ContainsFunc(n.Of[:i], func(o Need) bool { return o.Task == need.Task }) {
			return fmt.Errorf("needs: task %s is named twice", need.Task)
		}
	}
	return nil
}

// Follow returns the command for a task that is held by its needs, given their progress in the
// order of Of: [Unhold] if it may run, [Skip] if it never will, nil while it depends on ends that
// have not come.
func (n *Needs) Follow(known []Input) (Command, error) {
	ends, seen := make([]End, len(known)), make([]uint64, len(known))
	for i := range known {
		ends[i], seen[i] = End{State: known[i].State, Reason: known[i].Reason}, known[i].Seq
	}
	switch verdict, why := n.Judge(ends); verdict {
	case NotYet:
		return nil, nil
	case Never:
		return Skip{Reason: why, Ends: seen}, nil
	default:
		inputs, err := n.Inputs(known)
		return Unhold{Hold: HoldNeeds, Reason: why, Inputs: inputs, Ends: seen}, err
	}
}

// Input is what a task is told about one that it needed.
type Input struct {
	Task   ID              `json:"task"`
	State  State           `json:"state"`
	Reason string          `json:"reason,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Detail is what a handler is told besides; nil for other tasks.
	*Detail
	// Seq is the last known message of that task, 0 if there is none. The task does not see it.
	Seq uint64 `json:"-"`
}

// Detail is how a task went whose end a handler handles, in the words of notices.
type Detail struct {
	// Exit is the exit code of its program, Attempts how many it had, and Cause why it failed, in words.
	Exit     *int   `json:"exit,omitempty"`
	Attempts int    `json:"attempts,omitempty"`
	Cause    string `json:"cause,omitempty"`
	// Lines are the last that it printed, and Link leads to it on the pages, as far as a server could tell.
	Lines []string `json:"lines,omitempty"`
	Link  string   `json:"link,omitempty"`
}

// mostCause is how many bytes a handler is told of why a task failed.
const mostCause = 600

// DetailOf returns what a handler is told of a task that has ended.
func DetailOf(t *Task) *Detail {
	return &Detail{Exit: t.Exit, Attempts: t.Attempt, Cause: value.Cut(EndOf(t).Message, mostCause)}
}

// InputOf makes the input from a needed task.
func InputOf(t *Task) Input {
	return Input{Task: t.ID, State: t.State, Reason: t.Reason, Result: t.Result, Seq: t.Seq}
}

// Inputs returns the inputs as one JSON object with a member per needed task, by name. Ended are
// those tasks in the order of Of.
func (n *Needs) Inputs(ended []Input) (json.RawMessage, error) {
	all := make(map[string]Input, len(n.Of))
	total := 0
	var names []string
	for i, need := range n.Of {
		in := ended[i]
		in.Task = need.Task
		all[need.name()] = in
		names, total = append(names, need.name()), total+len(in.Result)
	}
	slices.SortStableFunc(names, func(a, b string) int { return len(all[b].Result) - len(all[a].Result) })
	for _, name := range names {
		if total <= job.MaxInputs {
			break
		}
		in := all[name]
		total -= len(in.Result)
		in.Result = nil
		all[name] = in
	}
	inputs, err := value.JSON(all)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return inputs, nil
}
