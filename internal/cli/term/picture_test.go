package term

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
)

// nasty are names that mean something to one language or another.
var nasty = []string{
	`"]; end; click n0 "javascript:alert(1)"`, `</text><script>alert(1)</script>`, `a & b < c > d 'e' "f"`, "line\nbreak\x1b[31m", `back\slash\N`, "`md` %% note", "#quot; :: ; ,",
	"end", "ümlaut →", `<![CDATA[x]]> ]]>`, `x" onload="alert(1)`,
}

// graph is a parent with a step for each of the nasty names, each of which needs the step before
// it; the first step has a list of children.
func graph() *Node {
	root := &Node{ID: "root", Name: nasty[0], Text: nasty[1], State: task.Running}
	for i, name := range nasty {
		n := Node{ID: task.ID("t" + string(rune('a'+i))), Name: name, Text: "error/" + name, State: task.States()[i%len(task.States())]}
		if i > 0 {
			n.Needs = []task.Need{{Task: root.Children[i-1].ID, When: []string{"", job.WhenSuccess, job.WhenFailure, nasty[2]}[i%4]}, {Task: "elsewhere"}}
		}
		root.Children = append(root.Children, n)
	}
	root.Children[0].Children = []Node{{ID: "k0", Name: "0", State: task.Finished}, {ID: "k1", Name: "1"}}
	return root
}

func bars() (spans []Span) {
	noon := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	for i, name := range append(nasty, nasty[0]) {
		from := noon.Add(time.Duration(i) * time.Minute)
		spans = append(spans, Span{Name: name, From: from, To: from.Add(time.Duration(i%3) * time.Second)})
	}
	return spans
}

func TestMermaidEscapes(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(Mermaid(graph())), "\n") {
		line = strings.TrimSpace(line)
		known := slices.ContainsFunc([]string{"flowchart LR", "subgraph n", "end", "n", "classDef is_", "class n"}, func(p string) bool { return strings.HasPrefix(line, p) })
		quotes := strings.Count(line, `"`)
		if !known || quotes != 0 && quotes != 2 || strings.Contains(strings.ReplaceAll(line, "<br/>", ""), "<") || strings.ContainsAny(line, "`\\\x1b'") {
			t.Errorf("%q", line)
		}
	}
	for i, line := range strings.Split(strings.TrimSpace(Gantt(nasty[1], bars())), "\n") {
		if i < 4 {
			if strings.ContainsAny(line, "<>\"") {
				t.Errorf("%q", line)
			}
			continue
		}
		if name, rest, found := strings.Cut(line, " :s"); !found || strings.ContainsAny(name, ":<>\"`\\") || strings.ContainsAny(rest, ":#;") {
			t.Errorf("%q", line)
		}
	}
}

func TestDotEscapes(t *testing.T) {
	for _, line := range strings.Split(Dot(graph()), "\n") {
		quoted, escaped := false, false
		for _, r := range line {
			switch {
			case escaped:
				escaped = false
				if !strings.ContainsRune(`"\n`, r) {
					t.Errorf("%q escapes %q", line, r)
				}
			case r == '\\':
				escaped = true
			case r == '"':
				quoted = !quoted
			case !quoted && strings.ContainsRune("<>'&", r) && !strings.Contains(line, " -> "):
				t.Errorf("%q has %q outside of quotes", line, r)
			}
		}
		if quoted {
			t.Errorf("%q has an open quote", line)
		}
	}
}

