package presence_test

import (
	"context"
	"testing"
	"time"

	"millrace/jet"
	"millrace/jet/embed"
	"millrace/jet/rig"
	"millrace/jet/wire"
	"millrace/node"
)

// A watcher learns at once of a heartbeat that expired or was removed, also after the connection
// was cut, and it is told when it may have missed one.
func TestWatchBeats(t *testing.T) {
	t.Parallel()
	server := rig.StartServer(t, embed.Config{})
	nc := rig.Connect(t, server.URL(), jet.Resilient(t.Name(), nil)...)
	s := openStore(t, nc)
	gone, lost := make(chan node.ID, 10), make(chan struct{}, 10)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.WatchBeats(ctx, func(id node.ID) { gone <- id }, func() { lost <- struct{}{} })
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
	for name := range must(s.JS.Stream(within(t), "KV_"+wire.NodesBucket))(t).ConsumerNames(within(t)).Name() {
		if err := s.JS.DeleteConsumer(within(t), "KV_"+wire.NodesBucket, name); err != nil {
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
	if n := must(s.JS.Stream(within(t), "KV_"+wire.NodesBucket))(t).CachedInfo().State.Consumers; n > 0 {
		t.Errorf("it left %d consumers", n)
	}
}
