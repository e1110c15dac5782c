package task

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"millrace/task/job"
	"millrace/task/value"
)

// step finds a step or handler of a task by the name of its child, with its needs; nil if there is
// none.
func (t *Task) step(name string) (*job.Step, *Needs) {
	for _, h := range t.Spec.On.All() {
		if h.Name != name {
			continue
		}
		n := &Needs{Rule: h.Rule}
		for i := range t.Spec.Steps {
			n.Of = append(n.Of, t.stepNeed(t.Spec.Steps[i].Name, h.When))
		}
		return h.Step, n
	}
	i := slices.IndexFunc(t.Spec.Steps, func(s job.Step) bool { return s.Name == name })
	if i < 0 {
		return nil, nil
	}
	step := &t.Spec.Steps[i]
	if len(step.Needs) == 0 {
		return step, nil
	}
	n := &Needs{Rule: step.Rule}
	for _, need := range step.Needs {
		n.Of = append(n.Of, t.stepNeed(need.Step, need.When))
	}
	return step, n
}

func (t *Task) stepNeed(step, when string) Need {
	return Need{Task: ChildID(t.ID, step), Name: step, When: when}
}

// stepChild is the birth of a step or handler of this name.
func stepChild(parent *Task, name string) Submitted {
	step, needs := parent.step(name)
	if step == nil { // a name that only another version of the spec knows
		step = &job.Step{}
	}
	spec := step.Spec
	if spec.Keep == (job.Keep{}) {
		spec.Keep = parent.Spec.Keep
	}
	w := parent.Work
	w.Asked = nil
	w.Params = overParams(step.Params, parent.Params)
	w.Spec, w.Parent, w.Needs, w.StartBy = &spec, parent.ID, needs, parent.StartBy
	w.Step = parent.stepBelow(name)
	w.EndBy = time.Time{} // that of the whole its parent has
	queue := step.Queue
	if queue == "" {
		queue = parent.Route.Queue()
	}
	if spec.Placed() {
		if spec.Place.Queue == "" {
			spec.Place.Queue = queue
		}
		queue = spec.Place.Queue
	}
	w.Route = spec.HomeRoute(queue, parent.Route.Priority())
	w.Holds = w.holds()
	w.boundWhole(value.Later(parent.StartedAt, parent.Due))
	if bound := spec.Timeout.Pending.Std(); bound > 0 && !w.waitsForOthers() {
		w.StartBy = value.Later(parent.StartedAt, parent.Due).Add(bound)
	}
	return Submitted{Work: w, Due: parent.Due}
}

// overParams returns the defaults, overridden by the parameters that a task was given.
func overParams(defaults map[string]json.RawMessage, given json.RawMessage) json.RawMessage {
	if len(defaults) == 0 {
		return given
	}
	var set map[string]json.RawMessage
	if len(given) > 0 && json.Unmarshal(given, &set) != nil {
		return given
	}
	merged, err := merge(defaults, set)
	if err != nil {
		return given
	}
	return merged
}

// Awaken returns the names of skipped steps that may run after all, because some of the steps they
// need were reopened. Each comes after the steps it needs.
func Awaken(t *Task, ends map[ID]End) []string {
	if !t.Spec.Stepped() || t.Children == nil {
		return nil
	}
	now := maps.Clone(ends)
	if now == nil {
		now = map[ID]End{}
	}
	var names []string
	for before := -1; before < len(names); {
		before = len(names)
		for _, name := range t.Children.Names {
			id := ChildID(t.ID, name)
			if !now[id].skipped() {
				continue
			}
			_, needs := t.step(name)
			if needs == nil {
				continue
			}
			if verdict, _ := needs.Judge(needs.ends(now)); verdict != Never {
				names, now[id] = append(names, name), End{State: Held}
			}
		}
	}
	return names
}

// Rerun returns the names of handlers that have run and must run again, because a step was
// reopened.
func Rerun(t *Task, ends map[ID]End) []string {
	if !t.Spec.Stepped() || t.Children == nil {
		return nil
	}
	var names []string
	for _, h := range t.Spec.On.All() {
		if e := ends[ChildID(t.ID, h.Name)]; e.State.Terminal() && !e.skipped() {
			names = append(names, h.Name)
		}
	}
	return names
}

// Revive returns the command that reopens an ended parent because one of its children was reopened;
// false if it may stay as it is.
func Revive(t *Task, ends map[ID]End) (Command, bool) {
	if !t.State.Terminal() || t.Children == nil || !t.Spec.Parental() {
		return nil, false
	}
	if _, why := t.short(); why != "" {
		return nil, false
	}
	again := Reopen{Reason: "a child of it has another life"}
	p := t.Progress(ends)
	if p.Ended() < p.Total()-p.States[Unknown] || len(Awaken(t, ends)) > 0 {
		return again, true
	}
	good := p.Total() > 0 && p.States[Finished]+p.Skipped == p.Total()
	return again, good && t.State != Finished
}

// ends are those of the needed tasks, in order.
func (n *Needs) ends(known map[ID]End) []End {
	ends := make([]End, len(n.Of))
	for i, need := range n.Of {
		ends[i] = known[need.Task]
	}
	return ends
}
