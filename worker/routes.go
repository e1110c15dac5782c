package worker

import (
	"context"
	"errors"
	"slices"
	"time"

	"millrace/events"
	"millrace/task/node"
	"millrace/task/placement"
)

// routesAgain is how often the node looks at all routes of selectors, in case it missed a
// declaration.
const routesAgain = 15 * time.Second

// heardAtOnce is how many declarations may wait to be looked at.
const heardAtOnce = 256

// routes are the routes of selectors that the node pulls from. They belong to the goroutine that
// looks after the node.
type routes struct {
	names  []string
	head   uint64    // of the node's chain, when the routes were chosen
	looked time.Time // when they were chosen
	stale  bool      // one may have been declared since
	vain   int       // consecutive failures to serve them
	// heard are declarations that a read may not show yet.
	heard []placement.Declaration
}

// soon is when the node looks again at routes that it could not serve: at first almost at once, for
// a route just declared is stored within moments.
func (r *routes) soon() time.Duration {
	return min(servedAgain<<min(r.vain, 10), proveAgain)
}

// servedAgain is the first of these pauses; each is twice as long as the one before.
const servedAgain = 5 * time.Millisecond

// hear takes the message that a route was declared.
func (p *presence) hear(ctx context.Context, d placement.Declaration) {
	r := &p.routes
	if slices.ContainsFunc(r.heard, func(known placement.Declaration) bool { return known.Route() == d.Route() }) {
		return
	}
	r.heard = append(r.heard, d)
	if names := matching(&p.node.Node, []placement.Declaration{d}); len(names) == 0 || slices.Contains(r.names, names[0]) {
		return
	}
	p.serve(ctx, append(slices.Clone(r.names), d.Route()))
}

// serve has the node pull from these routes.
func (p *presence) serve(ctx context.Context, names []string) {
	slices.Sort(names)
	if slices.Equal(names, p.routes.names) {
		p.routes.vain = 0
		return
	}
	err := p.offers.Also(ctx, names)
	switch {
	case err == nil:
		p.w.log.Info("serving the selectors that choose this node", "routes", len(names))
	case errors.Is(err, events.ErrDenied): // asking again changes nothing
		p.w.log.Warn("this node gets no tasks by some selectors that choose it", "error", err)
	default:
		p.routes.stale = true
		if p.routes.vain++; p.routes.soon() < proveAgain {
			return
		}
		p.w.log.Warn("not all selectors that choose this node can be served; trying again", "error", err)
		return
	}
	p.routes.names, p.routes.vain = names, 0
}

// known is a node as of one of its facts, and the labels by which selectors choose it then.
type known struct {
	labels map[string]string
	node   events.KnownNode
}

// choose makes the node pull from exactly those routes of selectors that match it. It sets the new
// labels for claims before the node pulls by them.
func (p *presence) choose(ctx context.Context) {
	w, r := p.w, &p.routes
	if !r.stale && r.head == p.node.Head && time.Since(r.looked) < routesAgain {
		return
	}
	w.known.Store(&known{p.node.Selectable(), p.node})
	r.stale = false
	declared, err := w.offers.Declared(ctx)
	if err != nil {
		r.stale = true
		r.vain++
		w.log.Warn("it cannot be seen which selectors choose this node; trying again", "error", err)
		return
	}
	p.serve(ctx, matching(&p.node.Node, append(declared, r.heard...)))
	if time.Since(r.looked) >= routesAgain {
		r.heard = nil // by now it is found, or was retracted
	}
	r.head, r.looked = p.node.Head, time.Now()
}

// matching returns the routes that the node may pull from, whether or not it takes work now.
func matching(n *node.Node, declared []placement.Declaration) []string {
	var names []string
	for _, d := range declared {
		if rule, _ := n.Excluded(node.Want{Queue: d.Queue, Needs: d.Needs}); rule == "" || rule.Passing() {
			names = append(names, d.Route())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
