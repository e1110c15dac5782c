package term

import (
	"cmp"
	"fmt"
	"slices"

	"millrace/task"
)

// Sizes in the drawing.
const (
	boxWidth  = 170
	boxHeight = 44
	boxGap    = 14 // between boxes of one layer, and around them
	layerGap  = 40
	headRoom  = 40 // for a parent's text, above its children
	boxText   = 24 // characters that fit into a box
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

// Arrow leads from what is needed to what needs it.
type Arrow struct {
	From, To *Node
	X1, Y1   int
	X2, Y2   int
	// When is the condition of the need; "" for success, which most ask for.
	When string
}

// Path returns the line of an arrow in SVG's form.
func (a *Arrow) Path() string {
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %d", a.X1, a.Y1, a.X1+layerGap/2, a.Y1, a.X2-layerGap/2, a.Y2, a.X2, a.Y2)
}

// LabelX and LabelY are the position of an arrow's condition.
func (a *Arrow) LabelX() int { return (a.X1+a.X2)/2 - boxGap }

// LabelY is explained at LabelX.
func (a *Arrow) LabelY() int { return (a.Y1+a.Y2)/2 - 4 }

// Draw computes the positions of a graph: children lie in their parent, each to the right of what
// it needs and at about the same height.
func Draw(root *Node) Drawing {
	p := place(root)
	p.move(boxGap, boxGap)
	d := Drawing{Width: p.width + 2*boxGap, Height: p.height + 2*boxGap}
	p.draw(&d)
	places := make(map[task.ID]*Box, len(d.Boxes))
	for i := range d.Boxes {
		places[d.Boxes[i].ID] = &d.Boxes[i]
	}
	for i := range d.Boxes {
		to := &d.Boxes[i]
		for j := range to.Needs {
			if from := places[to.Needs[j].Task]; from != nil {
				d.Arrows = append(d.Arrows, Arrow{from.Node, to.Node, from.X + from.Width, from.Y + from.Height/2, to.X, to.Y + to.Height/2, condition(&to.Needs[j])})
			}
		}
	}
	return d
}

// ShortName and ShortText are as much of them as fits into a box.
func (n *Node) ShortName() string { return Cut(n.Name, boxText) }

// ShortText is explained at ShortName.
func (n *Node) ShortText() string { return Cut(n.Text, boxText) }

// placed is a box with its position.
type placed struct {
	node          *Node
	x, y          int
	width, height int
	children      []placed
}

// place computes the sizes of a node and all below it, and their relative positions.
func place(n *Node) placed {
	p := placed{node: n, width: boxWidth, height: boxHeight}
	if len(n.Children) == 0 {
		return p
	}
	x, bottom := boxGap, headRoom
	for _, layer := range ordered(n.Children, layers(n.Children)) {
		y, widest := headRoom, 0
		for _, i := range layer {
			c := place(&n.Children[i])
			c.move(x, y)
			y, widest = y+c.height+boxGap, max(widest, c.width)
			p.children = append(p.children, c)
		}
		x, bottom = x+widest+layerGap, max(bottom, y)
	}
	p.width, p.height = x-layerGap+boxGap, bottom
	return p
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
}

func (p *placed) draw(d *Drawing) {
	d.Boxes = append(d.Boxes, Box{p.node, p.x, p.y, p.width, p.height})
	for i := range p.children {
		p.children[i].draw(d)
	}
}
