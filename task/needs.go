package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/job"
	"millrace/task/reason"
)

// Needs are the tasks that have to end before another one may run.
type Needs struct {
	// Rule says how many of them have to end as they are meant to. Default [job.NeedAll].
	Rule string `json:"rule,omitempty"`
	// Of are those tasks, 1 to [job.MaxNeeds].
	Of []Need `json:"of"`
}

// Need is a task that another one waits for.
type Need struct {
	Task ID `json:"task"`
	// Name is what the other one calls it, for example its step. Default: its id.
	Name string `json:"name,omitempty"`
	// When is how it is meant to end. Default [job.WhenSuccess].
	When string `json:"when,omitempty"`
}

// EndsAs tells whether an end in this state, with this reason code, is what when describes.
func EndsAs(when string, state State, reason string) bool {
	skipped := End{State: state, Reason: reason}.skipped()
	failure := state == Error || state == Abnormal
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

// Verdict is what follows for a task from the ends of those it needs.
type Verdict uint8

// The verdicts.
const (
	NotYet Verdict = iota // some have not ended, and their ends matter
	Met                   // it may run
	Never                 // it will never run, unless one of them gets another life
)

// End is how far a needed task has come. The zero value is a task of which nothing is known.
type End struct {
	State State
	// Reason is the code beside the state.
	Reason string
	// Message says in words why the task failed; "" for one that did not.
	Message string
}

// EndOf is how far a task has come.
func EndOf(t *Task) End {
	e := End{State: t.State, Reason: t.Reason}
	if e.failed() {
		e.Message = t.Message
	}
	return e
}

// failed tells whether it is that of a task that ended in error or abnormal.
func (e End) failed() bool { return e.State == Error || e.State == Abnormal }

// skipped tells whether it is that of a task that never got what it needs.
func (e End) skipped() bool { return e.State == Cancelled && e.Reason == reason.Skipped }

// Judge says whether the needs are met, given the ends of the tasks in Of, in their
// order. The text says why, in words.
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
		case EndsAs(need.When, e.State, e.Reason):
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

// String is what is needed, in words.
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

// String is the end as a reader knows it: error/exit, cancelled.
func (e End) String() string {
	if e.Reason == "" {
		return e.State.String()
	}
	return e.State.String() + "/" + e.Reason
}

// Validate says which field is wrong.
func (n *Needs) Validate() error {
	switch {
	case len(n.Of) == 0:
		return errors.New("needs: no task is named")
	case len(n.Of) > job.MaxNeeds:
		return fmt.Errorf("needs: %d tasks, want at most %d; to wait for more, need their parent", len(n.Of), job.MaxNeeds)
	case n.Rule != "" && !slices.Contains(job.NeedRules, n.Rule):
		return fmt.Errorf("needs.rule is %q, want one of %v", n.Rule, job.NeedRules)
	}
	for i, need := range n.Of {
		if _, err := ParseID(string(need.Task)); err != nil {
			return fmt.Errorf("needs: %w", err)
		}
		if need.When != "" && !slices.Contains(job.Whens, need.When) {
			return fmt.Errorf("needs: when is %q, want one of %v", need.When, job.Whens)
		}
		if slices.ContainsFunc(n.Of[:i], func(o Need) bool { return o.Task == need.Task }) {
			return fmt.Errorf("needs: task %s is named twice", need.Task)
		}
	}
	return nil
}

// Follow is what a task is to become that is held by what it needs, now that those have come so far, in their
// order: it may run ([Unhold]), or never will ([Skip]); nil while ends matter that have not come.
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

// Input is what a task is told of one that it needed.
type Input struct {
	Task   ID              `json:"task"`
	State  State           `json:"state"`
	Reason string          `json:"reason,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
	// Seq is the last message that is known of it, 0 if nothing is. It is not told.
	Seq uint64 `json:"-"`
}

// InputOf is what to tell of a task.
func InputOf(t *Task) Input {
	return Input{Task: t.ID, State: t.State, Reason: t.Reason, Result: t.Result, Seq: t.Seq}
}

// Inputs is what to tell a task of those that it needed, as one JSON object with a
// member for each, by name. Ended are those tasks in the order of Of.
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
	inputs, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	return inputs, nil
}
