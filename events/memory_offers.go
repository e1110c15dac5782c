package events

import (
	"context"
	"errors"
	"slices"
	"time"

	"millrace/task/queue"
)

type memoryFeed struct {
	m    *Memory
	next uint64
}

func (f *memoryFeed) Next(ctx context.Context) ([]Record, error) {
	for {
		f.m.mu.Lock()
		f.m.fireTimers()
		if last := f.m.last(); f.next <= last {
			batch := slices.Clone(f.m.records[f.m.index(f.next):])
			f.next = last + 1
			f.m.mu.Unlock()
			return batch, nil
		}
		changed, soonest := f.m.changed, f.m.soonest()
		f.m.mu.Unlock()
		if err := f.m.wait(ctx, changed, soonest); err != nil {
			return nil, err
		}
	}
}

func (f *memoryFeed) Close() {}

// MemoryOffers is the [Offers] of a [Memory].
type MemoryOffers struct {
	m      *Memory
	queues []string
	also   []string // guarded by m.mu
}

// Also implements [Offers].
func (o *MemoryOffers) Also(_ context.Context, queues []string) error {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	o.also = slices.Clone(queues)
	o.m.wake()
	return nil
}

// Weigh implements [Offers]. This log hands out offers in order of arrival.
func (o *MemoryOffers) Weigh(map[string]int) {}

// Next implements [Offers].
func (o *MemoryOffers) Next(ctx context.Context) (*Offer, error) {
	place := &memoryWait{o}
	defer o.leave(place)
	o.m.mu.Lock()
	o.m.waiting = append(o.m.waiting, place)
	o.m.mu.Unlock()
	for {
		o.m.mu.Lock()
		offer := o.take(place)
		changed, soonest := o.m.changed, o.m.soonest()
		o.m.mu.Unlock()
		if offer != nil {
			return offer, nil
		}
		if err := o.m.wait(ctx, changed, soonest); err != nil {
			return nil, err
		}
	}
}

// leave ends a wait. The next in line may have its turn now.
func (o *MemoryOffers) leave(place *memoryWait) {
	m := o.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiting = slices.DeleteFunc(m.waiting, func(p *memoryWait) bool { return p == place })
	if len(m.waiting) > 0 {
		m.wake()
	}
}

// Try returns an offer if there is one now, else nil. It precedes all waiting callers.
func (o *MemoryOffers) Try() *Offer {
	o.m.mu.Lock()
	defer o.m.mu.Unlock()
	return o.take(nil)
}

// serves tells whether this source pulls from a queue. The caller holds m.mu.
func (o *MemoryOffers) serves(queue string) bool {
	return slices.Contains(o.queues, queue) || slices.Contains(o.also, queue)
}

// take hands out the first offer for which no other caller has waited longer than place. The caller
// holds m.mu.
func (o *MemoryOffers) take(place *memoryWait) *Offer {
	m := o.m
	m.fireTimers()
	now := m.now()
	for _, offer := range m.offers {
		if !o.serves(offer.queue) || offer.deliveries > 0 && now.Before(offer.until) || m.sooner(place, offer.queue) {
			continue
		}
		offer.deliveries++
		offer.until = now.Add(m.ackWait)
		q := m.queueOf(offer.queue)
		return &Offer{
			Record:     *m.at(offer.seq),
			Deliveries: offer.deliveries,
			Rate:       queue.RateOf(&q),
			Valve:      q.Valve,
			Lease:      &memoryLease{m, offer},
		}
	}
	return nil
}

// sooner tells whether another caller has waited longer than place for offers of a queue. The
// caller holds m.mu.
func (m *Memory) sooner(place *memoryWait, queue string) bool {
	for _, p := range m.waiting {
		if p == place || place == nil {
			return false
		}
		if p.offers.serves(queue) {
			return true
		}
	}
	return false
}

// Prove implements [Offers]. Memory is always reachable.
func (o *MemoryOffers) Prove(ctx context.Context) error {
	if !slices.ContainsFunc(o.queues, func(q string) bool { return len(q) > 0 && q[0] == '@' }) {
		return errNoOwnRoute
	}
	return ctx.Err()
}

var errNoOwnRoute = errors.New("prove: no route of a node is among the queues")

// Trouble implements [Offers].
func (o *MemoryOffers) Trouble() error { return nil }

// Broken implements [Offers].
func (o *MemoryOffers) Broken() <-chan Break { return nil }

// Low implements [Offers]: memory loses no offers.
func (o *MemoryOffers) Low() uint64 { return 0 }

// Close implements [Offers].
func (o *MemoryOffers) Close() {}

type memoryLease struct {
	m     *Memory
	offer *memoryOffer
}

func (l *memoryLease) Ack() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if at := slices.Index(l.m.offers, l.offer); at >= 0 {
		l.m.offers = slices.Delete(l.m.offers, at, at+1)
		l.offer.acked = l.m.last()
		l.m.acked = append(l.m.acked, l.offer)
	}
	return nil
}

func (l *memoryLease) Extend(ctx context.Context) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.offer.until = l.m.now().Add(l.m.ackWait)
	return nil
}

func (l *memoryLease) Prolong() error { return l.Extend(context.Background()) }

func (l *memoryLease) Return() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.offer.until = l.m.now()
	l.m.wake()
	return nil
}

func (l *memoryLease) Rest(d time.Duration) error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	l.offer.until = l.m.now().Add(d)
	l.m.wake()
	return nil
}
