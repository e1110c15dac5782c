package birth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// ChildID returns the id of a task's child with a name. It is always the same, so asking for it
// twice makes one task. It lies in the parent's millisecond.
func ChildID(parent task.ID, name string) task.ID {
	return task.DerivedID(parent, string(parent)+"\x00"+name)
}

// ChildIDs returns the ids of all children of a parent, by name.
func ChildIDs(t *task.Task) map[string]task.ID {
	ids := map[string]task.ID{}
	if t.Children != nil {
		for _, name := range t.Children.Names {
			ids[name] = ChildID(t.ID, name)
		}
	}
	return ids
}

// Births returns the births of a parent's children, by their names, which must exist.
func Births(parent *task.Task) func(name string) task.Submitted {
	switch {
	case parent.Spec.Each != nil:
		return itemChildren(parent)
	case len(parent.Spec.Steps) > 0:
		return func(name string) task.Submitted { return stepChild(parent, name) }
	}
	return func(name string) task.Submitted { return nodeChild(parent, name) }
}

// nodeChild is the birth of the child for a node.
func nodeChild(parent *task.Task, name string) task.Submitted {
	spec := *parent.Spec
	place := job.Place{Nodes: append([]string{name}, spares(parent.Children, name)...), NoNode: spec.Place.NoNode, Queue: spec.Place.Queue}
	spec.Place = place
	spec.Signal, spec.Unique, spec.Timeout.Total = nil, job.Unique{}, 0 // those the parent has
	w := parent.Work
	w.Asked = nil
	w.EndBy = time.Time{}
	w.Spec, w.Parent, w.Needs = &spec, parent.ID, nil // the parent has waited for its needs
	w.Step = stepBelow(&parent.Work, name)
	w.Holds = w.FirstHolds()
	w.Route = placement.NodeRoute(name, parent.Route.Priority()) // it moves to a spare only if that node takes no work
	return task.Submitted{Work: w, Due: parent.Due}
}

// stepBelow is the path of the child with this name.
func stepBelow(w *task.Work, name string) string {
	if w.Step == "" {
		return name
	}
	return w.Step + "/" + name
}

// spares returns the spare nodes in the order in which a child tries them. Each child begins with
// another node, so that two children that must move do not both choose the same.
func spares(c *task.Children, name string) []string {
	n := len(c.Spares)
	if n == 0 {
		return nil
	}
	from := max(slices.Index(c.Names, name), 0) % n
	all := append(slices.Clone(c.Spares[from:]), c.Spares[:from]...)
	return all[:min(n, job.MaxPlaceNodes-1)]
}

// Progress counts children.
type Progress struct {
	// States counts the children by state, without skipped ones. A child not seen yet is [task.Unknown].
	States map[task.State]int
	// Skipped counts children whose needs could not be met.
	Skipped int
}

// Ended is how many have ended.
func (p Progress) Ended() int {
	n := p.Skipped
	for s, count := range p.States {
		if s.Terminal() {
			n += count
		}
	}
	return n
}

// Total is how many there are.
func (p Progress) Total() int {
	n := p.Skipped
	for _, count := range p.States {
		n += count
	}
	return n
}

// String is the progress in words: "3 of 5 have ended: 2 finished, 1 error, 2 running".
func (p Progress) String() string {
	var parts []string
	for _, s := range append([]task.State{task.Finished, task.Error, task.Cancelled, task.Abnormal, task.Running, task.Cancelling, task.Pending, task.Retrying, task.Scheduled, task.Held}, task.Unknown) {
		if p.States[s] > 0 {
			name := s.String()
			if s == task.Unknown {
				name = "not seen yet"
			}
			parts = append(parts, fmt.Sprintf("%d %s", p.States[s], name))
		}
	}
	if p.Skipped > 0 {
		parts = append(parts, fmt.Sprintf("%d skipped", p.Skipped))
	}
	text := fmt.Sprintf("%d of %d have ended", p.Ended(), p.Total())
	if len(parts) > 0 {
		text += ": " + strings.Join(parts, ", ")
	}
	return text
}

