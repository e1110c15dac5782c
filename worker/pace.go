package worker

import (
	"context"
	"sync"
	"time"
)

// pace bounds how many offers a worker claims at once, by how long its claims take. On a starved
// machine each claim takes long, and many at once take longer still: then their leases are half over
// when the attempts begin, or their node's heartbeat is late, and all must be given back. With fewer
// at once the machine does as much, and what it begins it can end.
//
// The bound is as for the window of a connection: half as many after a claim that took too long, one
// more after each that did not.
type pace struct {
	slow time.Duration // a claim that takes as long took too long

	mu     sync.Mutex
	most   int           // guarded by mu; how many claims there may be at once
	busy   int           // guarded by mu; how many there are
	halved time.Time     // guarded by mu; when most was halved: older claims say nothing new
	slots  int           // the largest bound
	freed  chan struct{} // guarded by mu; closed when a claim ends
	over   bool          // guarded by mu; no claim may begin any more
}

func newPace(slots int, slow time.Duration) *pace {
	return &pace{slow: slow, most: slots, slots: slots, freed: make(chan struct{})}
}

// begin waits until one more claim may be made. It is false if ctx ends before that, or no claim may
// be made any more.
func (p *pace) begin(ctx context.Context) bool {
	for {
		p.mu.Lock()
		if p.over || p.busy < p.most {
			defer p.mu.Unlock()
			return p.enter()
		}
		freed := p.freed
		p.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// join is begin for a claim that must not wait, because its offer is in hand.
func (p *pace) join() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.enter()
}

func (p *pace) enter() bool {
	if p.over {
		return false
	}
	p.busy++
	return true
}

// stop lets no further claim begin, and waits until none is under way. It is false if ctx ends before
// that.
func (p *pace) stop(ctx context.Context) bool {
	for {
		p.mu.Lock()
		p.over = true
		busy, freed := p.busy, p.freed
		p.mu.Unlock()
		if busy == 0 {
			return true
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return false
		}
	}
}

// end ends what begin or join began. Began is when its offer came; zero if none came.
func (p *pace) end(began, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	switch took := now.Sub(began); {
	case began.IsZero():
	case took < p.slow:
		p.most = min(p.most+1, p.slots)
	case began.After(p.halved):
		p.most, p.halved = max(p.most/2, 1), now
	}
	close(p.freed)
	p.freed = make(chan struct{})
}