func TestPictures(t *testing.T) {
	root := &Node{ID: "r", Name: "release", Text: "running", State: task.Running, Children: []Node{
		{ID: "a", Name: "build", Text: "finished", State: task.Finished},
		{ID: "b", Name: "ship", Text: "running", State: task.Running, Needs: []task.Need{{Task: "a"}}, Children: []Node{{ID: "b0", Name: "0", Text: "running", State: task.Running}}},
		{ID: "c", Name: "mend", Text: "not made yet", Needs: []task.Need{{Task: "a", When: job.WhenFailure}}},
	}}
	for name, c := range map[string]struct{ is, want string }{
		"mermaid": {Mermaid(root), `flowchart LR
  subgraph n0["release<br/>running"]
    n1["build<br/>finished"]
    subgraph n2["ship<br/>running"]
      n3["0<br/>running"]
    end
    n4["mend<br/>not made yet"]
  end
  n1 --> n2
  n1 -.->|"failure"| n4
  classDef is_unknown fill:white,stroke:#333,color:#000
  class n4 is_unknown
  classDef is_running fill:lightblue,stroke:#333,color:#000
  class n0,n2,n3 is_running
  classDef is_finished fill:palegreen,stroke:#333,color:#000
  class n1 is_finished
`},
		"dot": {Dot(root), `digraph "r" {
  rankdir=LR; compound=true;
  node [shape=box, style="rounded,filled", fillcolor=white];
  subgraph "cluster_r" {
    label="release\nrunning"; style="rounded,filled"; fillcolor=lightblue;
    "r" [shape=point, style=invis];
    "a" [label="build\nfinished", fillcolor=palegreen];
    subgraph "cluster_b" {
      label="ship\nrunning"; style="rounded,filled"; fillcolor=lightblue;
      "b" [shape=point, style=invis];
      "b0" [label="0\nrunning", fillcolor=lightblue];
    }
    "c" [label="mend\nnot made yet", fillcolor=white];
  }
  "a" -> "b";
  "a" -> "c" [style=dashed, label="failure"];
}
`},
		"gantt": {Gantt("task r", []Span{{Name: "run 1 on a", From: time.UnixMilli(1000), To: time.UnixMilli(1000)}}), `gantt
  title task r
  dateFormat x
  axisFormat %H:%M:%S
  run 1 on a :s0, 1000, 1001
`},
	} {
		if c.is != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, c.is, c.want)
		}
	}
}

// Boxes stand behind what they need, side by side, and inside their parents.
func TestPlaces(t *testing.T) {
	for _, c := range []struct {
		needs [][]int
		want  []int
	}{
		{[][]int{{}, {}, {}}, []int{0, 0, 0}},
		{[][]int{{}, {0}, {1}, {0}}, []int{0, 1, 2, 1}},
		{[][]int{{2}, {0}, {}}, []int{1, 2, 0}},
		{[][]int{{1}, {0}, {}}, []int{1, 2, 0}}, // a circle ends, and all of them are drawn
	} {
		nodes := make([]Node, len(c.needs))
		for i, needs := range c.needs {
			nodes[i].ID = task.ID(rune('a' + i))
			for _, j := range needs {
				nodes[i].Needs = append(nodes[i].Needs, task.Need{Task: task.ID(rune('a' + j))})
			}
		}
		if is := layers(nodes); !slices.Equal(is, c.want) {
			t.Errorf("%v: %v, want %v", c.needs, is, c.want)
		}
	}
	var inside func(p *placed)
	inside = func(p *placed) {
		for i := range p.children {
			k := &p.children[i]
			if k.x < p.x || k.y < p.y+boxHeight/2 || k.x+k.width > p.x+p.width || k.y+k.height > p.y+p.height {
				t.Errorf("%q is outside of %q", k.node.Name, p.node.Name)
			}
			for j := range i {
				if o := &p.children[j]; k.x < o.x+o.width && o.x < k.x+k.width && k.y < o.y+o.height && o.y < k.y+k.height {
					t.Errorf("%q lies over %q", k.node.Name, o.node.Name)
				}
			}
			inside(k)
		}
	}
	p := place(graph())
	p.move(boxGap, boxGap)
	if inside(&p); len(p.children) != len(nasty) {
		t.Errorf("%d children", len(p.children))
	}
}

