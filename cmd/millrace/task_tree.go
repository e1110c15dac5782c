package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

// leaf is a task in the tree of those into which another was expanded.
type leaf struct {
	// Name is that of its step, its node, or the number of its value of a list.
	Name   string        `json:"name,omitempty"`
	Task   task.ID       `json:"task"`
	State  task.State    `json:"state"`
	Reason string        `json:"reason,omitempty"`
	Times  int           `json:"attempt,omitempty"`
	Took   task.Duration `json:"took,omitempty"`
	Node   string        `json:"node,omitempty"`
	// Needs are those that it waits for; their names are those of steps beside it.
	Needs    *task.Needs `json:"needs,omitempty"`
	Children []leaf      `json:"children,omitempty"`
}

func (a *app) taskTree() *cobra.Command {
	var o output
	var dot bool
	var step string
	c := &cobra.Command{
		Use: "tree ID", Aliases: []string{"graph"},
		Short: "Show the steps or children of a task with their states",
		Long: `Shows a task with all the tasks into which it was expanded (steps, each and place in a
job) and what each of them needs. --dot prints the graph for Graphviz, with states as colours;
--id prints nothing but the id of one of them, for other commands: a step in a
list is named by its path, such as sum/0.`,
		Example: `  millrace task tree ID
  millrace task tree ID --dot | dot -Tsvg -o graph.svg
  millrace task retry $(millrace task tree ID --id build)`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	c.Flags().BoolVar(&dot, "dot", false, "print a graph in the language of Graphviz")
	c.Flags().StringVar(&step, "id", "", "print the id of this `step` only")
	o.flags(c)
	c.MarkFlagsMutuallyExclusive("dot", "id", "json", "output")
	c.RunE = a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		b, err := cl.Tree(asking, id)
		if err != nil {
			return err
		}
		root := leafOf(&b, a.now())
		switch {
		case step != "":
			found := root.find(strings.Split(step, "/"))
			if found == nil {
				return fmt.Errorf("task %s has no step %q: `millrace task tree %s` shows those that it has", id, step, id)
			}
			_, err := fmt.Fprintln(a.out, found.Task)
			return err
		case dot:
			_, err := fmt.Fprint(a.out, root.dot())
			return err
		case o.json():
			return a.writeJSON(root)
		}
		return a.print(root.table())
	})
	return c
}

func leafOf(b *client.Branch, now time.Time) leaf {
	t := &b.Task
	l := leaf{Name: b.Name, Task: t.ID, State: t.State, Reason: t.Reason, Times: t.Attempt, Node: t.Node, Needs: t.Needs}
	switch {
	case t.StartedAt.IsZero():
	case t.State.Terminal():
		l.Took = task.Duration(t.EndedAt.Sub(t.StartedAt))
	case t.Live():
		l.Took = task.Duration(now.Sub(t.StartedAt))
	}
	for i := range b.Branches {
		l.Children = append(l.Children, leafOf(&b.Branches[i], now))
	}
	return l
}

// find is the leaf at a path of names; nil if there is none.
func (l *leaf) find(path []string) *leaf {
	if len(path) == 0 {
		return l
	}
	for i := range l.Children {
		if l.Children[i].Name == path[0] {
			return l.Children[i].find(path[1:])
		}
	}
	return nil
}

// table has a row for each leaf.
func (l *leaf) table() table {
	t := table{header: []string{"step", "task", "state", "attempt", "took", "needs"}}
	l.rows(&t, "", "")
	return t
}

// rows adds the leaf and those below it; lead stands before its name, and below before theirs.
func (l *leaf) rows(t *table, lead, below string) {
	name := l.Name
	if lead == "" {
		name = "."
	}
	state := stateCell(l.State)
	switch {
	case l.State == task.Unknown:
		state.text = "not made yet"
	case l.Reason != "":
		state.text += " (" + l.Reason + ")"
	}
	attempt, took, needs := "", "", ""
	if l.Times > 0 {
		attempt = strconv.Itoa(l.Times)
	}
	if l.Took > 0 {
		took = span(l.Took.Std())
	}
	if l.Needs != nil {
		needs = l.Needs.String()
	}
	t.add(plain(lead+name), dim(string(l.Task)), state, plain(attempt), plain(took), plain(needs))
	for i := range l.Children {
		branch, trunk := "├─ ", "│  "
		if i == len(l.Children)-1 {
			branch, trunk = "└─ ", "   "
		}
		l.Children[i].rows(t, below+branch, below+trunk)
	}
}

// dotColours are those of the states, by the names that Graphviz has.
var dotColours = map[task.State]string{
	task.Finished: "palegreen", task.Error: "salmon", task.Abnormal: "plum", task.Cancelled: "khaki",
	task.Running: "lightblue", task.Retrying: "orange", task.Cancelling: "orange",
}

// dot is the tree as a graph: parents are boxes round their children, and needs are arrows.
func (l *leaf) dot() string {
	var b strings.Builder
	b.WriteString("digraph " + strconv.Quote(string(l.Task)) + " {\n  rankdir=LR; compound=true;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n")
	l.dotNode(&b, "  ")
	l.dotNeeds(&b)
	b.WriteString("}\n")
	return b.String()
}

func (l *leaf) dotNode(b *strings.Builder, indent string) {
	name, colour := l.Name, dotColours[l.State]
	if name == "" {
		name = "task " + string(l.Task)
	}
	if colour == "" {
		colour = "white"
	}
	text := name + "\n" + l.State.String()
	if l.Reason != "" {
		text += " (" + l.Reason + ")"
	}
	id := strconv.Quote(string(l.Task))
	if len(l.Children) == 0 {
		fmt.Fprintf(b, "%s%s [label=%s, fillcolor=%s];\n", indent, id, strconv.Quote(text), colour)
		return
	}
	fmt.Fprintf(b, "%ssubgraph %s {\n", indent, strconv.Quote("cluster_"+string(l.Task)))
	fmt.Fprintf(b, "%s  label=%s; style=\"rounded,filled\"; fillcolor=%s;\n", indent, strconv.Quote(text), colour)
	fmt.Fprintf(b, "%s  %s [shape=point, style=invis];\n", indent, id) // what arrows to the box end at
	for i := range l.Children {
		l.Children[i].dotNode(b, indent+"  ")
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

func (l *leaf) dotNeeds(b *strings.Builder) {
	if l.Needs != nil {
		for _, n := range l.Needs.Of {
			style := ""
			if n.When != "" && n.When != task.WhenSuccess {
				style = " [style=dashed, label=" + strconv.Quote(n.When) + "]"
			}
			fmt.Fprintf(b, "  %s -> %s%s;\n", strconv.Quote(string(n.Task)), strconv.Quote(string(l.Task)), style)
		}
	}
	for i := range l.Children {
		l.Children[i].dotNeeds(b)
	}
}
