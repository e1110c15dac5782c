package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/embed"
	"millrace/events/jet/natstest"
	"millrace/internal/testkit"
)

// connect returns a connection to a server of its own.
func connect(t testing.TB) *nats.Conn {
	t.Helper()
	nc := must(natstest.StartServer(t, embed.Config{}).Connect())(t)
	t.Cleanup(nc.Close)
	return nc
}

func TestRefusedRequestsAreNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	requests := make(chan struct{}, 1000)
	must(nc.Subscribe("$JS.API.CONSUMER.MSG.NEXT.NONE.none", func(m *nats.Msg) {
		requests <- struct{}{}
		refusal := &nats.Msg{Subject: m.Reply, Header: nats.Header{"Status": {"409"}, "Description": {"Exceeded MaxRequestBatch of 1"}}}
		if err := nc.PublishMsg(refusal); err != nil {
			t.Error(err)
		}
	}))(t)
	p := must(NewPuller(nc, "NONE", "none", ReaderPace, 1, func(*nats.Msg) bool { return true }, func(context.Context) {}))(t)
	defer p.Close()
	p.Want(1)
	<-requests
	<-requests // it does try again
	<-time.After(ReaderPace.Beat / 2)
	if n := len(requests); n > 0 {
		t.Errorf("%d more requests within %v, want one in %v", n, ReaderPace.Beat/2, ReaderPace.Beat)
	}
}

// A request that is no longer wanted serves the next want, and is withdrawn if there is none for
// some time.
func TestRequestIsTakenBackLate(t *testing.T) {
	t.Parallel()
	nc := connect(t)
	js := must(jetstream.New(nc))(t)
	must(js.CreateStream(within(t), jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}))(t)
	consumer := must(js.CreateConsumer(within(t), "S", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy}))(t)
	p := must(NewPuller(nc, "S", "c", WorkerPace, AtOnce, func(*nats.Msg) bool { return true }, func(context.Context) {}))(t)
	t.Cleanup(p.Close)
	asked := func() (string, int) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.inbox.subject, p.asked
	}
	requests := func() int {
		return must(consumer.Info(within(t)))(t).NumWaiting
	}
	p.Want(1)
	testkit.Eventually(t, "the request waits", func() bool { return requests() == 1 })
	first, _ := asked()
	p.Want(-1)
	p.Want(1)
	if now, n := asked(); now == first && n != 1 {
		t.Errorf("for one that is wanted there were %d requests", n)
	}
	p.Want(-1)
	testkit.Eventually(t, "the request is taken back", func() bool { return requests() == 0 })
}

// A puller that changes what it wants every few seconds makes a new request each time, and is
// answered only on earlier inboxes.
func TestAnEarlierRequestIsAnswered(t *testing.T) {
	t.Parallel()
	p := must(NewPuller(connect(t), "NONE", "none", WorkerPace, 1, func(*nats.Msg) bool { return true }, nil))(t)
	defer p.Close()
	p.Want(1)
	p.Renew()
	p.mu.Lock()
	earlier := p.past[len(p.past)-1]
	p.mu.Unlock()
	for status, answers := range map[string]bool{"408": true, "100": true, "503": false} {
		p.mu.Lock()
		p.answered = time.Now().Add(-2 * WorkerPace.trouble())
		p.mu.Unlock()
		p.status(earlier, nats.Header{"Status": {status}})
		if err := p.Trouble(); (err == nil) != answers {
			t.Errorf("after a %s of an earlier request: %v", status, err)
		}
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	p := must(NewPuller(connect(t), "NONE", "none", WorkerPace, 1, func(*nats.Msg) bool { return true }, nil))(t)
	defer p.Close()
	for name, c := range map[string]struct {
		wanted int
		silent time.Duration
		bad    bool
	}{"nobody waits": {0, time.Hour, false}, "soon enough": {1, WorkerPace.trouble() / 2, false}, "silent": {1, 2 * WorkerPace.trouble(), true}} {
		p.mu.Lock()
		p.wanted, p.asked, p.answered, p.heard = c.wanted, c.wanted, time.Now().Add(-c.silent), time.Now()
		p.mu.Unlock()
		if err := p.Trouble(); (err != nil) != c.bad {
			t.Errorf("%s: %v", name, err)
		}
	}
}
