package term

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/task"
)

// Sizes in the drawing.
const (
	boxWidth   = 170
	boxHeight  = 44
	boxGap     = 14 // between boxes of one layer, and around them
	bendHeight = 10 // of the room for an arrow that passes a layer
	layerGap   = 60 // has room for the condition of an arrow
	headRoom   = 40 // for a parent's text, above its children
	boxText    = 24 // characters that fit into a box
)

// Drawing is a graph with all positions.
type Drawing struct {
	Width, Height int
	// Boxes come after those that surround them.
	Boxes  []Box
	Arrows []Arrow
}

// Box is a node with its position.
type Box struct {
	*Node
	X, Y, Width, Height int
}

// TextX, NameY and TextY are the positions of the name and the text of a box.
func (b *Box) TextX() int { return b.X + 8 }

// NameY is explained at TextX.
func (b *Box) NameY() int { return b.Y + 17 }

// TextY is explained at TextX.
func (b *Box) TextY() int { return b.Y + 33 }

// Arrow leads from what is needed to what needs it. It passes only between boxes.
type Arrow struct {
	From, To *Node
	// Line are its points: level from each even one to the next, and through a gap between layers from there on.
	Line []Point
	// When is the condition of the need; "" for success, which most ask for.
	When string
}

// Point is a place in a drawing.
type Point struct{ X, Y int }

// Path returns the line of an arrow in SVG's form.
func (a *Arrow) Path() string {
	var b strings.Builder
	for i, p := range a.Line {
		switch {
		case i == 0:
			fmt.Fprintf(&b, "M%d %d", p.X, p.Y)
		case i%2 == 1:
			fmt.Fprintf(&b, "H%d", p.X)
		default:
			from := a.Line[i-1]
			fmt.Fprintf(&b, "C%d %d %d %d %d %d", (from.X+p.X)/2, from.Y, (from.X+p.X)/2, p.Y, p.X, p.Y)
		}
	}
	return b.String()
}

// LabelX and LabelY are the position of the middle of an arrow's condition: in the gap before its end.
func (a *Arrow) LabelX() int { return (a.Line[len(a.Line)-2].X + a.Line[len(a.Line)-1].X) / 2 }

// LabelY is explained at LabelX.
func (a *Arrow) LabelY() int { return (a.Line[len(a.Line)-2].Y+a.Line[len(a.Line)-1].Y)/2 - 4 }

// Draw computes the positions of a graph: children lie in their parent, each to the right of what it needs
// among them and at about the same height, and handlers in a row below the others. Arrows go around boxes.
func Draw(root *Node) Drawing {
	p := place(root)
	p.move(boxGap, boxGap)
	d := Drawing{Width: p.width + 2*boxGap, Height: p.height + 2*boxGap}
	p.draw(&d)
	return d
}

// ShortName and ShortText are as much of them as fits into a box.
func (n *Node) ShortName() string { return Cut(n.Name, boxText) }

// ShortText is explained at ShortName.
func (n *Node) ShortText() string { return Cut(n.Text, boxText) }

// placed is a box with its position, and the arrows between its children.
type placed struct {
	node          *Node
	x, y          int
	width, height int
	children      []placed
	arrows        []Arrow
}

// place computes the sizes of a node and all below it, and their relative positions.
func place(n *Node) placed {
	p := placed{node: n, width: boxWidth, height: boxHeight}
	if len(n.Children) == 0 {
		return p
	}
	// All positions of slots are by their indices: children, then bends.
	slots, depths, ways := bent(n.Children)
	from, to, at := make([]Point, len(slots)), make([]Point, len(slots)), make([]int, len(slots)) // left, right, child
	x, bottom, handlers := boxGap, headRoom, []int(nil)
	for _, layer := range ordered(slots, depths) {
		y, widest, first := headRoom, 0, len(p.children)
		for _, i := range layer {
			height := bendHeight
			if i < len(n.Children) {
				if n.Children[i].Handler {
					handlers = append(handlers, i)
					continue
				}
				c := place(&n.Children[i])
				c.move(x, y)
				at[i], height, widest = len(p.children), c.height, max(widest, c.width)
				p.children = append(p.children, c)
			}
			from[i] = Point{x, y + height/2}
			y += height + boxGap
		}
		for _, i := range layer {
			to[i] = Point{x + widest, from[i].Y}
		}
		if len(p.children) > first {
			x += widest + layerGap
		}
		bottom = max(bottom, y)
	}
	p.width = x - layerGap + boxGap
	slices.Sort(handlers)
	x, y, rowTop := boxGap, bottom, bottom
	for _, i := range handlers {
		c := place(&n.Children[i])
		if x > boxGap && x+c.width+boxGap > max(p.width, 3*boxWidth) {
			x, rowTop = boxGap, y
		}
		c.move(x, rowTop)
		x, y = x+c.width+boxGap, max(y, rowTop+c.height+boxGap)
		p.width = max(p.width, x)
		p.children = append(p.children, c)
	}
	p.height = max(bottom, y)
	for _, w := range ways {
		a := Arrow{From: &n.Children[w.from], To: &n.Children[w.to], When: w.when}
		a.Line = append(a.Line, Point{p.children[at[w.from]].x + p.children[at[w.from]].width, from[w.from].Y}, to[w.from])
		for _, bend := range w.bends {
			a.Line = append(a.Line, from[bend], to[bend])
		}
		p.arrows = append(p.arrows, Arrow{a.From, a.To, append(a.Line, from[w.to]), a.When})
	}
	return p
}

