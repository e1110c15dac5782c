package jet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
)

func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := newStore(b, Layout{})
			ctx := context.Background()
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						f := newFact(newTask(), task.AttemptStarted{Attempt: 1, Node: "n1", Session: "s1", Offer: 1})
						if _, err := s.Append(ctx, f, 0); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func BenchmarkPlaceAll(b *testing.B) {
	s := newStore(b, Layout{})
	b.ReportAllocs()
	b.ResetTimer()
	placeAll(b, s, b.N)
}

func placeAll(b *testing.B, s *Store, n int) {
	b.Helper()
	const atOnce = 500
	facts := make([]*events.Fact, 0, atOnce)
	for n > 0 {
		facts = facts[:0]
		for range min(n, atOnce) {
			facts = append(facts, newFact(newTask(), submittedNoop))
		}
		s.PlaceAll(context.Background(), facts, func(_ int, _ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
		})
		n -= len(facts)
	}
}

// BenchmarkOffers pulls and acknowledges what was placed before, without a claim.
func BenchmarkOffers(b *testing.B) {
	for _, places := range []int{1, 256} {
		b.Run(fmt.Sprint("places=", places), func(b *testing.B) {
			s := newStore(b, Layout{AckWait: time.Minute})
			placeAll(b, s, b.N)
			o := offersOf(b, s, "default")
			var left atomic.Int64
			left.Store(int64(b.N))
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range places {
				wg.Go(func() {
					for left.Add(-1) >= 0 {
						offer, err := o.Next(context.Background())
						if err != nil {
							b.Error(err)
							return
						}
						if err := offer.Ack(); err != nil {
							b.Error(err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
