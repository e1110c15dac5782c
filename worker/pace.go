package worker

import (
	"context"
	"sync"
	"time"
)

// pace bounds how many offers a worker claims at once, by how long its claims take, and how many
// attempts it holds at once, by how long its heartbeats take. On a starved machine each message takes
// long, and many at once take longer still: then leases are half over when their attempts begin, or
// heartbeats confirm them too late, and all must be given back. With fewer at once the machine does
// as much, and what it begins it can end.
//
// The bounds are as for the window of a connection: half as many after a message that took too long,
// more after each that did not: one more claim, a quarter more attempts.
type pace struct {
	slow time.Duration // a claim or heartbeat that takes as long took too long

	mu     sync.Mutex
	most   int           // guarded by mu; how many claims there may be at once
	busy   int           // guarded by mu; how many there are
	halved time.Time     // guarded by mu; when most was halved: older claims say nothing new
	hold   int           // guarded by mu; how many attempts there may be at once, those being claimed too
	held   int           // guarded by mu; how many there are
	eased  time.Time     // guarded by mu; when hold was halved: older heartbeats and leases say nothing new
	slots  int           // the largest bound
	freed  chan struct{} // guarded by mu; closed when a claim or an attempt ends, or a bound grows
	over   bool          // guarded by mu; no claim may begin any more
}

func newPace(slots int, slow time.Duration) *pace {
	return &pace{slow: slow, most: slots, hold: slots, slots: slots, freed: make(chan struct{})}
}

// begin waits until one more claim may be made. It is false if ctx ends before that, or no claim may
// be made any more.
func (p *pace) begin(ctx context.Context) bool {
	for {
		p.mu.Lock()
		if p.over || p.busy < p.most && p.held < p.hold {
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
	p.held++
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

// end ends what begin or join began. Began is when its offer came; zero if none came. Kept says that
// an attempt has begun, which release ends.
func (p *pace) end(began, now time.Time, kept bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	if !kept {
		p.held--
	}
	switch took := now.Sub(began); {
	case began.IsZero():
	case took < p.slow:
		p.most = min(p.most+1, p.slots)
	case began.After(p.halved):
		p.most, p.halved = max(p.most/2, 1), now
	}
	p.wake()
}

// release ends an attempt that was claimed at began. Lost says that it had to be given back because
// its lease could not be confirmed in time: then the node holds too many.
func (p *pace) release(began, now time.Time, lost bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if lost {
		p.less(began, now)
	}
	p.held--
	p.wake()
}

// beat takes that a heartbeat sent at that time is stored now.
func (p *pace) beat(sent, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(sent) >= p.slow {
		p.less(sent, now)
	} else if p.hold < p.slots {
		p.hold = min(p.hold+max(p.hold/4, 1), p.slots)
		p.wake()
	}
}

// less halves how many attempts there may be, unless that was done since the time of the evidence.
func (p *pace) less(since, now time.Time) {
	if since.After(p.eased) {
		p.hold, p.eased = max(min(p.held, p.hold)/2, 1), now
	}
}

func (p *pace) wake() {
	close(p.freed)
	p.freed = make(chan struct{})
}