// way is an arrow between nodes, with the bends through which it passes layers in between.
type way struct {
	from, to int
	bends    []int
	when     string
}

// bent adds to nodes, of which each has a layer, a bend in each layer that an arrow passes. A handler has no
// arrows: it would have one from each node.
func bent(nodes []Node) (slots []Node, depths []int, ways []way) {
	depths, slots = layers(nodes), slices.Clone(nodes)
	at := make(map[task.ID]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = i
	}
	for i := range nodes {
		if nodes[i].Handler {
			continue
		}
		slots[i].Needs = nil
		for j := range nodes[i].Needs {
			need := nodes[i].Needs[j]
			from, beside := at[need.Task]
			if !beside || depths[from] >= depths[i] || nodes[from].Handler {
				continue
			}
			w := way{from: from, to: i, when: condition(&need)}
			for depth := depths[from] + 1; depth < depths[i]; depth++ {
				bend := Node{ID: task.ID(fmt.Sprintf("bend %d", len(slots))), Needs: []task.Need{{Task: need.Task}}}
				need.Task = bend.ID
				w.bends = append(w.bends, len(slots))
				slots, depths = append(slots, bend), append(depths, depth)
			}
			slots[i].Needs = append(slots[i].Needs, need)
			ways = append(ways, w)
		}
	}
	return slots, depths, ways
}

// ordered returns the nodes of each layer from top to bottom: each roughly at the height of what it
// needs.
func ordered(nodes []Node, depths []int) (order [][]int) {
	at, high := make(map[task.ID]int, len(nodes)), make([]float64, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = i
		for len(order) <= depths[i] {
			order = append(order, nil)
		}
		order[depths[i]] = append(order[depths[i]], i)
	}
	for _, layer := range order {
		for _, i := range layer {
			sum, n := 0.0, 0.0
			for _, need := range nodes[i].Needs {
				if j, beside := at[need.Task]; beside && depths[j] < depths[i] {
					sum, n = sum+high[j], n+1
				}
			}
			high[i] = sum / max(n, 1)
		}
		slices.SortStableFunc(layer, func(a, b int) int { return cmp.Compare(high[a], high[b]) })
		for n, i := range layer {
			high[i] = (float64(n) + 0.5) / float64(len(layer))
		}
	}
	return order
}

// layers returns the layer of each node: one more than the deepest of those beside it that it
// needs.
func layers(nodes []Node) []int {
	at := make(map[task.ID]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = i
	}
	depths := make([]int, len(nodes))
	// As often as there can be layers; a cycle, which no job may have, ends with that.
	for range nodes {
		changed := false
		for i := range nodes {
			if nodes[i].Handler { // it stands below all layers
				continue
			}
			for _, need := range nodes[i].Needs {
				if j, beside := at[need.Task]; beside && j != i && depths[i] <= depths[j] && depths[j]+1 < len(nodes) {
					depths[i], changed = depths[j]+1, true
				}
			}
		}
		if !changed {
			break
		}
	}
	return filled(depths)
}

// filled renumbers layers without gaps.
func filled(depths []int) []int {
	there := make([]int, len(depths)+1)
	for _, d := range depths {
		there[d+1] = 1
	}
	for d := 1; d < len(there); d++ {
		there[d] += there[d-1]
	}
	for i, d := range depths {
		depths[i] = there[d]
	}
	return depths
}

func (p *placed) move(x, y int) {
	p.x, p.y = p.x+x, p.y+y
	for i := range p.children {
		p.children[i].move(x, y)
	}
	for i := range p.arrows {
		for j := range p.arrows[i].Line {
			p.arrows[i].Line[j].X += x
			p.arrows[i].Line[j].Y += y
		}
	}
}

func (p *placed) draw(d *Drawing) {
	d.Boxes = append(d.Boxes, Box{p.node, p.x, p.y, p.width, p.height})
	d.Arrows = append(d.Arrows, p.arrows...)
	for i := range p.children {
		p.children[i].draw(d)
	}
}
