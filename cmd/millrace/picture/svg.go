package picture

import (
	"fmt"
	"strings"
	"time"

	"millrace/cmd/millrace/term"
	"millrace/task"
)

// Sizes of what is drawn.
const (
	boxWidth  = 170
	boxHeight = 44
	boxGap    = 14 // between boxes of one layer, and round them
	layerGap  = 40
	headRoom  = 40 // for what is said of a parent, above its children
	boxText   = 24 // characters that go into a box

	barsWidth = 640
	barHeight = 22
	nameWidth = 240
	nameText  = 36
)

const svgHead = `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" font-family="sans-serif" font-size="12">
<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>
<rect width="100%%" height="100%%" fill="white"/>
`

// placed is a box with its place.
type placed struct {
	node          *Node
	x, y          int
	width, height int
	children      []placed
}

// SVG is a graph as a picture: children stand in their parent, each to the right of what it needs.
func SVG(root *Node) string {
	p := place(root)
	p.move(boxGap, boxGap)
	var b strings.Builder
	fmt.Fprintf(&b, svgHead, p.width+2*boxGap, p.height+2*boxGap)
	places := map[task.ID]*placed{}
	p.draw(&b, places)
	root.each(func(n *Node) {
		for i := range n.Needs {
			if from := places[n.Needs[i].Task]; from != nil {
				arrow(&b, from, places[n.ID], condition(&n.Needs[i]))
			}
		}
	})
	b.WriteString("</svg>\n")
	return b.String()
}

// place gives a node and all below it their sizes, and their places beside each other.
func place(n *Node) placed {
	p := placed{node: n, width: boxWidth, height: boxHeight}
	if len(n.Children) == 0 {
		return p
	}
	depths := layers(n.Children)
	x, bottom := boxGap, headRoom
	for layer, left := 0, len(n.Children); left > 0; layer++ {
		y, widest := headRoom, 0
		for i := range n.Children {
			if depths[i] != layer {
				continue
			}
			c := place(&n.Children[i])
			c.move(x, y)
			y, widest = y+c.height+boxGap, max(widest, c.width)
			p.children = append(p.children, c)
			left--
		}
		x, bottom = x+widest+layerGap, max(bottom, y)
	}
	p.width, p.height = x-layerGap+boxGap, bottom
	return p
}

// layers says of each node how many others it stands behind: one more than the deepest of those beside it that it needs.
func layers(nodes []Node) []int {
	at := make(map[task.ID]int, len(nodes))
	for i := range nodes {
		at[nodes[i].ID] = i
	}
	depths := make([]int, len(nodes))
	for range nodes { // as often as there can be layers; a circle, which no job may have, ends with that
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

// filled numbers layers without a gap, so that there is something in each.
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

func (p *placed) draw(b *strings.Builder, places map[task.ID]*placed) {
	places[p.node.ID] = p
	fmt.Fprintf(b, `<g><title>%s: %s</title><rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#333"/>`,
		xmlText(p.node.Name), xmlText(p.node.Text), p.x, p.y, p.width, p.height, Colour(p.node.State))
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold">%s</text><text x="%d" y="%d">%s</text></g>`+"\n",
		p.x+8, p.y+17, xmlText(term.Cut(p.node.Name, boxText)), p.x+8, p.y+33, xmlText(term.Cut(p.node.Text, boxText)))
	for i := range p.children {
		p.children[i].draw(b, places)
	}
}

func arrow(b *strings.Builder, from, to *placed, when string) {
	x1, y1, x2, y2 := from.x+from.width, from.y+from.height/2, to.x, to.y+to.height/2
	dashed := ""
	if when != "" {
		dashed = ` stroke-dasharray="4 3"`
	}
	fmt.Fprintf(b, `<path d="M%d %dC%d %d %d %d %d %d" fill="none" stroke="#333"%s marker-end="url(#arrow)"/>`+"\n", x1, y1, x1+layerGap/2, y1, x2-layerGap/2, y2, x2, y2, dashed)
	if when != "" {
		fmt.Fprintf(b, `<text x="%d" y="%d" font-size="10">%s</text>`+"\n", (x1+x2)/2-boxGap, (y1+y2)/2-4, xmlText(when))
	}
}

// Timeline is a timeline as a picture: a line for each name, in the order in which those begin.
func Timeline(title string, spans []Span) string {
	var b strings.Builder
	rows := map[string]int{}
	var from, to time.Time
	for i, s := range spans {
		if _, there := rows[s.Name]; !there {
			rows[s.Name] = len(rows)
		}
		if i == 0 || s.From.Before(from) {
			from = s.From
		}
		if s.To.After(to) {
			to = s.To
		}
	}
	width, top := nameWidth+barsWidth+boxGap, 2*barHeight
	fmt.Fprintf(&b, svgHead, width, top+(len(rows)+1)*barHeight)
	fmt.Fprintf(&b, `<text x="8" y="16" font-weight="bold">%s</text>`+"\n", xmlText(title))
	if len(spans) > 0 {
		fmt.Fprintf(&b, `<text x="%d" y="%d">%s</text><text x="%d" y="%d" text-anchor="end">%s</text>`+"\n",
			nameWidth, top-6, from.UTC().Format(time.RFC3339), nameWidth+barsWidth, top-6, to.UTC().Format(time.RFC3339))
	}
	whole := max(to.Sub(from), 1)
	named := map[string]bool{}
	for _, s := range spans {
		y := top + rows[s.Name]*barHeight
		if !named[s.Name] {
			named[s.Name] = true
			fmt.Fprintf(&b, `<text x="8" y="%d">%s</text>`+"\n", y+15, xmlText(term.Cut(s.Name, nameText)))
		}
		at := func(d time.Duration) float64 { return float64(d) / float64(whole) * barsWidth }
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#333" stroke-width="0.5"><title>%s: %s</title></rect>`+"\n",
			nameWidth+at(s.From.Sub(from)), y+3, max(at(s.To.Sub(s.From)), 1), barHeight-6, xmlText(s.Colour), xmlText(s.Name), s.To.Sub(s.From))
	}
	b.WriteString("</svg>\n")
	return b.String()
}
