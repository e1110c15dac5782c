package jet

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
)

// BenchmarkDelivery compares ways in which an offer can reach a node with a free slot. "pull" is
// what Millrace does: a request waits at the server. With "hint" the submitter wakes the node by a
// core message, and only then does the node ask. With "push" the server sends by itself, up to a
// bound of unacknowledged offers. Idle is the time from the call of the submission to the offer's
// arrival; drain is how many waiting offers are delivered and acknowledged in a second.
func BenchmarkDelivery(b *testing.B) {
	const places = 16
	config := jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Minute, MaxAckPending: places,
		FilterSubject: "mr.queue.default.>", DeliverPolicy: jetstream.DeliverAllPolicy,
	}
	type delivery func(b *testing.B, s *Store, nc *nats.Conn, got func(ack func() error)) (woken func())
	quiet := func() {}
	// beside runs a node's loop until the benchmark ends.
	beside := func(b *testing.B, loop func()) {
		ended := make(chan struct{})
		go func() { defer close(ended); loop() }()
		b.Cleanup(func() { <-ended })
	}
	for name, deliver := range map[string]delivery{
		"pull": func(b *testing.B, s *Store, _ *nats.Conn, got func(func() error)) func() {
			o := offersOf(b, s, "default")
			for range places {
				beside(b, func() {
					for {
						offer, err := o.Next(b.Context())
						if err != nil {
							return
						}
						got(offer.Ack)
					}
				})
			}
			return quiet
		},
		"hint": func(b *testing.B, s *Store, nc *nats.Conn, got func(func() error)) func() {
			config := config
			config.MaxAckPending = -1 // the number asked for is the bound
			c := must(s.JS.CreateOrUpdateConsumer(within(b), names.LogStream, config))(b)
			woken := must(nc.SubscribeSync("hint"))(b)
			beside(b, func() {
				for {
					if _, err := woken.NextMsgWithContext(b.Context()); err != nil {
						return
					}
					for {
						// The message can overtake the offer: a node that did not wait at all would
						// miss it.
						batch, err := c.Fetch(places, jetstream.FetchMaxWait(20*time.Millisecond))
						if err != nil {
							return
						}
						n := 0
						for m := range batch.Messages() {
							got(m.Ack)
							n++
						}
						if n == 0 {
							break
						}
					}
				}
			})
			return func() { _ = nc.Publish("hint", nil); _ = nc.Flush() }
		},
		"push": func(b *testing.B, s *Store, nc *nats.Conn, got func(func() error)) func() {
			config := config
			config.DeliverSubject = nc.NewInbox()
			c := must(s.JS.CreateOrUpdatePushConsumer(within(b), names.LogStream, config))(b)
			pushed := must(c.Consume(func(m jetstream.Msg) { got(m.Ack) }))(b)
			b.Cleanup(pushed.Stop)
			return quiet
		},
	} {
		b.Run(name+"/idle", func(b *testing.B) {
			nc := connect(b, startServer(b, embed.Config{}).URL())
			s := openStore(b, nc, streams.Layout{AckWait: time.Minute})
			arrived := make(chan time.Time, 1)
			wake := deliver(b, s, nc, func(ack func() error) {
				arrived <- time.Now()
				_ = ack()
			})
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				if _, err := s.Place(context.Background(), newFact(newTask(), submittedNoop)); err != nil {
					b.Fatal(err)
				}
				wake()
				took = append(took, (<-arrived).Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
		b.Run(name+"/drain", func(b *testing.B) {
			nc := connect(b, startServer(b, embed.Config{}).URL())
			s := openStore(b, nc, streams.Layout{AckWait: time.Minute})
			placeAll(b, s, b.N)
			arrived := make(chan bool, places)
			b.ResetTimer()
			deliver(b, s, nc, func(ack func() error) {
				_ = ack()
				arrived <- true
			})()
			for range b.N {
				<-arrived
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "offers/s")
		})
	}
}
