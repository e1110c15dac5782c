package view

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"millrace/task"
	"millrace/task/birth"
)

// Row is a task of a list for display: below its parent, if the list has it.
type Row struct {
	Task *task.Task
	// Depth is how many of its ancestors are above it.
	Depth int
}

// Arrange puts children below their parents, in the parent's order. A task whose parent is not in
// the list keeps its place; siblings without their parent stay together, in the order of their
// steps.
func Arrange(tasks []task.Task) []Row {
	there := make(map[task.ID]*task.Task, len(tasks))
	for i := range tasks {
		there[tasks[i].ID] = &tasks[i]
	}
	below := map[task.ID][]*task.Task{}
	var tops [][]*task.Task // each one task, or the children of a parent outside the list
	group := map[task.ID]int{}
	for i := range tasks {
		t := &tasks[i]
		at, begun := group[t.Parent]
		switch {
		case t.Parent == "":
			tops = append(tops, []*task.Task{t})
		case there[t.Parent] != nil:
			below[t.Parent] = append(below[t.Parent], t)
		case begun:
			tops[at] = append(tops[at], t)
		default:
			group[t.Parent] = len(tops)
			tops = append(tops, []*task.Task{t})
		}
	}
	rows := make([]Row, 0, len(tasks))
	var place func(siblings []*task.Task, parent *task.Task, depth int)
	place = func(siblings []*task.Task, parent *task.Task, depth int) {
		sortChildren(siblings, parent)
		for _, t := range siblings {
			rows = append(rows, Row{t, depth})
			children := below[t.ID]
			delete(below, t.ID) // two tasks may name each other as parent
			place(children, t, depth+1)
		}
	}
	for _, top := range tops {
		place(top, nil, 0)
	}
	for i := range tasks { // a cycle of parents, which only a foreign program can make
		if children, left := below[tasks[i].ID]; left {
			delete(below, tasks[i].ID)
			place(children, nil, 0)
		}
	}
	return rows
}

// sortChildren sorts children in the parent's order, or in that of their steps.
func sortChildren(children []*task.Task, parent *task.Task) {
	order := map[task.ID]int{}
	if parent != nil && parent.Children != nil {
		for i, name := range parent.Children.Names {
			order[birth.ChildID(parent.ID, name)] = i + 1
		}
	}
	slices.SortStableFunc(children, func(a, b *task.Task) int {
		return cmp.Or(cmp.Compare(order[a.ID], order[b.ID]), compareSteps(a.Step, b.Step))
	})
}

// compareSteps compares paths name by name, and numbers by value.
func compareSteps(a, b string) int {
	one, two := strings.Split(a, "/"), strings.Split(b, "/")
	for i := range min(len(one), len(two)) {
		m, errM := strconv.Atoi(one[i])
		n, errN := strconv.Atoi(two[i])
		c := strings.Compare(one[i], two[i])
		if errM == nil && errN == nil {
			c = cmp.Compare(m, n)
		}
		if c != 0 {
			return c
		}
	}
	return len(one) - len(two)
}
