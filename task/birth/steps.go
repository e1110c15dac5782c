package birth

import (
	"maps"
	"slices"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// stepOf finds a step or handler of a task by the name of its child, with its needs; nil if there is
// none.
func stepOf(t *task.Task, name string) (*job.Step, *task.Needs) {
	for _, h := range t.Spec.On.All() {
		if h.Name != name {
			continue
		}
		n := &task.Needs{Rule: h.Rule}
		for i := range t.Spec.Steps {
			n.Of = append(n.Of, stepNeed(t, t.Spec.Steps[i].Name, h.When))
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
	n := &task.Needs{Rule: step.Rule}
	for _, need := range step.Needs {
		n.Of = append(n.Of, stepNeed(t, need.Step, need.When))
	}
	return step, n
}

func stepNeed(t *task.Task, step, when string) task.Need {
	return task.Need{Task: ChildID(t.ID, step), Name: step, When: when}
}

// stepChild is the birth of a step or handler of this name.
func stepChild(parent *task.Task, name string) task.Submitted {
	step, needs := stepOf(parent, name)
	if step == nil { // a name that only another version of the spec knows
		step = &job.Step{}
	}
	spec := step.Spec
	if spec.Keep == (job.Keep{}) {
		spec.Keep = parent.Spec.Keep
	}
	w := parent.Work
	w.Asked = nil
	w.Params = param.Over(step.Params, parent.Params)
	w.Spec, w.Parent, w.Needs, w.StartBy = &spec, parent.ID, needs, parent.StartBy
	w.Step = stepBelow(&parent.Work, name)
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
	w.Holds = w.FirstHolds()
	w.BoundWhole(value.Later(parent.StartedAt, parent.Due))
	if bound := spec.Timeout.Pending.Std(); bound > 0 && !w.WaitsForOthers() {
		w.StartBy = value.Later(parent.StartedAt, parent.Due).Add(bound)
	}
	return task.Submitted{Work: w, Due: parent.Due}
}

// Awaken returns the names of skipped steps that may run after all, because some of the steps they
// need were reopened. Each comes after the steps it needs.
func Awaken(t *task.Task, ends map[task.ID]task.End) []string {
	if !t.Spec.Stepped() || t.Children == nil {
		return nil
	}
	now := maps.Clone(ends)
	if now == nil {
		now = map[task.ID]task.End{}
	}
	var names []string
	for before := -1; before < len(names); {
		before = len(names)
		for _, name := range t.Children.Names {
			id := ChildID(t.ID, name)
			if !now[id].Skipped() {
				continue
			}
			_, needs := stepOf(t, name)
			if needs == nil {
				continue
			}
			if verdict, _ := needs.Judge(endsOf(needs, now)); verdict != task.Never {
				names, now[id] = append(names, name), task.End{State: task.Held}
			}
		}
	}
	return names
}

// Revive returns the command that reopens an ended parent because one of its children was reopened;
// false if it may stay as it is.
func Revive(t *task.Task, ends map[task.ID]task.End) (task.Command, bool) {
	if !t.State.Terminal() || t.Children == nil || !t.Spec.Parental() {
		return nil, false
	}
	if _, why := t.Childless(); why != "" {
		return nil, false
	}
	again := task.Reopen{Reason: "a child of it has another life"}
	p := ProgressOf(t, ends)
	if p.Ended() < p.Total()-p.States[task.Unknown] || len(Awaken(t, ends)) > 0 {
		return again, true
	}
	good := p.Total() > 0 && p.States[task.Finished]+p.Skipped == p.Total()
	return again, good && t.State != task.Finished && t.Reason != value.System // a stranger among the children stays one
}

// endsOf are those of the needed tasks, in order.
func endsOf(n *task.Needs, known map[task.ID]task.End) []task.End {
	ends := make([]task.End, len(n.Of))
	for i, need := range n.Of {
		ends[i] = known[need.Task]
	}
	return ends
}