// A box that needs the lower of two stands lower, so that lines do not cross.
func TestOrder(t *testing.T) {
	needs := func(id task.ID, of ...task.ID) (n Node) {
		n.ID = id
		for _, o := range of {
			n.Needs = append(n.Needs, task.Need{Task: o})
		}
		return n
	}
	nodes := []Node{needs("a"), needs("b"), needs("c", "b"), needs("d", "a"), needs("e", "a", "b"), needs("f", "c", "elsewhere")}
	want := [][]int{{0, 1}, {3, 4, 2}, {5}}
	if got := ordered(nodes, layers(nodes)); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	root := &Node{ID: "r", Children: nodes}
	d := Draw(root)
	if len(d.Boxes) != 7 || len(d.Arrows) != 5 || d.Boxes[0].Node != root {
		t.Errorf("%d boxes, %d arrows", len(d.Boxes), len(d.Arrows))
	}
	for _, a := range d.Arrows {
		if a.Line[0].X >= a.Line[len(a.Line)-1].X {
			t.Errorf("an arrow leads back from %s to %s", a.From.ID, a.To.ID)
		}
	}
}

// Whatever needs what, no arrow passes over a box, nor one box over another; handlers stand below, without arrows.
func TestArrowsGoAround(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 39))
		var random func(prefix string, deep int) []Node
		random = func(prefix string, deep int) []Node {
			nodes := make([]Node, 1+r.IntN(9))
			for i := range nodes {
				nodes[i].ID = task.ID(prefix + string(rune('a'+i)))
				nodes[i].Handler = i > 0 && r.IntN(6) == 0
				for j := range i {
					if r.IntN(3) == 0 {
						nodes[i].Needs = append(nodes[i].Needs, task.Need{Task: nodes[j].ID})
					}
				}
				if deep > 0 && r.IntN(4) == 0 {
					nodes[i].Children = random(string(nodes[i].ID), deep-1)
				}
			}
			return nodes
		}
		d := Draw(&Node{ID: "root", Children: random("", 2)})
		over := func(b *Box, x1, y1, x2, y2 int) bool {
			return x1 < b.X+b.Width && b.X < x2 && y1 <= b.Y+b.Height && b.Y <= y2
		}
		for i := range d.Arrows {
			a := &d.Arrows[i]
			for j := range a.Line[1:] {
				from, to := a.Line[j], a.Line[j+1]
				if from.X > to.X || j%2 == 0 && from.Y != to.Y {
					t.Fatalf("seed %d: an arrow goes from %v to %v", seed, from, to)
				}
				for k := range d.Boxes {
					// A curve lies within the rectangle between its ends; the boxes around the arrow surround it.
					b := &d.Boxes[k]
					if around := b.ID == "root" || strings.HasPrefix(string(a.From.ID), string(b.ID)) && b.ID != a.From.ID; around {
						continue
					}
					if over(b, from.X, min(from.Y, to.Y), to.X, max(from.Y, to.Y)) {
						t.Fatalf("seed %d: the arrow from %s to %s, at %v to %v, passes over %s at %d,%d", seed, a.From.ID, a.To.ID, from, to, b.ID, b.X, b.Y)
					}
				}
			}
			if a.From.Handler || a.To.Handler {
				t.Fatalf("seed %d: an arrow of a handler", seed)
			}
		}
		for i := range d.Boxes {
			for j := range i {
				a, b := &d.Boxes[i], &d.Boxes[j]
				if nested := b.ID == "root" || strings.HasPrefix(string(a.ID), string(b.ID)); !nested && over(a, b.X, b.Y, b.X+b.Width, b.Y+b.Height) {
					t.Fatalf("seed %d: %s lies over %s", seed, a.ID, b.ID)
				}
			}
		}
		if d.Width > 20000 || len(d.Boxes) == 0 {
			t.Fatalf("seed %d: %d boxes, %d wide", seed, len(d.Boxes), d.Width)
		}
	}
}
