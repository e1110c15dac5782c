package look

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/task"
	"millrace/view"
)

// leaf is a task in the tree of those into which another was expanded.
type leaf struct {
	// Name is that of its step, its node, or the number of its value of a list.
	Name   string     `json:"name,omitempty"`
	Task   task.ID    `json:"task"`
	State  task.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Message says why it failed; "" if it did not.
	Message string        `json:"message,omitempty"`
	Times   int           `json:"attempt,omitempty"`
	Took    task.Duration `json:"took,omitempty"`
	Node    string        `json:"node,omitempty"`
	// Needs are those that it waits for; their names are those of steps beside it.
	Needs    *task.Needs `json:"needs,omitempty"`
	Children []leaf      `json:"children,omitempty"`
	// At is the moment of the past of a whole tree.
	At *reach.ShownPoint `json:"at,omitempty"`
}

func (a *Commands) taskTree() *cobra.Command {
	var o typed.Output
	var dot, watch bool
	var step string
	c := &cobra.Command{
		Use: "tree ID", Aliases: []string{"graph"},
		Short: "Show the steps or children of a task with their states",
		Long: `Shows a task with all the tasks into which it was expanded (steps, each and place in a
job) and what each of them needs. --dot prints the graph for Graphviz, with states as colours;
--step prints nothing but the id of one of them, for other commands: a step in a
list is named by its path, such as sum/0.`,
		Example: `  millrace task tree ID
  millrace task tree ID --at -10m
  millrace task tree ID --dot | dot -Tsvg -o graph.svg
  millrace task retry $(millrace task tree ID --step build)`,
		Args: typed.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().BoolVar(&dot, "dot", false, "print a graph in the language of Graphviz")
	c.Flags().StringVar(&step, "step", "", "print the id of this `step` only")
	c.Flags().StringVar(&step, "id", "", "the same as --step")
	c.Flags().Lookup("id").Hidden = true // its name before; elsewhere --id is that of a task
	reach.WatchFlag(c, &watch)
	sight := a.AtFlag(c, reach.Then{})
	o.Flags(c)
	c.MarkFlagsMutuallyExclusive("watch", "dot", "step", "id")
	c.MarkFlagsMutuallyExclusive("dot", "step", "id", "json", "output")
	c.RunE = a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		read := func(ctx context.Context) (leaf, error) {
			b, err := view.Tree(ctx, s.View, id)
			root := leafOf(&b, s.Now())
			root.At = s.Past
			return root, s.Unknown(err)
		}
		if !dot && step == "" {
			return a.Show(ctx, watch, &o, func(ctx context.Context) (reach.Frame, error) {
				root, err := read(ctx)
				t := root.table()
				s.Mark(&t, a.Now())
				return reach.Frame{Table: t, JSON: root, Over: root.State.Terminal()}, err
			})
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		root, err := read(asking)
		if err != nil {
			return err
		}
		if step != "" {
			found := root.find(strings.Split(step, "/"))
			if found == nil {
				missing := &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("task %s has no step %q", id, step), Hint: exit.Hint("`millrace task tree %s` shows those that it has", id)}
				return reach.OrMeant(missing, step, root.paths("", nil))
			}
			_, err := fmt.Fprintln(a.Out, found.Task)
			return err
		}
		_, err = fmt.Fprint(a.Out, root.dot())
		return err
	})
	return c
}

// StepPaths are the paths of the steps below a task.
func StepPaths(b *view.Branch, now time.Time) []string {
	root := leafOf(b, now)
	return root.paths("", nil)
}

func leafOf(b *view.Branch, now time.Time) leaf {
	t := &b.Task
	l := leaf{Name: b.Name, Task: t.ID, State: t.State, Reason: t.Reason, Message: task.EndOf(t).Message, Times: t.Attempt, Node: t.Node, Needs: t.Needs}
	if l.Took = t.Ran; t.Live() && !t.StartedAt.IsZero() {
		l.Took = task.Duration(max(now.Sub(t.StartedAt), 0))
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

// paths adds those of all leaves below it, as find takes them.
func (l *leaf) paths(above string, all []string) []string {
	for i := range l.Children {
		path := above + l.Children[i].Name
		all = l.Children[i].paths(path+"/", append(all, path))
	}
	return all
}

// table has a row for each leaf.
func (l *leaf) table() term.Table {
	t := term.Table{Header: []string{"STEP", "ID", "STATE", "TRY", "NODE", "TOOK", "NEEDS", "MESSAGE"}, Spare: []string{"NEEDS", "TRY", "NODE"}}
	l.rows(&t, task.Shorten(l.ids(nil)), "", "")
	return t
}

// ids adds those of the leaf and of all below it.
func (l *leaf) ids(all []task.ID) []task.ID {
	all = append(all, l.Task)
	for i := range l.Children {
		all = l.Children[i].ids(all)
	}
	return all
}

// rows adds the leaf and those below it; lead stands before its name, and below before theirs.
func (l *leaf) rows(t *term.Table, short func(task.ID) string, lead, below string) {
	name := l.Name
	if lead == "" {
		name = "."
	}
	state := told.StateCell(l.State)
	if state.Text = told.State(l.State, l.Reason); l.State == task.Unknown {
		state.Text = "not made yet"
	}
	attempt, took, needs := "", "", ""
	if l.Times > 0 {
		attempt = strconv.Itoa(l.Times)
	}
	if l.Took > 0 {
		took = told.Span(l.Took.Std())
	}
	if l.Needs != nil {
		needs = l.Needs.String()
	}
	t.Add(term.Plain(lead+name), term.Dim(short(l.Task)), state, term.Plain(attempt), term.Plain(l.Node), term.Plain(took), term.Plain(needs), term.Plain(l.Message))
	for i := range l.Children {
		branch, trunk := "├─ ", "│  "
		if i == len(l.Children)-1 {
			branch, trunk = "└─ ", "   "
		}
		l.Children[i].rows(t, short, below+branch, below+trunk)
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
	text := name + "\n" + told.State(l.State, l.Reason)
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
