package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"millrace/task/job"
	"millrace/task/reason"
	"millrace/task/where"
)

// Children are the tasks into which a parent was expanded. Their ids follow from the parent's id
// and their names ([ChildID]). Any component that knows the parent can therefore make missing
// children, and none can be made twice.
type Children struct {
	// AtSeq is the log sequence at which the nodes were read; 0 if they do not matter.
	AtSeq uint64 `json:"at_seq"`
	// Names are the names of the children, in order: the node of a child on a node, the step's
	// name, or the index of a list's value, from 0.
	Names []string `json:"names"`
	// Spares are matching nodes without a child of their own. A child whose node takes no new work
	// moves to one of them.
	Spares []string `json:"spares,omitempty"`
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
	Reason  string `json:"reason,omitzero"`
	Message string `json:"message,omitzero"`
	// Result is built from the children's results, as JSON: for several nodes, how many children
	// reached each state; else the value of [Gather].
	Result json.RawMessage `json:"result,omitzero" form:"null"`
}

// Expand gives a parent its children. It can add more only if the parent includes nodes that come
// later.
type Expand struct{ Children }

// Conclude ends a parent with the values that [Follow] found.
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

// ChildID returns the id of a task's child with a name. It is always the same, so asking for it
// twice makes one task. It lies in the parent's millisecond.
func ChildID(parent ID, name string) ID { return DerivedID(parent, string(parent)+"\x00"+name) }

// ChildIDs returns the ids of all children of a parent, by name.
func ChildIDs(t *Task) map[string]ID {
	ids := map[string]ID{}
	if t.Children != nil {
		for _, name := range t.Children.Names {
			ids[name] = ChildID(t.ID, name)
		}
	}
	return ids
}

// Child is the birth of the parent's child with this name, which must exist.
func Child(parent *Task, name string) Submitted { return Births(parent)(name) }

// Births returns [Child] for many children of one parent.
func Births(parent *Task) func(name string) Submitted {
	switch {
	case parent.Spec.Each != nil:
		return itemChildren(parent)
	case len(parent.Spec.Steps) > 0:
		return func(name string) Submitted { return stepChild(parent, name) }
	}
	return func(name string) Submitted { return nodeChild(parent, name) }
}

// nodeChild is the birth of the child for a node.
func nodeChild(parent *Task, name string) Submitted {
	spec := *parent.Spec
	place := job.Place{Nodes: append([]string{name}, spares(parent.Children, name)...), NoNode: spec.Place.NoNode, Queue: spec.Place.Queue}
	spec.Place = place
	spec.Signal, spec.Unique, spec.Timeout.Total = nil, job.Unique{}, 0 // those the parent has
	w := parent.Work
	w.Asked = nil
	w.EndBy = time.Time{}
	w.Spec, w.Parent, w.Needs = &spec, parent.ID, nil // the parent has waited for its needs
	w.Step = parent.stepBelow(name)
	w.Holds = w.holds()
	w.Route = where.NodeRoute(name, parent.Route.Priority()) // it moves to a spare only if that node takes no work
	return Submitted{Work: w, Due: parent.Due}
}

// stepBelow is the path of the child with this name.
func (w *Work) stepBelow(name string) string {
	if w.Step == "" {
		return name
	}
	return w.Step + "/" + name
}

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

