package jet

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"millrace/events"
	"millrace/jet/embed"
	"millrace/jet/streams"
	"millrace/task"
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
