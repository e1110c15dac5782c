package task

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/value"
)

// leaf is a task in the tree of a task's children.
type leaf struct {
	// Name is the name of its step or node, or the number of its value in a list.
	Name string `json:"name,omitempty"`
	// Spawned says that the program of the task above has made it while it ran.
	Spawned bool       `json:"spawned,omitempty"`
	Task    task.ID    `json:"task"`
	State   task.State `json:"state"`
	Reason  string     `json:"reason,omitempty"`
	// Message says why it failed; "" if it did not.
	Message string         `json:"message,omitempty"`
	said    string         // what a person reads of that, and of who has cancelled it
	Times   int            `json:"attempt,omitempty"`
	Took    value.Duration `json:"took,omitempty"`
	Node    string         `json:"node,omitempty"`
	// Needs are the tasks that it waits for, by the names of steps beside it.
	Needs    *task.Needs `json:"needs,omitempty"`
	Children []leaf      `json:"children,omitempty"`
	// Steps are those of its function, and shown what is below it in lists and drawings: these, with the children
	// that each has called, and the other children.
	Steps []task.Taken `json:"steps,omitempty"`
	shown []leaf
	step  *term.Node // that it is; nil for a task
	// At is the past moment of a whole tree.
	At *connect.ShownPoint `json:"at,omitempty"`
}

// drawings are the formats in which a tree can be drawn.
var drawings = map[string]func(*term.Node) string{"mermaid": term.Mermaid, "dot": term.Dot}

func (a *Commands) taskTree() *cobra.Command {
	var o settings.Output
	var dot, watch bool
	var step string
	c := &cobra.Command{
		Use: "tree ID", Aliases: []string{"graph"},
		Short: "Show the steps or children of a task with their states",
		Long: `Shows a task with all tasks made for it (steps, each and place in a
job, and those that its program has spawned, if a millrace server answers), with the steps of its function, and what each of them needs. -o mermaid and dot (or --dot) draw the graph for Mermaid
and Graphviz, with states as colours; --step prints nothing but the id of one of them, for other commands: a step in a
list is named by its path, such as sum/0.`,
		Example: `  millrace task tree ID
  millrace task tree ID --at -10m
  millrace task tree ID --dot | dot -Tsvg -o graph.svg
  millrace task retry $(millrace task tree ID --step build)`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().BoolVar(&dot, "dot", false, "the same as -o dot")
	c.Flags().StringVar(&step, "step", "", "print the id of this `step` only")
	c.Flags().StringVar(&step, "id", "", "the same as --step")
	// Its former name; in other commands --id is the id of a task.
	c.Flags().Lookup("id").Hidden = true
	connect.WatchFlag(c, &watch)
	sight := a.AtFlag(c, connect.Then{})
	o.Flags(c, "table", "json", "mermaid", "dot")
	c.MarkFlagsMutuallyExclusive("watch", "dot", "step", "id")
	c.MarkFlagsMutuallyExclusive("dot", "step", "id", "json", "output")
	c.RunE = a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		if watch && drawings[o.Form.Value] != nil {
			return term.Misuse(c, "--watch goes on, and -o %s is one picture", o.Form.Value)
		}
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		read := func(ctx context.Context) (leaf, error) {
			lists := s.View
			if s.Past != nil {
				lists = cl.View()
			}
			b, err := view.Tree(ctx, s.View, lists, id)
			root := leafOf(&b, s.Now())
			root.At = s.Past
			return root, s.Unknown(err)
		}
		if dot {
			o.Form.Value = "dot"
		}
		draw := drawings[o.Form.Value]
		if draw == nil && step == "" {
			return a.Show(ctx, watch, &o, func(ctx context.Context) (connect.Frame, error) {
				root, err := read(ctx)
				t := root.table()
				s.Mark(&t, a.Now())
				return connect.Frame{Table: t, JSON: root, Over: root.State.Terminal()}, err
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
				missing := &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("task %s has no step %q", id, step), Hint: term.Hint("`millrace task tree %s` shows those that it has", id)}
				return connect.OrMeant(missing, step, root.paths("", nil))
			}
			_, err := fmt.Fprintln(a.Out, found.Task)
			return err
		}
		graph := root.picture()
		_, err = fmt.Fprint(a.Out, draw(&graph))
		return err
	})
	return c
}

// StepPaths returns the paths of the steps below a task.
func StepPaths(b *view.Branch, now time.Time) []string {
	root := leafOf(b, now)
	return root.paths("", nil)
}

