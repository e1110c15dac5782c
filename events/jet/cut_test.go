package jet

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/placement"
)

// What is asked when the connection is cut is asked again as soon as the connection is back, or fails
// then: nothing that a worker or a submitter waits for waits for an answer that cannot come, at
// whichever of its requests the cut comes.
func TestNoCallWaitsForALostAnswer(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: 30 * time.Second})
	place := func(ctx context.Context, s *Store, route placement.Route) error {
		work := testWork("default")
		work.Route = route
		_, err := s.Place(ctx, newFact(newTask(), task.Submitted{Work: work}))
		return err
	}
	type bed struct {
		*Store
		offers *offers
		held   *events.Offer
		name   string // another one at each time
	}
	for name, do := range map[string]func(ctx context.Context, b *bed) error{
		"append": func(ctx context.Context, b *bed) error {
			_, err := b.Append(ctx, newFact(newTask(), note("x")), 0)
			return err
		},
		"read a task":  func(ctx context.Context, b *bed) error { _, err := b.Task(ctx, newTask()); return err },
		"read a node":  func(ctx context.Context, b *bed) error { _, err := b.Node(ctx, "n", 0); return err },
		"last":         func(ctx context.Context, b *bed) error { _, err := b.Last(ctx); return err },
		"time":         func(ctx context.Context, b *bed) error { _, err := b.Time(ctx); return err },
		"pulse":        func(ctx context.Context, b *bed) error { _, err := b.Pulse(ctx, node.ID(b.name)); return err },
		"alive":        func(ctx context.Context, b *bed) error { _, err := b.Alive(ctx); return err },
		"declarations": func(ctx context.Context, b *bed) error { _, err := b.Declared(ctx); return err },
		"heartbeat": func(ctx context.Context, b *bed) error {
			return b.Beat(ctx, node.ID(b.name), node.Heartbeat{Session: "s"}, time.Minute)
		},
		"goodbye": func(ctx context.Context, b *bed) error { return b.Forget(ctx, node.ID(b.name)) },
		"print": func(ctx context.Context, b *bed) error {
			return b.Print(ctx, output.Lines{Task: newTask(), Attempt: 1, Lines: []output.Line{{N: 1}}})
		},
		"lease": func(ctx context.Context, b *bed) error { return b.held.Extend(ctx) },
		"proof": func(ctx context.Context, b *bed) error { return b.offers.Prove(ctx) },
		"route": func(ctx context.Context, b *bed) error { return b.offers.Also(ctx, []string{b.name}) },
		"queue": func(ctx context.Context, b *bed) error {
			return place(ctx, b.Store, placement.QueueRoute(b.name, placement.DefaultPriority))
		},
		"priority": func(ctx context.Context, b *bed) error { return place(ctx, b.Store, placement.QueueRoute(b.name, 8)) },
		"selector": func(ctx context.Context, b *bed) error {
			_, err := b.Place(ctx, newFact(newTask(), selectorWork(t, b.name)))
			return err
		},
		"settings":   func(ctx context.Context, b *bed) error { return b.KeepQueue(ctx, b.name) },
		"retirement": func(ctx context.Context, b *bed) error { return b.DropNode(ctx, node.ID(b.name), time.Now()) },
		"timer": func(ctx context.Context, b *bed) error {
			id := newTask()
			e := task.Queued{Work: testWork("default"), Attempt: 1, After: 1, Due: time.Now().Add(time.Hour)}
			if err := b.Arm(ctx, newFact(id, e)); err != nil {
				return err
			}
			return b.Disarm(ctx, id, 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			starved := testkit.Starvation(t)
			var let atomic.Int64 // how many answers come through before the others are lost
			lost := make(chan struct{}, 1)
			const all = 1 << 40
			let.Store(all)
			answers := &natstest.Sieve{Lose: func(subject, reply string, _ []byte) bool {
				if reply != "" || !strings.HasPrefix(subject, nats.InboxPrefix) || let.Add(-1) >= 0 {
					return false
				}
				select {
				case lost <- struct{}{}:
				default:
				}
				return true
			}}
			s := openStore(t, connect(t, srv.URL(), nats.SetCustomDialer(answers)), streams.Layout{AckWait: 30 * time.Second})
			b := &bed{Store: s}
			switch name {
			case "lease", "proof", "route":
				b.offers = offersOf(t, s, node.ID(name).Queue())
				prove(t, b.offers)
				aim(t, s, node.ID(name))
				b.held = next(t, b.offers)
			}
			for cut := int64(0); ; cut++ {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				ended := make(chan error, 1)
				select {
				case <-lost:
				default:
				}
				let.Store(cut)
				b.name = fmt.Sprint(strings.ReplaceAll(name, " ", "-"), cut)
				go func() { ended <- do(ctx, b) }()
				select {
				case err := <-ended:
					cancel()
					if err != nil {
						t.Errorf("without a cut: %v", err)
					}
					if cut == 0 {
						t.Error("it asks nothing")
					}
					let.Store(all)
					return
				case <-lost:
				}
				let.Store(all)
				if err := answers.Cut(); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				err := <-ended
				cancel()
				if took := time.Since(began); took > request.ReadTry*3/4+20*starved() {
					t.Errorf("cut at request %d it ends after %v with %v", cut+1, took, err)
				}
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("cut at request %d: %v", cut+1, err)
				}
			}
		})
	}
}
