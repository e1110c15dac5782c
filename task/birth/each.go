package birth

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

// OwnChildren returns the children of a parent that do not depend on nodes: its steps, or one child
// for each value of its list. It is false if its children are its nodes.
func OwnChildren(t *task.Task) (task.Children, bool) {
	switch {
	case t.Spec == nil:
		return task.Children{}, false
	case t.Spec.Each != nil:
		items, _ := t.Spec.Each.Items(t.Params, t.Inputs) // short reports a fault
		c := task.Children{Names: make([]string, len(items))}
		for i := range items {
			c.Names[i] = strconv.Itoa(i)
		}
		return c, true
	case len(t.Spec.Steps) > 0:
		return task.Children{Names: t.Spec.StepNames()}, true
	}
	return task.Children{}, false
}

// itemChildren makes the births of the children for the values, by name. It does not pass on the
// list itself: every child has its value.
func itemChildren(parent *task.Task) func(name string) task.Submitted {
	spec, each := *parent.Spec, parent.Spec.Each
	items, _ := each.Items(parent.Params, parent.Inputs)
	spec.Each, spec.Signal, spec.Unique, spec.Timeout.Total = nil, nil, job.Unique{}, 0
	w := parent.Work
	w.Asked = nil
	w.EndBy = time.Time{}
	w.Spec, w.Parent, w.Needs = &spec, parent.ID, nil // the parent has waited for its needs
	w.Inputs = without(w.Inputs, each.Result)
	w.Holds = w.FirstHolds()
	queue := parent.Route.Queue()
	if spec.Placed() && spec.Place.Queue != "" {
		queue = spec.Place.Queue
	}
	w.Route = spec.HomeRoute(queue, parent.Route.Priority())
	params := map[string]json.RawMessage{}
	if len(w.Params) > 0 && json.Unmarshal(w.Params, &params) != nil {
		params = map[string]json.RawMessage{}
	}
	delete(params, each.Param)
	return func(name string) task.Submitted {
		w := w
		w.Step = stepBelow(&parent.Work, name)
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(items) {
			w.Params, _ = param.Merge(params, map[string]json.RawMessage{task.ItemParam: items[i]}) // JSON already
		}
		return task.Submitted{Work: w, Due: parent.Due}
	}
}

// without returns inputs less the result under one name.
func without(inputs json.RawMessage, name string) json.RawMessage {
	var all map[string]task.Input
	if name == "" || json.Unmarshal(inputs, &all) != nil {
		return inputs
	}
	in := all[name]
	in.Result = nil
	all[name] = in
	less, err := value.JSON(all)
	if err != nil {
		return inputs
	}
	return less
}

// Gather builds the result of a parent with steps or a list from the results of its children: a
// list in order, with null for a child without a result, or an object by step name, without steps
// that have none. It holds at most [job.MaxInputs] bytes of results; the largest are left out
// first. It is nil for any other parent.
func Gather(t *task.Task, children []task.Task) json.RawMessage {
	if _, own := OwnChildren(t); !own || t.Children == nil {
		return nil
	}
	results := map[task.ID]json.RawMessage{}
	total := 0
	for i := range children {
		if r := children[i].Result; len(r) > 0 && children[i].State == task.Finished {
			results[children[i].ID] = r
			total += len(r)
		}
	}
	bySize := slices.Clone(t.Children.Names)
	slices.SortStableFunc(bySize, func(a, b string) int {
		return len(results[ChildID(t.ID, b)]) - len(results[ChildID(t.ID, a)])
	})
	for _, name := range bySize {
		if total <= job.MaxInputs {
			break
		}
		id := ChildID(t.ID, name)
		total -= len(results[id])
		delete(results, id)
	}
	var all any
	if t.Spec.Each != nil {
		list := make([]json.RawMessage, len(t.Children.Names))
		for i, name := range t.Children.Names {
			if list[i] = results[ChildID(t.ID, name)]; list[i] == nil {
				list[i] = json.RawMessage("null")
			}
		}
		all = list
	} else {
		named := map[string]json.RawMessage{}
		for _, name := range t.Children.Names {
			if r, ok := results[ChildID(t.ID, name)]; ok {
				named[name] = r
			}
		}
		all = named
	}
	b, err := value.JSON(all)
	if err != nil {
		return nil // another program wrote a result that is not JSON
	}
	return b
}
