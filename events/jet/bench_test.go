package jet

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/task"
)

func BenchmarkAppend(b *testing.B) {
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			s := newStore(b, streams.Layout{})
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
	s := newStore(b, streams.Layout{})
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
		s.PlaceAll(context.Background(), facts, false, func(_ int, _ uint64, err error) {
			if err != nil {
				b.Error(err)
			}
		})
		n -= len(facts)
	}
}

// BenchmarkOffers pulls and acknowledges offers that were placed before, without a claim.
func BenchmarkOffers(b *testing.B) {
	for _, places := range []int{1, 256} {
		b.Run(fmt.Sprint("places=", places), func(b *testing.B) {
			s := newStore(b, streams.Layout{AckWait: time.Minute})
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

// BenchmarkRealm makes a worker submit and take tasks without running them, in a realm with an
// account per role and in one with a single account. The processor time is that of the worker and
// the NATS server together.
func BenchmarkRealm(b *testing.B) {
	for name, one := range map[string]bool{"apart": false, "one-account": true} {
		b.Run(name, func(b *testing.B) {
			srv := newStrictRealm(b, rights.Realm{Name: "A", OneAccount: one})
			if err := srv.as("s").Takes(within(b), 0); err != nil {
				b.Fatal(err)
			}
			w := srv.as("w")
			o := offersOf(b, w, "default")
			r := recorder(w)
			before := processorTime(b)
			b.ResetTimer()
			var g errgroup.Group
			for range 50 {
				g.Go(func() error {
					for range b.N / 50 {
						if _, err := r.Submit(b.Context(), newTask(), submittedNoop); err != nil {
							return err
						}
						offer, err := o.Next(b.Context())
						if err != nil {
							return err
						}
						if err := offer.Ack(); err != nil {
							return err
						}
					}
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
