package birth

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"

	"millrace/task"
	"millrace/task/job"
)

// A retry is one fact: a reopening of the task it was asked of, or of the highest of its ancestors
// that have ended without a gap. [task.Reopened.Again] says which children of that one live again
// with it. A scheduler reopens those, and what depends on them, as the functions below say.

// Owes tells whether a parent has yet to reopen the child of this name, which ended as e says,
// because a retry asks for that.
func Owes(t *task.Task, name string, e task.End) bool {
	if t.State.Terminal() || t.State == task.Cancelling || !e.State.Terminal() || e.Seq >= t.Life {
		return false
	}
	return asksFor(t.Again, name, e)
}

// asksFor tells whether a [task.Reopened.Again] means the child of this name.
func asksFor(again, name string, e task.End) bool {
	if again == task.AllAgain {
		return e.State != task.Finished && !e.Skipped()
	}
	first, _, _ := strings.Cut(again, "/")
	return first == name
}

// Below is the [task.Reopened.Again] of a child that is reopened because again means it.
func Below(again string, child *task.Task) string {
	if _, rest, more := strings.Cut(again, "/"); more {
		return rest
	}
	return againOf(child)
}

// againOf is the [task.Reopened.Again] of a task of which a retry was asked.
func againOf(t *task.Task) string {
	if t.Spec.Parental() {
		return task.AllAgain
	}
	return ""
}

// Owed returns the names of the children that a running parent has yet to reopen because a retry
// asks for it. It must not end before.
func Owed(t *task.Task, ends map[task.ID]task.End) []string {
	if t.Again == "" || t.State != task.Running || t.Children == nil {
		return nil
	}
	var names []string
	for _, name := range t.Children.Names {
		if Owes(t, name, ends[ChildID(t.ID, name)]) {
			names = append(names, name)
		}
	}
	return names
}

// Reopens returns the names of the children that a running parent must reopen: those of [Owed],
// skipped steps that may run after all, and handlers that ended before a step was reopened. Each
// group comes after the groups with the steps that it needs.
func Reopens(t *task.Task, ends map[task.ID]task.End) [][]string {
	if t.State != task.Running || t.Children == nil {
		return nil
	}
	names := Owed(t, ends)
	if !t.Spec.Stepped() {
		return Groups(t, names)
	}
	now := maps.Clone(ends)
	if now == nil {
		now = map[task.ID]task.End{}
	}
	reopen := func(more []string) {
		for _, name := range more {
			now[ChildID(t.ID, name)] = task.End{State: task.Held, Life: math.MaxUint64}
		}
	}
	reopen(names)
	again := Awaken(t, now)
	reopen(again)
	names = slices.Concat(names, again, rerun(t, now))
	depth := t.Spec.Depths()
	slices.SortStableFunc(names, func(a, b string) int { return depth[a] - depth[b] })
	return Groups(t, names)
}

// Groups splits children, ordered by how long a chain of steps each waits for, where that changes:
// those of one group do not wait for each other.
func Groups(t *task.Task, names []string) [][]string {
	var depth map[string]int
	if t.Spec.Stepped() {
		depth = t.Spec.Depths()
	}
	var groups [][]string
	for i, name := range names {
		if i == 0 || depth[name] != depth[names[i-1]] {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], name)
	}
	return groups
}

// rerun returns the names of handlers that have run and must run again, because a step was reopened
// after their end.
func rerun(t *task.Task, ends map[task.ID]task.End) []string {
	var life uint64
	for i := range t.Spec.Steps {
		life = max(life, ends[ChildID(t.ID, t.Spec.Steps[i].Name)].Life)
	}
	var names []string
	for _, h := range t.Spec.On.All() {
		if e := ends[ChildID(t.ID, h.Name)]; e.State.Terminal() && !e.Skipped() && e.Seq < life {
			names = append(names, h.Name)
		}
	}
	return names
}

// Details returns the children whose [task.End.Seq] and [task.End.Life] [Reopens] needs, although
// they finished or are open: most parents need those of none.
func Details(t *task.Task, ends map[task.ID]task.End) []task.ID {
	if t.State != task.Running || t.Children == nil {
		return nil
	}
	var ids []task.ID
	if first, _, _ := strings.Cut(t.Again, "/"); first != "" && first != task.AllAgain {
		ids = append(ids, ChildID(t.ID, first))
	}
	if !t.Spec.Stepped() || !slices.ContainsFunc(t.Spec.On.All(), func(h job.Handler) bool {
		e := ends[ChildID(t.ID, h.Name)]
		return e.State.Terminal() && !e.Skipped()
	}) {
		return ids
	}
	return slices.Collect(maps.Values(ChildIDs(t)))
}

// NameOf returns the name of a parent's child by its id; "" if that task is none of its children.
func NameOf(parent *task.Task, child task.ID) string {
	for name, id := range ChildIDs(parent) {
		if id == child {
			return name
		}
	}
	return ""
}

// Member is a task and its name among its parent's children; "" for a task that no parent was
// expanded into.
type Member struct {
	task.Task
	Name string
}

// Line returns a task and the parents above it, the nearest first, up to the first parent that has not
// ended: further ones do not matter for a retry. It reads parents with load; one that load does not
// know, by an error that wraps [task.ErrUnknown], ends the line.
func Line(t task.Task, load func(task.ID) (task.Task, error)) ([]Member, error) {
	line := []Member{{Task: t}}
	for child := &line[0]; child.Parent != ""; child = &line[len(line)-1] {
		parent, err := load(child.Parent)
		if errors.Is(err, task.ErrUnknown) {
			break
		}
		if err != nil {
			return nil, err
		}
		// A submission may name any task as its parent.
		if child.Name = NameOf(&parent, child.ID); child.Name == "" {
			break
		}
		if line = append(line, Member{Task: parent}); !parent.State.Terminal() {
			break
		}
	}
	return line, nil
}

// Retry returns what is recorded if a retry is asked of the first task of a line, of which each is
// the parent of the one before: the place of the task to reopen, and its [task.Reopened.Again].
func Retry(line []Member) (top int, again string) {
	again = againOf(&line[0].Task)
	for ; top+1 < len(line) && line[top+1].State.Terminal(); top++ {
		name := line[top].Name
		if again == "" || again == task.AllAgain {
			again = name
		} else {
			again = name + "/" + again
		}
	}
	return top, again
}

// LivesAgain tells whether the first task of a line, which has ended, is about to be reopened,
// because a retry of one of the others asks for that.
func LivesAgain(line []Member) bool {
	top := slices.IndexFunc(line, func(m Member) bool { return !m.State.Terminal() })
	if top <= 0 {
		return false
	}
	asked := line[top].Task
	for i := top - 1; i >= 0; i-- {
		if !Owes(&asked, line[i].Name, task.EndOf(&line[i].Task)) {
			return false
		}
		asked.Again = Below(asked.Again, &line[i].Task)
	}
	return true
}