// Result is the progress as the result of a parent: {"error":1,"finished":2}.
func (p Progress) Result() json.RawMessage {
	counts := map[string]int{}
	for s, n := range p.States {
		if n > 0 {
			counts[s.String()] = n
		}
	}
	if p.Skipped > 0 {
		counts["skipped"] = p.Skipped
	}
	b, _ := json.Marshal(counts) // a map of numbers always marshals
	return b
}

// Follow returns the next command for a parent, given the progress of its children; false if
// nothing changes. A child that has not been seen is missing in ends. A skipped child is neither a
// failure nor a success. A parent does not end while it owes a child another life ([Owed]).
func Follow(t *task.Task, ends map[task.ID]task.End) (task.Command, bool) {
	switch {
	case t.State.Terminal():
		return nil, false
	case t.Children == nil && t.State == task.Cancelling:
		return task.Conclude{State: task.Cancelled, Reason: value.User, Message: "it was cancelled before it had children"}, true
	case t.Children == nil:
		return nil, false
	}
	if reason, why := t.Childless(); why != "" {
		return task.GiveUp{Reason: reason, Detail: why}, true
	}
	if len(Owed(t, ends)) > 0 {
		return nil, false
	}
	p := ProgressOf(t, ends)
	open := t.Spec.Includes() && p.Total() == 0 && t.State == task.Running
	if p.Ended() < p.Total() || open {
		return nil, false
	}
	c := task.Conclude{State: task.Finished, Message: failures(t, ends) + p.String(), Result: p.Result()}
	switch {
	case ranOut(t) && p.States[task.Finished]+p.Skipped < p.Total():
		c.State, c.Reason, c.Message = task.Error, value.Timeout, t.TotalWords()+"; "+c.Message
	case t.State == task.Cancelling && p.States[task.Finished]+p.Skipped < p.Total() || t.State == task.Cancelling && p.Total() == 0:
		c.State, c.Reason = task.Cancelled, value.User
	case p.States[task.Error]+p.States[task.Abnormal] > 0:
		c.State, c.Reason = task.Error, value.Task
	case p.States[task.Cancelled] > 0:
		c.State, c.Reason = task.Cancelled, value.User
	}
	return c, true
}

// Wants tells whether a parent needs action, given the progress of its children: to find, make,
// stop or reopen children, or to end or reopen the parent.
func Wants(t *task.Task, ends map[task.ID]task.End) bool {
	if !t.Spec.Parental() || t.Waiting() {
		return false
	}
	if t.State.Terminal() {
		_, again := Revive(t, ends)
		return again
	}
	if _, follows := Follow(t, ends); follows || t.Children == nil || len(Wanting(t, ends)) > 0 {
		return true
	}
	if t.State != task.Cancelling {
		return len(Reopens(t, ends)) > 0
	}
	return slices.ContainsFunc(Stops(t), func(name string) bool {
		e := ends[ChildID(t.ID, name)]
		return !e.State.Terminal() && e.State != task.Cancelling
	})
}

// Unborn adds the unseen children to ends as cancelled, because none of them would be made.
func Unborn(t *task.Task, ends map[task.ID]task.End) {
	for _, name := range Wanting(t, ends) {
		ends[ChildID(t.ID, name)] = task.End{State: task.Cancelled}
	}
}

// Concluding returns the end of a parent, completed with the results of its children. If another
// task has the id of one of them, the parent has failed, and rule says so. The children must be as
// they were when c was decided.
func Concluding(t *task.Task, c task.Conclude, children []task.Task) (end task.Conclude, rule string) {
	if name, _, field := Strange(t, children); name != "" {
		c = Estranged(t, c, name, field)
		return c, task.RuleStranger
	}
	if _, own := OwnChildren(t); own {
		c.Result = Gather(t, children)
	}
	return c, ""
}

// Estranged is the end of a parent when another task has the id of one of its children.
func Estranged(t *task.Task, c task.Conclude, name, field string) task.Conclude {
	c.State, c.Reason = task.Error, value.System
	c.Message = fmt.Sprintf("task %s has the id of child %q, and this task has not made it: %s differs", ChildID(t.ID, name), name, field)
	return c
}

