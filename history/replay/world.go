package replay

import (
	"context"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task/node"
)

// model is a read model of a point in a span. It only lists nodes.
type model struct {
	view.Unfolded
	nodes func() []node.Node
}

// List implements [view.Model].
func (m model) List(ctx context.Context, q view.Query) (view.Page, error) {
	if q.Kind != view.Nodes {
		return m.Unfolded.List(ctx, q)
	}
	return view.Page{Nodes: m.nodes(), Point: view.Point(m.Unfolded)}, nil
}

// until are the facts of a span up to a place.
type until struct {
	span *Span
	pos  int
}

// about is a [view.Facts].
func (u until) about(_ context.Context, ref view.Ref) ([]events.Record, error) {
	c := u.span.chains[ref]
	if c == nil {
		return nil, nil
	}
	about := make([]events.Record, c.upTo(u.pos))
	for i := range about {
		about[i] = u.span.record(int(c.at[i]))
	}
	return about, nil
}

// world is the state after a fact, judged at a time. The nodes may be those of an earlier place, up
// to which a decider had seen the log.
func (s *Span) world(pos, seen int, at time.Time) view.View {
	return s.worldOf(pos, at, func() []node.Node { return s.nodesAt(seen) })
}

func (s *Span) worldOf(pos int, at time.Time, nodes func() []node.Node) view.View {
	p := view.Point{At: at}
	if pos >= 0 {
		p.Seq = s.facts[pos].seq
	}
	return view.At(model{view.Unfolded(p), nodes}, until{s, pos}.about, p.Seq)
}

// nodesAt returns the nodes known after a fact, by id.
func (s *Span) nodesAt(pos int) []node.Node {
	var nodes []node.Node
	for _, ref := range s.nodes {
		if int(s.chains[ref].at[0]) <= pos {
			nodes = append(nodes, *s.fold(ref, pos).Node)
		}
	}
	return nodes
}

// known returns the nodes that a pass has seen, by id.
func (p *pass) known() []node.Node {
	var nodes []node.Node
	for _, ref := range p.span.nodes {
		if item := p.items[ref]; item != nil {
			nodes = append(nodes, *item.Node)
		}
	}
	return nodes
}

func byID(a, b view.Ref) int { return strings.Compare(a.ID, b.ID) }
