package pubsub

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
)

func TestMain(m *testing.M) { natstest.Main(m) }

func within(t testing.TB) context.Context { return natstest.Within(t) }

func must[T any](v T, err error) func(t testing.TB) T { return natstest.Must(v, err) }

// testLog is a log and its publishers.
type testLog struct {
	*request.Log
	stream jetstream.Stream
	pub    *Publisher
	facts  *Facts
}

// newServer starts a server, and returns how it is reached.
func newServer(t testing.TB) (url string) { return natstest.StartServer(t, embed.Config{}).URL() }

// openLog makes a log if there is none, and publishers for it. The caller closes them.
func openLog(t testing.TB, nc *nats.Conn, timeout time.Duration, layout streams.Layout) *testLog {
	t.Helper()
	js := must(jetstream.New(nc))(t)
	if err := streams.Ensure(within(t), request.NewFormer(nc, request.Patience{For: natstest.Patience}), js, layout); err != nil {
		t.Fatal(err)
	}
	l := request.New(nc, js)
	l.Denials = request.WatchDenials(nc)
	t.Cleanup(l.Denials.Close)
	log := &testLog{Log: &request.Log{Link: l}, stream: must(js.Stream(within(t), names.LogStream))(t), pub: must(NewPublisher(nc, timeout))(t)}
	l.Pub = log.pub
	l.Denials.Of(log.pub)
	log.facts = NewFacts(l, log.pub, layout.SyncAlways)
	return log
}

// close ends the publishers.
func (l *testLog) close() {
	l.facts.Close()
	l.pub.Close()
}

// newLog is a log on a server of its own.
func newLog(t testing.TB, layout streams.Layout) *testLog {
	t.Helper()
	l := openLog(t, natstest.Connect(t, newServer(t)), Timeout, layout)
	t.Cleanup(l.close)
	return l
}

// append stores a fact about a task as the log does, if the last one is that of a sequence.
func (l *testLog) append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	m, err := NewOutgoing(names.ChainSubject(f), f)
	if err != nil {
		return 0, err
	}
	defer m.Free()
	m.Expect(last)
	return l.facts.Publish(ctx, &m.Msg)
}
