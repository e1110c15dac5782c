package worker

import (
	"context"
	"sync"
)

// gate is what a slot passes before it pulls. It is shut while the node takes no work.
type gate struct {
	mu     sync.Mutex
	opened chan struct{}      // guarded by mu; closed while the gate is open
	ctx    context.Context    // guarded by mu; ends when the gate shuts
	shut   context.CancelFunc // guarded by mu; nil while it is shut
}

func newGate() *gate { return &gate{opened: make(chan struct{})} }

// set opens or shuts the gate.
func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case open && g.shut == nil:
		g.ctx, g.shut = context.WithCancel(context.Background())
		close(g.opened)
	case !open && g.shut != nil:
		g.shut()
		g.shut, g.opened = nil, make(chan struct{})
	}
}

// kick makes slots that have entered the gate enter again, if it is open.
func (g *gate) kick() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		g.shut()
		g.ctx, g.shut = context.WithCancel(context.Background())
	}
}

// enter waits until the gate is open. It returns a context that ends when the
// gate shuts, and false if ctx ends before that.
func (g *gate) enter(ctx context.Context) (context.Context, bool) {
	for {
		g.mu.Lock()
		opened, open, until := g.opened, g.shut != nil, g.ctx
		g.mu.Unlock()
		if open {
			return until, ctx.Err() == nil
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-opened:
		}
	}
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut != nil
}
