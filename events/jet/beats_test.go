package jet_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/internal/testkit"
	"millrace/task/node"
)

// A watcher learns at once of a heartbeat that expired or was removed, also after the connection
// was cut, and it is told when it may have missed one.
func TestWatchBeats(t *testing.T) {
	t.Parallel()
	server := natstest.StartServer(t, embed.Config{})
	nc := natstest.Connect(t, server.URL(), jet.Resilient(t.Name(), nil)...)
	s := openStore(t, nc)
	gone, lost := make(chan node.ID, 10), make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.WatchBeats(ctx, func(id node.ID, _ time.Time) { gone <- id }, func() { lost <- struct{}{} })
	}()
	<-lost
	heard := func(id node.ID) {
		t.Helper()
		select {
		case got := <-gone:
			if got != id {
				t.Errorf("heard of %s, want %s", got, id)
			}
		case <-within(t).Done():
			t.Fatalf("nothing was heard of %s", id)
		}
	}
	beat(t, s, "stays", time.Minute)
	beat(t, s, "leaves", time.Minute)
	if err := s.Forget(within(t), "leaves"); err != nil {
		t.Fatal(err)
	}
	heard("leaves")
	beat(t, s, "dies", time.Second)
	dies := time.Now()
	heard("dies")
	if took := time.Since(dies); took > 2*time.Second {
		t.Errorf("a TTL of 1s was heard to have run out after %v", took)
	}
	for range 3 {
		if err := nc.ForceReconnect(); err != nil {
			t.Fatal(err)
		}
		<-lost
	}
	beat(t, s, "next", time.Second)
	heard("next")
	// Its consumer is deleted.
	for name := range must(s.JS.Stream(within(t), "KV_"+names.NodesBucket))(t).ConsumerNames(within(t)).Name() {
		if err := s.JS.DeleteConsumer(within(t), "KV_"+names.NodesBucket, name); err != nil {
			t.Fatal(err)
		}
	}
	<-lost
	beat(t, s, "last", time.Second)
	heard("last")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := must(s.JS.Stream(within(t), "KV_"+names.NodesBucket))(t).CachedInfo().State.Consumers; n > 0 {
		t.Errorf("it left %d consumers", n)
	}
}

// A heartbeat that has expired is no key of the bucket any more, and its process, which may have
// stood still, is refused once. Who looks later still finds when it has ended.
func TestExpiredHeartbeatsAreMarked(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	beat(t, s, "dies", time.Second)
	stored := must(s.Pulse(within(t), "dies"))(t).Stored
	bucket := must(s.JS.KeyValue(within(t), names.NodesBucket))(t)
	ctx, stop := context.WithCancel(t.Context())
	watching := make(chan error, 2)
	gone := make(chan node.ID, 10)
	for range 2 { // of two watchers one marks it, and each says so once
		go func() { watching <- s.WatchBeats(ctx, func(id node.ID, _ time.Time) { gone <- id }, func() {}) }()
	}
	<-gone
	<-gone
	testkit.Eventually(t, "the bucket has its key no more", func() bool {
		_, err := bucket.Get(within(t), "dies")
		return errors.Is(err, jetstream.ErrKeyNotFound)
	})
	if p := must(s.Pulse(within(t), "dies"))(t); !p.RanOut || !p.Stored.Equal(stored.Add(time.Second)) {
		t.Errorf("stored at %v, of a heartbeat of 1s there is %+v", stored, p)
	}
	m := must(must(s.JS.Stream(within(t), "KV_"+names.NodesBucket))(t).GetLastMsgForSubject(within(t), "$KV."+names.NodesBucket+".dies"))(t)
	slow := &nats.Msg{Subject: m.Subject, Data: []byte(`{"session":"s1"}`), Header: nats.Header{jetstream.ExpectedLastSubjSeqHeader: {"1"}}}
	if _, err := s.JS.PublishMsg(within(t), slow); err == nil {
		t.Error("the server takes a heartbeat that follows one that has expired")
	}
	stop()
	for range 2 {
		if err := <-watching; err != nil {
			t.Error(err)
		}
	}
	if len(gone) > 0 {
		t.Errorf("it was said again that %s is gone", <-gone)
	}
}
