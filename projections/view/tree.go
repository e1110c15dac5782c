package view

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"millrace/task"
	"millrace/task/birth"
)

// readAtOnce is how many tasks are read concurrently.
const readAtOnce = 16

// Branch is a task with its children.
type Branch struct {
	// Name is its name among the parent's children, or the step in which a function calls it; "" for the root
	// and for any other Spawned task.
	Name string
	// Spawned says that the program of the task above has made it while it ran (SPAWN).
	Spawned bool
	// Task has only an id if it was not made yet.
	Task     task.Task
	Branches []Branch
}

// Tree reads a task, its children, theirs and so on; children are in the parent's order, and behind
// them those that a running task has spawned. It finds these in a list of lists: v itself, or a view
// of the present if v would read the whole log for a list. There are none if lists cannot tell
// ([ErrUnlisted], [ErrUnindexed]). The error wraps [task.ErrUnknown] if there is no such task.
func Tree(ctx context.Context, v, lists View, id task.ID) (Branch, error) {
	t, err := GetTask(ctx, v, id)
	if err != nil {
		return Branch{}, err
	}
	spawned, err := spawnedBelow(ctx, lists, id)
	if err != nil && !errors.Is(err, ErrUnlisted) && !errors.Is(err, ErrUnindexed) {
		return Branch{}, err
	}
	return reading{v, spawned, lists != v}.branch(ctx, "", t)
}

// ExpandedTree is [Tree] without tasks that were spawned: a whole does not wait for those.
func ExpandedTree(ctx context.Context, v View, id task.ID) (Branch, error) {
	t, err := GetTask(ctx, v, id)
	if err != nil {
		return Branch{}, err
	}
	return reading{view: v}.branch(ctx, "", t)
}

// spawnedAtOnce is how many tasks a page has in the search for spawned ones: few tasks spawn any.
const spawnedAtOnce = 100

// spawnedBelow returns the spawned tasks below a task, and others of its millisecond, by their parents
// and in the order of their submission. Their ids follow from that of the task, and lie together.
func spawnedBelow(ctx context.Context, v View, id task.ID) (map[task.ID][]task.Task, error) {
	from, to := task.DerivedRange(id)
	from += task.ID(strings.Repeat("0", max(len(id)-len(from), 0))) // a whole id, before all of them
	all := map[task.ID][]task.Task{}
	for q := (Query{Kind: Tasks, Filter: Filter{After: from, OldestFirst: true, Limit: spawnedAtOnce}}); ; {
		page, err := v.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tasks {
			if q.After = t.ID; t.ID >= to {
				break
			}
			if t.Step == "" && t.Parent != "" { // a child of a parent has a step
				all[t.Parent] = append(all[t.Parent], t)
			}
		}
		if len(page.Tasks) == 0 || page.Next == "" || q.After >= to {
			break
		}
		q.Limit = MaxLimit
	}
	for _, tasks := range all {
		slices.SortStableFunc(tasks, func(a, b task.Task) int { return a.SubmittedAt.Compare(b.SubmittedAt) })
	}
	return all, nil
}

// reading reads a tree.
type reading struct {
	view    View
	spawned map[task.ID][]task.Task // by their parents; each is taken once
	again   bool                    // they come from another view, and must be read in this one
}

func (r reading) branch(ctx context.Context, name string, t task.Task) (Branch, error) {
	b := Branch{Name: name, Task: t}
	if t.Children != nil {
		if err := r.children(ctx, &b); err != nil {
			return b, err
		}
	}
	below := r.spawned[t.ID]
	delete(r.spawned, t.ID) // two tasks may name each other as parent
	for _, child := range below {
		if r.again {
			var err error
			if child, err = GetTask(ctx, r.view, child.ID); unknown(err) {
				continue
			} else if err != nil {
				return b, err
			}
		}
		is, err := r.branch(ctx, t.Durable.CallOf(child.ID), child)
		if err != nil {
			return b, err
		}
		is.Spawned = true
		b.Branches = append(b.Branches, is)
	}
	return b, nil
}

// children reads the children into which a task was expanded.
func (r reading) children(ctx context.Context, b *Branch) error {
	t := &b.Task
	tasks, err := Children(ctx, r.view, t)
	if err != nil {
		return err
	}
	byID := byID(tasks)
	for _, name := range t.Children.Names {
		child := task.Task{ID: birth.ChildID(t.ID, name)}
		if made := byID[child.ID]; made != nil {
			child = *made
		}
		below, err := r.branch(ctx, name, child)
		if err != nil {
			return err
		}
		b.Branches = append(b.Branches, below)
	}
	return nil
}

func byID(tasks []task.Task) map[task.ID]*task.Task {
	all := make(map[task.ID]*task.Task, len(tasks))
	for i := range tasks {
		all[tasks[i].ID] = &tasks[i]
	}
	return all
}

// Children reads the existing children of a parent, in the order of their names. For many children
// it takes a while.
func Children(ctx context.Context, v View, t *task.Task) ([]task.Task, error) {
	ids := birth.ChildIDs(t)
	found := make([]task.Task, len(ids))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readAtOnce)
	for i, name := range slices.Sorted(maps.Keys(ids)) {
		g.Go(func() error {
			child, err := GetTask(ctx, v, ids[name])
			switch {
			case errors.Is(err, task.ErrUnknown):
				return nil
			case err != nil:
				return err
			}
			found[i] = child
			return nil
		})
	}
	err := g.Wait()
	return slices.DeleteFunc(found, func(t task.Task) bool { return t.ID == "" }), err
}

// Part is a child of a task that matters for the whole.
type Part struct {
	// Name is its name among the parent's children.
	Name string `json:"name"`
	// Task is its id, and State how it stands. Reason is the code beside the state, and Message the
	// reason in words. Node runs it, or ran it last, in attempt number Attempt.
	Task    task.ID    `json:"task"`
	State   task.State `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message,omitempty"`
	Node    string     `json:"node,omitempty"`
	Attempt int        `json:"attempt,omitempty"`
}

// Parts are the children of a task that matter for its state, in its order.
type Parts struct {
	// Progress counts all children, in words.
	Progress string `json:"progress"`
	// Failed are those that ended in error or abnormal, Running those that run.
	Failed  []Part `json:"failed,omitempty"`
	Running []Part `json:"running,omitempty"`
}

// ReadParts reads the children of a task and returns those that failed and those that run; nil for
// a task without children.
func ReadParts(ctx context.Context, v View, t *task.Task) (*Parts, error) {
	if t.Children == nil {
		return nil, nil
	}
	children, err := Children(ctx, v, t)
	if err != nil {
		return nil, err
	}
	return PartsOf(t, children), nil
}

// PartsOf returns the parts of a task, selected from its children in any order.
func PartsOf(t *task.Task, children []task.Task) *Parts {
	byID, ends := byID(children), make(map[task.ID]task.End, len(children))
	for i := range children {
		ends[children[i].ID] = task.EndOf(&children[i])
	}
	p := &Parts{Progress: birth.ProgressOf(t, ends).String()}
	for _, name := range t.Children.Names {
		k := byID[birth.ChildID(t.ID, name)]
		if k == nil {
			continue
		}
		part := Part{name, k.ID, k.State, k.Reason, k.Message, k.Node, k.Attempt}
		switch {
		case k.State.Failed():
			p.Failed = append(p.Failed, part)
		case k.Live():
			p.Running = append(p.Running, part)
		}
	}
	return p
}