func leafOf(b *view.Branch, now time.Time) leaf {
	t := &b.Task
	l := leaf{Name: b.Name, Spawned: b.Spawned, Task: t.ID, State: t.State, Reason: t.Reason, Message: task.EndOf(t).Message, Times: t.Attempt, Node: t.Node, Needs: t.Needs}
	if l.said = view.Flat(l.Message); wording.Code(t) != t.Reason { // a person has cancelled it
		l.said = wording.Said(t)
	}
	if l.Took = t.Ran; t.Live() && !t.StartedAt.IsZero() {
		l.Took = value.Duration(max(now.Sub(t.StartedAt), 0))
	}
	for i := range b.Branches {
		l.Children = append(l.Children, leafOf(&b.Branches[i], now))
	}
	rest := slices.Clone(l.Children)
	for _, k := range t.Durable.Taken() {
		node := wording.StepNode(t.ID, &k, now)
		s := leaf{Name: node.Name, State: k.State(), Reason: k.Is, Times: k.Tries, Took: value.Duration(k.Lasted(now)), said: wording.StepGave(&k), step: &node}
		for i := range l.Children {
			if slices.Contains(k.Children, l.Children[i].Task) {
				s.shown = append(s.shown, l.Children[i])
			}
		}
		rest = slices.DeleteFunc(rest, func(c leaf) bool { return slices.Contains(k.Children, c.Task) })
		l.Steps, l.shown = append(l.Steps, k), append(l.shown, s)
	}
	l.shown = append(l.shown, rest...)
	return l
}

// find returns the leaf at a path of names; nil if there is none.
func (l *leaf) find(path []string) *leaf {
	if len(path) == 0 {
		return l
	}
	for i := range l.Children {
		if l.Children[i].Name == path[0] && !l.Children[i].Spawned {
			return l.Children[i].find(path[1:])
		}
	}
	return nil
}

// paths appends the paths of all leaves below it, as find takes them.
func (l *leaf) paths(above string, all []string) []string {
	for i := range l.Children {
		if l.Children[i].Spawned {
			continue // it has no name
		}
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

// ids appends the ids of the leaf and of all below it.
func (l *leaf) ids(all []task.ID) []task.ID {
	all = append(all, l.Task)
	for i := range l.Children {
		all = l.Children[i].ids(all)
	}
	return all
}

// rows adds the leaf and those below it; lead precedes its name, and below theirs.
func (l *leaf) rows(t *term.Table, short func(task.ID) string, lead, below string) {
	name := l.Name
	switch {
	case lead == "":
		name = "."
	case l.Spawned:
		name = cmp.Or(l.Name, "(spawned)")
	}
	state := wording.StateCell(l.State)
	if state.Text = wording.State(l.State, l.Reason); l.State == task.Unknown {
		state.Text = unmade
	}
	attempt, took, needs := "", "", ""
	if l.Times > 0 {
		attempt = strconv.Itoa(l.Times)
	}
	if l.Took > 0 {
		took = wording.Span(l.Took.Std())
	}
	if l.Needs != nil {
		needs = l.Needs.String()
	}
	id := term.Dim("")
	if l.step == nil {
		id = term.Dim(short(l.Task))
	} else {
		state.Text = l.Reason
	}
	t.Add(term.Plain(lead+name), id, state, term.Plain(attempt), term.Plain(l.Node), term.Plain(took), term.Plain(needs), term.Plain(l.said))
	for i := range l.shown {
		branch, trunk := "├─ ", "│  "
		if i == len(l.shown)-1 {
			branch, trunk = "└─ ", "   "
		}
		l.shown[i].rows(t, short, below+branch, below+trunk)
	}
}

// picture converts the tree for drawing.
func (l *leaf) picture() term.Node {
	n := term.Node{ID: l.Task, Name: l.Name, Text: wording.State(l.State, l.Reason), State: l.State}
	if n.Name == "" {
		n.Name = "task " + string(l.Task)
	}
	if l.State == task.Unknown {
		n.Text = unmade
	}
	if l.Needs != nil {
		n.Needs = l.Needs.Of
	}
	if l.step != nil {
		n = *l.step
	}
	for i := range l.shown {
		n.Children = append(n.Children, l.shown[i].picture())
	}
	return n
}

// unmade describes a child that was not made yet.
const unmade = "not made yet"