// Bounds of the text about failed children in the end of a parent.
const (
	namedFailures = 3
	failureWords  = 240 // bytes of each message
)

// failures names the children that failed, with their messages, and ends with "; " if there are any.
func failures(t *task.Task, ends map[task.ID]task.End) string {
	var parts []string
	more := 0
	for _, name := range t.Children.Names {
		e := ends[ChildID(t.ID, name)]
		switch {
		case !e.Failed():
		case len(parts) == namedFailures:
			more++
		default:
			parts = append(parts, name+" failed ("+wordsOf(e)+")")
		}
	}
	if more > 0 {
		parts = append(parts, fmt.Sprintf("and so did %d more", more))
	}
	if len(parts) == 0 {
		return ""
	}
	return strings.Join(parts, ", ") + "; "
}

// wordsOf are the state, its reason and the beginning of the message.
func wordsOf(e task.End) string {
	text := e.State.String()
	if e.Reason != "" {
		text += "/" + e.Reason
	}
	if e.Message != "" {
		words, _ := FailureWords(e.Message)
		text += ": " + words
	}
	return text
}

// FailureWords returns what the end of a parent keeps of a failed child's message, and whether more
// was cut off.
func FailureWords(message string) (words string, more bool) {
	return value.Cut(message, failureWords), len(message) > failureWords
}

// Strange names a child that the parent has not made: another task has its id. The children are in
// their present state; only their births matter.
func Strange(t *task.Task, children []task.Task) (name string, id task.ID, field string) {
	known := make(map[task.ID]*task.Task, len(children))
	for i := range children {
		known[children[i].ID] = &children[i]
	}
	births := Births(t)
	for _, name := range t.Children.Names {
		child := known[ChildID(t.ID, name)]
		if child == nil {
			continue
		}
		is, made := task.Submitted{Work: child.Work}, births(name)
		for _, w := range []*task.Work{&is.Work, &made.Work} { // these fields change after birth
			w.Route, w.Holds, w.Inputs = "", nil, nil
		}
		made.Due = time.Time{}
		if field := is.Differs(&made); field != "" {
			return name, child.ID, field
		}
	}
	return "", "", ""
}

// ProgressOf counts the children of a parent.
func ProgressOf(t *task.Task, ends map[task.ID]task.End) Progress {
	p := Progress{States: map[task.State]int{}}
	if t.Children == nil {
		return p
	}
	if _, why := t.Childless(); why != "" {
		return p
	}
	for _, name := range t.Children.Names {
		if e := ends[ChildID(t.ID, name)]; e.Skipped() {
			p.Skipped++
		} else {
			p.States[e.State]++
		}
	}
	return p
}

// Wanting returns the names of the children that have not been seen.
func Wanting(t *task.Task, ends map[task.ID]task.End) []string {
	if t.Children == nil || t.State.Terminal() {
		return nil
	}
	if _, why := t.Childless(); why != "" {
		return nil
	}
	var names []string
	for _, name := range t.Children.Names {
		if _, seen := ends[ChildID(t.ID, name)]; !seen {
			names = append(names, name)
		}
	}
	return names
}

// Stops returns the names of the children to stop when the parent is cancelled: all but the
// handlers of the cancel and of the end. Children that wait for others come first, so that they are
// cancelled rather than skipped.
func Stops(t *task.Task) []string {
	if t.Children == nil {
		return nil
	}
	names := slices.DeleteFunc(slices.Clone(t.Children.Names), t.Spec.Survives)
	if t.Spec.Stepped() {
		depth := t.Spec.Depths()
		slices.SortStableFunc(names, func(a, b string) int { return depth[b] - depth[a] })
	}
	return names
}

// Unmade tells whether missing children need not be made because the parent is being cancelled.
func Unmade(t *task.Task) bool { return t.State == task.Cancelling && !t.Spec.Outlives() }

// ranOut tells whether a parent was cancelled because of its total timeout.
func ranOut(t *task.Task) bool { return t.State == task.Cancelling && t.TooLong(t.Since) }
