package pubsub

import (
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
)

func TestManyPublishesShareWrites(t *testing.T) {
	t.Parallel()
	w := &natstest.Counter{}
	s := openLog(t, natstest.Connect(t, newServer(t), nats.SetCustomDialer(w)), Timeout, streams.Layout{})
	t.Cleanup(s.close)
	const writers, length = 256, 8
	before := w.Writes.Load()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			id, head := natstest.NewTask(), uint64(0)
			for i := range length {
				seq, err := s.append(within(t), natstest.NewFact(id, natstest.Note(fmt.Sprint(i))), head)
				if err != nil {
					t.Errorf("append %d: %v", i, err)
					return
				}
				head = seq
			}
		})
	}
	wg.Wait()
	if n := w.Writes.Load() - before; n > writers*length/4 {
		t.Errorf("%d messages took %d writes", writers*length, n)
	}
}

// newIdleOutlet returns an outlet that does not run yet, and a subscription to its messages.
func newIdleOutlet(t *testing.T, refuse func(parcel, error)) (*outlet, *nats.Subscription) {
	t.Helper()
	nc := natstest.Connect(t, newServer(t))
	return newOutlet(nc, refuse), must(nc.SubscribeSync("out.>"))(t)
}

func TestOutletKeepsOrderToItsEnd(t *testing.T) {
	t.Parallel()
	o, sub := newIdleOutlet(t, nil)
	for i := range 10 {
		o.put(parcel{subject: fmt.Sprintf("out.%d", i)})
	}
	go o.run()
	o.close()
	for i := range 10 {
		if m := must(sub.NextMsgWithContext(within(t)))(t); m.Subject != fmt.Sprintf("out.%d", i) {
			t.Errorf("message %d went to %s", i, m.Subject)
		}
	}
}

func TestRecalledIsNotSent(t *testing.T) {
	t.Parallel()
	o, sub := newIdleOutlet(t, nil)
	recalled := nats.NewMsg("out.recalled")
	o.put(parcel{m: recalled})
	o.put(parcel{m: nats.NewMsg("out.sent")})
	o.recall(recalled)
	go o.run()
	o.close()
	if m := must(sub.NextMsgWithContext(within(t)))(t); m.Subject != "out.sent" {
		t.Errorf("%s was published", m.Subject)
	}
}

// A message that the client library refuses is reported, and later ones still leave.
func TestRefusedIsTold(t *testing.T) {
	t.Parallel()
	var refused []string
	o, sub := newIdleOutlet(t, func(one parcel, _ error) { refused = append(refused, one.m.Subject) })
	o.put(parcel{m: &nats.Msg{Subject: "out.large", Data: make([]byte, o.nc.MaxPayload()+1)}})
	o.put(parcel{m: nats.NewMsg("out.small")})
	go o.run()
	o.close()
	if m := must(sub.NextMsgWithContext(within(t)))(t); m.Subject != "out.small" {
		t.Errorf("%s was published", m.Subject)
	}
	if len(refused) != 1 || refused[0] != "out.large" {
		t.Errorf("refused were %v", refused)
	}
}