// spares returns the spare nodes in the order in which a child tries them. Each child begins with
// another node, so that two children that must move do not both choose the same.
func spares(c *Children, name string) []string {
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
	// States counts the children by state, without skipped ones. A child not seen yet is [Unknown].
	States map[State]int
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
	for _, s := range append([]State{Finished, Error, Cancelled, Abnormal, Running, Cancelling, Pending, Retrying, Scheduled, Held}, Unknown) {
		if p.States[s] > 0 {
			name := s.String()
			if s == Unknown {
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
// failure nor a success.
func Follow(t *Task, ends map[ID]End) (Command, bool) {
	switch {
	case t.State.Terminal():
		return nil, false
	case t.Children == nil && t.State == Cancelling:
		return Conclude{State: Cancelled, Reason: reason.User, Message: "it was cancelled before it had children"}, true
	case t.Children == nil:
		return nil, false
	}
	if reason, why := t.short(); why != "" {
		return GiveUp{Reason: reason, Detail: why}, true
	}
	p := t.Progress(ends)
	open := t.Spec.Includes() && p.Total() == 0 && t.State == Running
	if p.Ended() < p.Total() || open {
		return nil, false
	}
	c := Conclude{State: Finished, Message: t.failures(ends) + p.String(), Result: p.Result()}
	switch {
	case t.ranOut() && p.States[Finished]+p.Skipped < p.Total():
		c.State, c.Reason, c.Message = Error, reason.Timeout, t.totalWords()+"; "+c.Message
	case t.State == Cancelling && p.States[Finished]+p.Skipped < p.Total() || t.State == Cancelling && p.Total() == 0:
		c.State, c.Reason = Cancelled, reason.User
	case p.States[Error]+p.States[Abnormal] > 0:
		c.State, c.Reason = Error, reason.Task
	case p.States[Cancelled] > 0:
		c.State, c.Reason = Cancelled, reason.User
	}
	return c, true
}

// Wants tells whether a parent needs action, given the progress of its children: to find, make,
// stop or reopen children, or to end or reopen the parent.
func Wants(t *Task, ends map[ID]End) bool {
	if !t.Spec.Parental() || t.Waiting() {
		return false
	}
	if t.State.Terminal() {
		_, again := Revive(t, ends)
		return again
	}
	if _, follows := Follow(t, ends); follows || t.Children == nil || len(t.Wanting(ends)) > 0 {
		return true
	}
	if t.State != Cancelling {
		return len(Awaken(t, ends)) > 0
	}
	return slices.ContainsFunc(t.Stops(), func(name string) bool {
		e := ends[ChildID(t.ID, name)]
		return !e.State.Terminal() && e.State != Cancelling
	})
}

// Unborn adds the unseen children to ends as cancelled, because none of them would be made.
func (t *Task) Unborn(ends map[ID]End) {
	for _, name := range t.Wanting(ends) {
		ends[ChildID(t.ID, name)] = End{State: Cancelled}
	}
}

// Concluding returns the end of a parent, completed with the results of its children. If another
// task has the id of one of them, the parent has failed, and rule says so. The children must be as
// they were when c was decided.
func (t *Task) Concluding(c Conclude, children []Task) (end Conclude, rule string) {
	if name, _, field := t.Strange(children); name != "" {
		c = t.Estranged(c, name, field)
		return c, RuleStranger
	}
	if _, own := OwnChildren(t); own {
		c.Result = Gather(t, children)
	}
	return c, ""
}

// Estranged is the end of a parent when another task has the id of one of its children.
func (t *Task) Estranged(c Conclude, name, field string) Conclude {
	c.State, c.Reason = Error, reason.System
	c.Message = fmt.Sprintf("task %s has the id of child %q, and this task has not made it: %s differs", ChildID(t.ID, name), name, field)
	return c
}

// Bounds of the text about failed children in the end of a parent.
const (
	namedFailures = 3
	failureWords  = 240 // bytes of each message
)

// failures names the children that failed, with their messages, and ends with "; " if there are any.
func (t *Task) failures(ends map[ID]End) string {
	var parts []string
	more := 0
	for _, name := range t.Children.Names {
		e := ends[ChildID(t.ID, name)]
		switch {
		case !e.failed():
		case len(parts) == namedFailures:
			more++
		default:
			parts = append(parts, name+" failed ("+e.words()+")")
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

// words are the state, its reason and the beginning of the message.
func (e End) words() string {
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
	return clipped(message, failureWords), len(message) > failureWords
}

// clipped returns s, or its beginning with a mark of omission.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most] + "…"
}

// Strange names a child that the parent has not made: another task has its id. The children are in
// their present state; only their births matter.
func (t *Task) Strange(children []Task) (name string, id ID, field string) {
	known := make(map[ID]*Task, len(children))
	for i := range children {
		known[children[i].ID] = &children[i]
	}
	births := Births(t)
	for _, name := range t.Children.Names {
		child := known[ChildID(t.ID, name)]
		if child == nil {
			continue
		}
		is, made := Submitted{Work: child.Work}, births(name)
		for _, w := range []*Work{&is.Work, &made.Work} { // these fields change after birth
			w.Route, w.Holds, w.Inputs = "", nil, nil
		}
		made.Due = time.Time{}
		if field := is.Differs(&made); field != "" {
			return name, child.ID, field
		}
	}
	return "", "", ""
}

// Expects tells whether a reopened parent may be about to reopen a child: one that did not finish
// and has had no fact since. A retry reopens the parent first, because the parent must regain its
// unique key.
func (t *Task) Expects(children []Task) bool {
	return t.Turn > 0 && slices.ContainsFunc(children, func(c Task) bool {
		end := EndOf(&c)
		return c.State.Terminal() && c.State != Finished && !end.skipped() && c.Seq < t.Turn
	})
}

// Progress counts the children of a parent.
func (t *Task) Progress(ends map[ID]End) Progress {
	p := Progress{States: map[State]int{}}
	if t.Children == nil {
		return p
	}
	if _, why := t.short(); why != "" {
		return p
	}
	for _, name := range t.Children.Names {
		if e := ends[ChildID(t.ID, name)]; e.skipped() {
			p.Skipped++
		} else {
			p.States[e.State]++
		}
	}
	return p
}

// Wanting returns the names of the children that have not been seen.
func (t *Task) Wanting(ends map[ID]End) []string {
	if t.Children == nil || t.State.Terminal() {
		return nil
	}
	if _, why := t.short(); why != "" {
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
func (t *Task) Stops() []string {
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
func (t *Task) Unmade() bool { return t.State == Cancelling && !t.Spec.Outlives() }

// short says why an expanded parent has no children at all, as a code and in words; "" if it may
// have them.
func (t *Task) short() (code, why string) {
	switch {
	case t.Spec == nil || t.Children == nil:
		return "", ""
	case t.Spec.Each != nil:
		if len(t.Children.Names) > 0 {
			return "", ""
		}
		if _, err := t.Spec.Each.Items(t.Params, t.Inputs); err != nil {
			return reason.User, err.Error()
		}
		return "", ""
	case len(t.Spec.Steps) > 0:
		return "", ""
	}
	p := &t.Spec.Place
	found := len(t.Children.Names)
	switch {
	case p.Count > found:
		return reason.Unplaced, fmt.Sprintf("%d nodes are wanted, and at sequence %d there were %d that match and take work", p.Count, t.Children.AtSeq, found)
	case found == 0 && p.Late != job.LateInclude:
		return reason.Unplaced, fmt.Sprintf("at sequence %d no node that matches took work", t.Children.AtSeq)
	}
	return "", ""
}

// parentDuty says which component must act on a parent.
func parentDuty(t Task, around Surroundings, s Settings) Duty {
	d := Duty{Who: "its children", By: looked(t.Since, around).Add(s.look()), Look: true,
		Else: "the sweep of any scheduler looks whether all of them have ended"}
	_, own := OwnChildren(&t)
	switch {
	case t.Children == nil && own:
		d.Who, d.What = "scheduler", "make its children: whoever submitted it has not"
	case t.Children == nil:
		d.Who, d.What = "scheduler", "find out which nodes it is meant for: whoever submitted it has not"
	case t.State == Cancelling:
		d.What = fmt.Sprintf("stop, %s; then it is cancelled", allOf(len(t.Children.Names)))
	case len(t.Children.Names) == 0 && t.Spec.Includes():
		d.Who, d.What = "operator", "bring up a node that matches: it includes nodes that come late, and none has come"
	default:
		d.What = fmt.Sprintf("end, %s; it has ended with the last", allOf(len(t.Children.Names)))
	}
	return d
}

func allOf(n int) string {
	if n == 1 {
		return "the one there is"
	}
	return fmt.Sprintf("all %d of them", n)
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
