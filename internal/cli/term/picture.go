package term

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// Node is a task of a graph: a box, around its children if it has any.
type Node struct {
	ID task.ID
	// Name is above Text.
	Name, Text string
	State      task.State
	Needs      []task.Need
	// Handler says that it runs when all others beside it have ended.
	Handler  bool
	Children []Node
}

// colours are the colours of states, by names that Graphviz and style sheets know.
var colours = map[task.State]string{
	task.Finished: "palegreen", task.Error: "salmon", task.Abnormal: "plum", task.Cancelled: "khaki",
	task.Running: "lightblue", task.Retrying: "orange", task.Cancelling: "orange",
}

// Fill returns the colour of a state.
func Fill(s task.State) string {
	if c := colours[s]; c != "" {
		return c
	}
	return "white"
}

// condition returns the condition of a need; "" for success, which most ask for.
func condition(n *task.Need) string {
	if n.When == job.WhenSuccess {
		return ""
	}
	return n.When
}

// each visits a node and all below it.
func (n *Node) each(visit func(*Node)) {
	visit(n)
	for i := range n.Children {
		n.Children[i].each(visit)
	}
}

// Dot returns a graph in the language of Graphviz: parents are boxes around their children, and
// needs are arrows.
func Dot(root *Node) string {
	var b strings.Builder
	b.WriteString("digraph " + strconv.Quote(string(root.ID)) + " {\n  rankdir=LR; compound=true;\n  node [shape=box, style=\"rounded,filled\", fillcolor=white];\n")
	root.dot(&b, "  ")
	root.each(func(n *Node) {
		for i := range n.Needs {
			style := ""
			if when := condition(&n.Needs[i]); when != "" {
				style = " [style=dashed, label=" + strconv.Quote(when) + "]"
			}
			fmt.Fprintf(&b, "  %s -> %s%s;\n", strconv.Quote(string(n.Needs[i].Task)), strconv.Quote(string(n.ID)), style)
		}
	})
	b.WriteString("}\n")
	return b.String()
}

func (n *Node) dot(b *strings.Builder, indent string) {
	label, id := strconv.Quote(Printable(n.Name)+"\n"+Printable(n.Text)), strconv.Quote(string(n.ID))
	if len(n.Children) == 0 {
		fmt.Fprintf(b, "%s%s [label=%s, fillcolor=%s];\n", indent, id, label, Fill(n.State))
		return
	}
	fmt.Fprintf(b, "%ssubgraph %s {\n", indent, strconv.Quote("cluster_"+string(n.ID)))
	fmt.Fprintf(b, "%s  label=%s; style=\"rounded,filled\"; fillcolor=%s;\n", indent, label, Fill(n.State))
	// Arrows to the box end there.
	fmt.Fprintf(b, "%s  %s [shape=point, style=invis];\n", indent, id)
	for i := range n.Children {
		n.Children[i].dot(b, indent+"  ")
	}
	fmt.Fprintf(b, "%s}\n", indent)
}

// Mermaid returns a graph as a flowchart of Mermaid.
func Mermaid(root *Node) string {
	var b strings.Builder
	b.WriteString("flowchart LR\n")
	names, used := map[task.ID]string{}, map[task.State][]string{}
	root.each(func(n *Node) { // ids may be words of the language, such as end
		names[n.ID] = "n" + strconv.Itoa(len(names))
		used[n.State] = append(used[n.State], names[n.ID])
	})
	root.mermaid(&b, names, "  ")
	root.each(func(n *Node) {
		for i := range n.Needs {
			from, arrow := names[n.Needs[i].Task], "-->"
			if when := condition(&n.Needs[i]); when != "" {
				arrow = `-.->|"` + mermaidText(when) + `"|`
			}
			if from != "" {
				fmt.Fprintf(&b, "  %s %s %s\n", from, arrow, names[n.ID])
			}
		}
	})
	for _, s := range append([]task.State{task.Unknown}, task.States()...) {
		if len(used[s]) > 0 {
			fmt.Fprintf(&b, "  classDef is_%s fill:%s,stroke:#333,color:#000\n  class %s is_%s\n", s, Fill(s), strings.Join(used[s], ","), s)
		}
	}
	return b.String()
}

func (n *Node) mermaid(b *strings.Builder, names map[task.ID]string, indent string) {
	label := mermaidText(n.Name) + "<br/>" + mermaidText(n.Text)
	if len(n.Children) == 0 {
		fmt.Fprintf(b, "%s%s[\"%s\"]\n", indent, names[n.ID], label)
		return
	}
	fmt.Fprintf(b, "%ssubgraph %s[\"%s\"]\n", indent, names[n.ID], label)
	for i := range n.Children {
		n.Children[i].mermaid(b, names, indent+"  ")
	}
	fmt.Fprintf(b, "%send\n", indent)
}

// mermaidText escapes a text so that Mermaid interprets nothing in it, nor as HTML: all but plain
// characters become its entities.
func mermaidText(s string) string {
	var b strings.Builder
	for _, r := range Printable(s) {
		plain := r > 127 || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune(" _-./", r)
		if plain {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}

// Span is a bar of a timeline.
type Span struct {
	Name     string
	From, To time.Time
}

// Gantt returns a timeline as a Gantt chart of Mermaid.
func Gantt(title string, spans []Span) string {
	var b strings.Builder
	fmt.Fprintf(&b, "gantt\n  title %s\n  dateFormat x\n  axisFormat %%H:%%M:%%S\n", mermaidText(title))
	for i, s := range spans {
		from := s.From.UnixMilli()
		// A bar of no length is not drawn.
		fmt.Fprintf(&b, "  %s :s%d, %d, %d\n", mermaidText(s.Name), i, from, max(s.To.UnixMilli(), from+1))
	}
	return b.String()
}
