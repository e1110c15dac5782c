package logtest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// Faulty is a log that loses answers: a write sometimes returns [events.ErrUnknown], and is then
// recorded, not recorded, or recorded a moment later. Everything else is as in the wrapped log. The
// same seed and the same calls give the same faults.
type Faulty struct {
	events.Log
	share float64

	mu      sync.Mutex
	rng     *rand.Rand // guarded by mu
	delayed []func()   // guarded by mu; writes under way, in order
	faults  int        // guarded by mu
}

// NewFaulty wraps a log. Share, in [0,1), is the share of writes that lose their answer.
func NewFaulty(log events.Log, seed uint64, share float64) *Faulty {
	return &Faulty{Log: log, share: share, rng: rand.New(rand.NewPCG(seed, seed))}
}

// Faults is how many answers were lost.
func (f *Faulty) Faults() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.faults
}

// Append implements [events.Appender].
func (f *Faulty) Append(ctx context.Context, fact *events.Fact, last uint64) (uint64, error) {
	return f.write(ctx, fact, func(ctx context.Context, fact *events.Fact) (uint64, error) {
		return f.Log.Append(ctx, fact, last)
	})
}

// AppendAll implements [events.Appender].
func (f *Faulty) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	all := make([]*events.Fact, len(facts))
	for i, fact := range facts {
		same := *fact
		all[i] = &same // a delayed write writes the original content
	}
	return f.write(ctx, facts[0], func(ctx context.Context, _ *events.Fact) (uint64, error) {
		return f.Log.AppendAll(ctx, all, slices.Clone(last))
	})
}

// Place implements [events.Placer].
func (f *Faulty) Place(ctx context.Context, fact *events.Fact) (uint64, error) {
	return f.write(ctx, fact, f.Log.Place)
}

// PlaceAll implements [events.Placer].
func (f *Faulty) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	for i, fact := range facts {
		seq, err := f.write(ctx, fact, func(ctx context.Context, fact *events.Fact) (seq uint64, err error) {
			f.Log.PlaceAll(ctx, []*events.Fact{fact}, first, func(_ int, at uint64, failed error) { seq, err = at, failed })
			return seq, err
		})
		done(i, seq, err)
	}
}

// PlaceClaimed implements [events.Placer].
func (f *Faulty) PlaceClaimed(ctx context.Context, fact *events.Fact, key string, claim uint64, chain bool) (uint64, error) {
	return f.write(ctx, fact, func(ctx context.Context, fact *events.Fact) (uint64, error) {
		return f.Log.PlaceClaimed(ctx, fact, key, claim, chain)
	})
}

// Latest implements [events.Reader].
func (f *Faulty) Latest(ctx context.Context, about events.Fact) (events.Record, uint64, error) {
	f.land()
	return f.Log.Latest(ctx, about)
}

// Task implements [events.Reader].
func (f *Faulty) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	f.land()
	return f.Log.Task(ctx, id)
}

// Node implements [events.Reader].
func (f *Faulty) Node(ctx context.Context, id node.ID, from uint64) ([]events.Record, error) {
	f.land()
	return f.Log.Node(ctx, id, from)
}

func (f *Faulty) write(ctx context.Context, fact *events.Fact, do func(context.Context, *events.Fact) (uint64, error)) (uint64, error) {
	f.land()
	f.mu.Lock()
	lost, fate := f.rng.Float64() < f.share, f.rng.IntN(3)
	if !lost {
		f.mu.Unlock()
		return do(ctx, fact)
	}
	f.faults++
	if fate == 0 {
		later := *fact
		ctx := context.WithoutCancel(ctx)
		f.delayed = append(f.delayed, func() { _, _ = do(ctx, &later) }) // its outcome is never reported
	}
	f.mu.Unlock()
	if fate == 1 {
		if _, err := do(ctx, fact); err != nil {
			return 0, err // a refusal is an answer
		}
	}
	return 0, fmt.Errorf("write %s: %w (a fault of this test)", fact.Type, events.ErrUnknown)
}

// land may let a write under way arrive.
func (f *Faulty) land() {
	f.mu.Lock()
	var arrives func()
	if len(f.delayed) > 0 && f.rng.IntN(2) == 0 {
		arrives, f.delayed = f.delayed[0], f.delayed[1:]
	}
	f.mu.Unlock()
	if arrives != nil {
		arrives()
	}
}

// Settle lets all writes under way arrive.
func (f *Faulty) Settle() {
	f.mu.Lock()
	delayed := f.delayed
	f.delayed = nil
	f.mu.Unlock()
	for _, arrives := range delayed {
		arrives()
	}
}
