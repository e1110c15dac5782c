package promises

import (
	"context"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet"
	jetnames "millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/integration/chaos"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// The server delivers an offer to a connection that is cut before the offer gets through. The offer
// comes again as soon as the node has proved itself on the next connection, not when its lease of
// one minute expires. The leases of running tasks are unaffected.
func TestOfferThatIsLostWithAConnection(t *testing.T) {
	t.Parallel()
	p := harness.New(t, time.Minute)
	p.Server()
	c := p.Connect()
	target, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	link, err := chaos.Listen(target.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	target.Host = link.Addr()
	nc, err := nats.Connect(target.String(), jet.Resilient("n1", slog.New(slog.DiscardHandler))...)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	store, err := jet.Open(ctx, nc, streams.Layout{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	offers, err := store.Offers(ctx, []string{"@n1"})
	if err != nil {
		t.Fatal(err)
	}
	defer offers.Close()
	prove := func() {
		t.Helper()
		if err := offers.Prove(ctx); err != nil {
			t.Fatal(err)
		}
	}
	next := func() *events.Offer {
		t.Helper()
		o, err := offers.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	set := func(k chaos.Kind) {
		t.Helper()
		if err := link.Set(chaos.Mode{Kind: k}); err != nil {
			t.Fatal(err)
		}
	}
	aim := func() task.ID {
		t.Helper()
		return p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Handler: "h"}, Nodes: []string{"n1"}, NoNode: job.NoNodeWait})
	}
	js := p.JetStream()
	route := func() *jetstream.ConsumerInfo {
		t.Helper()
		found, err := js.Consumer(ctx, jetnames.LogStream, "MR_NODE_n1")
		if err != nil {
			t.Fatal(err)
		}
		return found.CachedInfo()
	}
	most := within(t)
	prove()
	runs := aim()
	held := next()
	waiting := make(chan *events.Offer, 1)
	go func() {
		o, _ := offers.Next(ctx)
		waiting <- o
	}()
	testkit.Eventually(t, "the node asks for another offer", func() bool { return route().NumWaiting > 0 })
	set(chaos.LinkBlackhole)
	lost := aim()
	testkit.Eventually(t, "the server hands it out", func() bool { return route().NumAckPending == 2 })
	set(chaos.LinkCut)
	later := aim()
	set(chaos.LinkUp)
	back := time.Now()
	<-offers.Broken()
	prove()
	got := map[task.ID]bool{}
	first := <-waiting
	if first == nil {
		t.Fatal("no offer came")
	}
	for got[first.Fact.Task] = true; !got[lost] || !got[later]; {
		got[next().Fact.Task] = true
	}
	if took := time.Since(back); took > most() {
		t.Errorf("it came after %v", took)
	}
	if got[runs] {
		t.Error("what runs was offered again")
	}
	testkit.Eventually(t, "the lease goes on", func() bool { return held.Extend(ctx) == nil })
}
