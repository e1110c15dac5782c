package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"millrace/task/job"
)

// ItemParam is the parameter in which a child finds its value of the list.
const ItemParam = "item"

// Item is the value of the list for which a task runs that is the child of another: its text if it is
// one, else its JSON.
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
	return string(item), ok
}

// checkLists refuses work whose lists are known by now and are none.
func (w *Work) checkLists() error {
	if e := w.Spec.Each; e != nil {
		if e.Result != "" {
			return errors.New("each.result: this is no step, and needs none")
		}
		if _, err := e.Items(w.Params, w.Inputs); err != nil {
			return err
		}
	}
	for i := range w.Spec.Steps {
		step := &w.Spec.Steps[i]
		if step.Each == nil || step.Each.Param == "" || w.Spec.Each != nil && step.Each.Param == ItemParam {
			continue
		}
		if _, err := step.Each.Items(overParams(step.Params, w.Params), nil); err != nil {
			return fmt.Errorf("steps[%d].%w", i, err)
		}
	}
	return nil
}

// OwnChildren are the children that a parent has whichever nodes there are: its steps, or one for each
// value of its list. It is false if they are its nodes.
func OwnChildren(t *Task) (Children, bool) {
	switch {
	case t.Spec == nil:
		return Children{}, false
	case t.Spec.Each != nil:
		items, _ := t.Spec.Each.Items(t.Params, t.Inputs) // what is wrong with it, short says
		c := Children{Names: make([]string, len(items))}
		for i := range items {
			c.Names[i] = strconv.Itoa(i)
		}
		return c, true
	case len(t.Spec.Steps) > 0:
		return Children{Names: t.Spec.StepNames()}, true
	}
	return Children{}, false
}

// itemChildren makes the births of the children for the values, by name. The list itself is not handed
// on: every child has its value.
func itemChildren(parent *Task) func(name string) Submitted {
	spec, each := *parent.Spec, parent.Spec.Each
	items, _ := each.Items(parent.Params, parent.Inputs)
	spec.Each, spec.Signal, spec.Unique, spec.Timeout.Total = nil, nil, job.Unique{}, 0
	w := parent.Work
	w.Asked = nil
	w.EndBy = time.Time{}
	w.Spec, w.Parent, w.Needs = &spec, parent.ID, nil // the parent has waited for all of them
	w.Inputs = without(w.Inputs, each.Result)
	w.Holds = w.holds()
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
	return func(name string) Submitted {
		w := w
		w.Step = parent.stepBelow(name)
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(items) {
			w.Params, _ = merge(params, map[string]json.RawMessage{ItemParam: items[i]}) // JSON already
		}
		return Submitted{Work: w, Due: parent.Due}
	}
}

// without are inputs less the result of one of those who gave them.
func without(inputs json.RawMessage, name string) json.RawMessage {
	var all map[string]Input
	if name == "" || json.Unmarshal(inputs, &all) != nil {
		return inputs
	}
	in := all[name]
	in.Result = nil
	all[name] = in
	less, err := json.Marshal(all)
	if err != nil {
		return inputs
	}
	return less
}

// Gather is the result of a parent by steps or by a list, made of those of its children: for a list the
// list of them, in order and null for none; for steps an object with those that have one, by
// name. At most [job.MaxInputs] bytes of results are in it; the largest are left out first. It is nil for any other parent.
func Gather(t *Task, children []Task) json.RawMessage {
	if _, own := OwnChildren(t); !own || t.Children == nil {
		return nil
	}
	results := map[ID]json.RawMessage{}
	total := 0
	for i := range children {
		if r := children[i].Result; len(r) > 0 && children[i].State == Finished {
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
	b, err := json.Marshal(all)
	if err != nil {
		return nil // a result that is no JSON, from another program's hand
	}
	return b
}
