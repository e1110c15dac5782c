package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// Children are the tasks into which a parent was expanded. Their ids follow from the parent's id
// and their names ([birth.ChildID]). Any component that knows the parent can therefore make missing
// children, and none can be made twice.
type Children struct {
	// AtSeq is the log sequence at which the nodes were read; 0 if they do not matter.
	AtSeq uint64 `json:"at_seq"`
	// Names are the names of the children, in order: the node of a child on a node, the step's
	// name, or the index of a list's value, from 0.
	Names []string `json:"names" redact:"keep"`
	// Spares are matching nodes without a child of their own. A child whose node takes no new work
	// moves to one of them.
	Spares []string `json:"spares,omitempty" redact:"keep"`
}

// Expanded adds children to a parent.
type Expanded struct {
	Children `json:"children"`
}

// Concluded ends a parent with its children.
type Concluded struct {
	// State is the terminal state that follows from theirs.
	State State `json:"state"`
	// Reason is a code and Message words.
	Reason  string `json:"reason,omitzero" redact:"word"`
	Message string `json:"message,omitzero" redact:"hide"`
	// Result is built from the children's results, as JSON: for several nodes, how many children
	// reached each state; else the value of [birth.Gather].
	Result json.RawMessage `json:"result,omitzero" form:"null" redact:"drop"`
}

// Expand gives a parent its children. It can add more only if the parent includes nodes that come
// later.
type Expand struct{ Children }

// Conclude ends a parent with the values that [birth.Follow] found.
type Conclude struct {
	State           State
	Reason, Message string
	Result          json.RawMessage
}

func (Expanded) isEvent()   {}
func (Concluded) isEvent()  {}
func (Expand) isCommand()   {}
func (Conclude) isCommand() {}

// ErrNoParent refuses commands that only a parent accepts.
var ErrNoParent = errors.New("the task has no children")

// What describes the task in a few words: its job and step, such as "etl/transform", or its command
// behind its step, such as "w1: uname -a".
func (w *Work) What() string {
	switch {
	case w.Job == "" && w.Step == "":
		return w.Spec.Text()
	case w.Job == "":
		return w.Step + ": " + w.Spec.Text()
	case w.Step == "":
		return w.Job
	}
	return w.Job + "/" + w.Step
}

// Childless says why an expanded parent has no children at all, as a code and in words; "" if it may
// have them.
func (t *Task) Childless() (code, why string) {
	switch {
	case t.Spec == nil || t.Children == nil:
		return "", ""
	case t.Spec.Each != nil:
		if len(t.Children.Names) > 0 {
			return "", ""
		}
		if _, err := t.Spec.Each.Items(t.Params, t.Inputs); err != nil {
			return value.User, err.Error()
		}
		return "", ""
	case len(t.Spec.Steps) > 0:
		return "", ""
	}
	p := &t.Spec.Place
	found := len(t.Children.Names)
	switch {
	case p.Count > found:
		return value.Unplaced, fmt.Sprintf("%d nodes are wanted, and at sequence %d there were %d that match and take work", p.Count, t.Children.AtSeq, found)
	case found == 0 && p.Late != job.LateInclude:
		return value.Unplaced, fmt.Sprintf("at sequence %d no node that matches took work", t.Children.AtSeq)
	}
	return "", ""
}

// expand decides which children are new.
func expand(t *Task, c Expand) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case !t.Spec.Parental():
		return nil, ErrNoParent
	case t.State == Cancelling:
		return nil, nil
	case t.Children == nil:
		if len(c.Names) > job.MaxChildren {
			return nil, fmt.Errorf("%d children, want at most %d", len(c.Names), job.MaxChildren)
		}
		return Expanded(c), nil
	case !t.Spec.Includes():
		return nil, nil // another scheduler has expanded it
	}
	c.Names = slices.DeleteFunc(slices.Clone(c.Names), func(name string) bool { return slices.Contains(t.Children.Names, name) })
	if len(c.Names) == 0 || len(t.Children.Names)+len(c.Names) > job.MaxChildren {
		return nil, nil
	}
	return Expanded(c), nil
}

// expanded adds children. It copies the list first, because another task value may share it.
func (t *Task) expanded(e Expanded) {
	if !t.Live() || t.Epoch != 0 {
		return
	}
	now := Children{AtSeq: e.AtSeq, Names: slices.Clone(e.Names), Spares: e.Spares}
	if t.Children != nil {
		now = *t.Children
		now.Names = slices.Clone(now.Names)
		for _, name := range e.Names {
			if !slices.Contains(now.Names, name) {
				now.Names = append(now.Names, name)
			}
		}
	}
	t.Children = &now
}

// bear begins the life of a parent.
func (t *Task) bear(r Recorded) {
	t.enter(Running, "", "", r)
	t.StartedAt, t.EndedAt, t.CancelBy = r.At, time.Time{}, time.Time{}
}

// ItemParam is the parameter in which a child finds its value of the list.
const ItemParam = "item"

// ParamsObject returns the parameters as a program gets them: an object, {} if there are none.
func (w *Work) ParamsObject() json.RawMessage {
	if len(w.Params) == 0 {
		return json.RawMessage("{}")
	}
	return w.Params
}

// Item returns the value of the parent's list for which this child task runs: the text of a string,
// or the JSON of any other value.
func (w *Work) Item() (string, bool) {
	if w.Parent == "" || len(w.Params) == 0 {
		return "", false
	}
	var params map[string]json.RawMessage
	if json.Unmarshal(w.Params, &params) != nil {
		return "", false
	}
	item, ok := params[ItemParam]
	var text string
	if json.Unmarshal(item, &text) == nil {
		return text, ok
	}
	return string(value.Legible(item)), ok
}
