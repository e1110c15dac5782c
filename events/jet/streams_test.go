package jet

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/node"
)

func TestDataSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "when", "needed")
	srv := startServer(t, embed.Config{Dir: dir})
	s := openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: 7 * time.Second, SyncAlways: true})
	id := submit(t, s, "default")
	seq := must(s.Append(within(t), newFact(id, note("x")), 0))(t)
	stopServer(t, srv)

	srv = startServer(t, embed.Config{Dir: dir})
	s = openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: time.Minute}) // a layout has no effect on what exists
	if records := must(s.Task(within(t), id))(t); len(records) != 2 || records[1].Seq != seq {
		t.Errorf("after a restart the task has the records %+v", records)
	}
	if s.AckWait() != 7*time.Second {
		t.Errorf("after a restart the lease is %v; want what the log was made with", s.AckWait())
	}
	facts := make([]*events.Fact, 100)
	for i := range facts {
		facts[i] = newFact(newTask(), task.Submitted{Work: testWork("default")})
	}
	grouped := 0
	s.PlaceAll(within(t), facts, false, func(i int, seq uint64, err error) {
		if err != nil {
			t.Errorf("fact %d: %v", i, err)
		} else if m := must(s.log.GetMsg(within(t), seq))(t); m.Header.Get("Nats-Batch-Id") != "" {
			grouped++
		}
	})
	if grouped == 0 {
		t.Error("after a restart no message was written in a batch; want what the log was made with")
	}
}

// slowNews is JetStream for which each stream is not found at the first two looks, as in a cluster
// in which another process is making it: its name is in use before anything is found under it.
type slowNews struct {
	jetstream.JetStream
	looks map[string]int
}

func (n *slowNews) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if n.looks[name]++; n.looks[name] <= 2 {
		return nil, jetstream.ErrStreamNotFound
	}
	return n.JetStream.Stream(ctx, name)
}

func TestServersStartAtOnce(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: 7 * time.Second})
	news := &slowNews{JetStream: s.JS, looks: map[string]int{}}
	if err := streams.Ensure(within(t), request.NewFormer(s.NC, request.Patience{For: patience}), news, streams.Layout{AckWait: time.Minute}); err != nil {
		t.Errorf("streams that another process is making: %v", err)
	}
	if looks := news.looks[names.LogStream]; looks < 3 {
		t.Errorf("the log was looked for %d times", looks)
	}
}

// A worker may start before its server, and waits. A command does not.
func TestAwait(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	nc := connect(t, srv.URL())
	if _, err := Attach(within(t), nc); !errors.Is(err, ErrNoMillrace) {
		t.Errorf("Attach where nothing is: %v", err)
	}
	if _, err := Await(within(t), nc, WithPatience(request.Patience{For: time.Millisecond})); !errors.Is(err, ErrNoMillrace) {
		t.Errorf("Await where nothing comes: %v", err)
	}
	waiting, waits := context.WithCancel(within(t))
	opened := make(chan error)
	go func() {
		s, err := Await(within(t), nc, WithPatience(request.Patience{For: patience, Say: func(err error) {
			if request.Missing(err) {
				waits()
			}
		}}))
		if err == nil {
			s.Close()
		}
		opened <- err
	}()
	<-waiting.Done()
	openStore(t, connect(t, srv.URL()), streams.Layout{})
	if err := <-opened; err != nil {
		t.Errorf("Await while a server starts: %v", err)
	}
}

// A server makes a deleted bucket again: commands wait for that.
func TestAttachWithoutABucket(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	s := openStore(t, connect(t, srv.URL()), streams.Layout{})
	if err := s.JS.DeleteKeyValue(within(t), names.NodesBucket); err != nil {
		t.Fatal(err)
	}
	again := func(error) {
		if err := streams.NewRestorer(s.JS, s.timers, func(string) {}).Look(within(t), streams.Layout{}); err != nil {
			t.Error(err)
		}
	}
	attached, err := Attach(within(t), connect(t, srv.URL()), WithPatience(request.Patience{For: patience, Say: again}))
	if err != nil {
		t.Fatalf("Attach while a bucket is missing: %v", err)
	}
	attached.Close()
}

func TestNoJetStream(t *testing.T) {
	t.Parallel()
	ns := must(newTestServer("listen: 127.0.0.1:-1"))(t)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	ctx, cancel := context.WithTimeout(within(t), 5*time.Second)
	defer cancel()
	if _, err := Open(ctx, connect(t, ns.ClientURL()), streams.Layout{}); !errors.Is(err, ErrNoJetStream) {
		t.Errorf("Open on a server without JetStream: %v, want ErrNoJetStream", err)
	}
}

// A bucket of heartbeats as an earlier version made it, in which a message could erase all others,
// is changed when it is opened. Its heartbeats stay.
func TestEarlierBucketOfHeartbeats(t *testing.T) {
	t.Parallel()
	nc := must(startServer(t, embed.Config{}).Connect())(t)
	t.Cleanup(nc.Close)
	js := must(jetstream.New(nc))(t)
	must(js.CreateKeyValue(within(t), jetstream.KeyValueConfig{
		Bucket: names.NodesBucket, History: 1, LimitMarkerTTL: 10 * time.Minute, Metadata: map[string]string{"millrace": "1"},
	}))(t)
	must(js.PublishMsg(within(t), &nats.Msg{
		Subject: "$KV." + names.NodesBucket + ".old", Data: []byte(`{"session":"s1","ttl":"2s"}`), Header: nats.Header{"Nats-TTL": {"2s"}},
	}))(t)
	s := openStore(t, nc, streams.Layout{})
	is := must(js.Stream(within(t), "KV_"+names.NodesBucket))(t).CachedInfo().Config
	if is.AllowRollup || is.SubjectDeleteMarkerTTL != 0 || !is.AllowMsgTTL {
		t.Errorf("it is %+v", is)
	}
	stored := must(s.Pulse(within(t), "old"))(t)
	if stored.Beat.Session != "s1" {
		t.Errorf("its heartbeat is %+v", stored)
	}
	// Its worker may be of that version: then nothing is left of the heartbeat when it ends, and who
	// has followed it knows since when nothing comes.
	gone := make(chan time.Time, 1)
	go func() { _ = s.WatchBeats(t.Context(), func(_ node.ID, last time.Time) { gone <- last }, func() {}) }()
	if last := <-gone; !last.Equal(stored.Stored) {
		t.Errorf("it has expired, and was stored at %v; want %v", last, stored.Stored)
	}
	if p := must(s.Pulse(within(t), "old"))(t); p.Beat.Session != "" {
		t.Errorf("then there is %+v", p)
	}
}
