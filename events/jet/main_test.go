package jet

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/natstest"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/task"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// testAckWait is how long leases last in tests.
const testAckWait = time.Second

// patience is how long a test waits for what must come; only a failure takes that long.
const patience = natstest.Patience

func within(t testing.TB) context.Context { return natstest.Within(t) }

func must[T any](v T, err error) func(t testing.TB) T { return natstest.Must(v, err) }

func startServer(t testing.TB, cfg embed.Config) *embed.Server {
	t.Helper()
	return natstest.StartServer(t, cfg)
}

func stopServer(t testing.TB, s *embed.Server) {
	t.Helper()
	natstest.StopServer(t, s)
}

// connect returns a connection over TCP, as a worker has.
func connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	return natstest.Connect(t, url, append(Resilient(t.Name(), slog.New(slog.DiscardHandler)), opts...)...)
}

// openStore opens a store that closes with the test.
func openStore(t testing.TB, nc *nats.Conn, layout streams.Layout) *Store {
	t.Helper()
	if layout.AckWait == 0 {
		layout.AckWait = testAckWait
	}
	// As a process does when it starts: three servers on a busy machine may elect for longer than
	// the default.
	s, err := Open(within(t), nc, layout, WithPatience(request.Patience{For: patience}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// newStore opens a store on a server of its own.
func newStore(t testing.TB, layout streams.Layout) *Store {
	t.Helper()
	nc := must(startServer(t, embed.Config{SyncAlways: layout.SyncAlways}).Connect())(t)
	t.Cleanup(nc.Close)
	return openStore(t, nc, layout)
}

// newImpatientStore is a store whose publishes wait for their acknowledgement at most timeout.
func newImpatientStore(t testing.TB, nc *nats.Conn, timeout time.Duration, layout streams.Layout) *Store {
	t.Helper()
	s := openStore(t, nc, layout)
	pub, err := pubsub.NewPublisher(nc, timeout)
	if err != nil {
		t.Fatal(err)
	}
	s.facts.Close()
	s.pub.Close()
	s.pub, s.Link.Pub = pub, pub
	s.facts = pubsub.NewFacts(s.Link, pub, layout.SyncAlways)
	s.Denials.Of(pub)
	return s
}

// losing is a connection that loses an acknowledgement of a publish whenever lose returns true.
func losing(lose func() bool) nats.Option {
	return nats.SetCustomDialer(&natstest.Sieve{Lose: func(subject, _ string, _ []byte) bool {
		token := subject[strings.LastIndexByte(subject, '.')+1:]
		return strings.HasPrefix(subject, nats.InboxPrefix) && strings.Contains(token, "-") && lose()
	}})
}

func newID() string { return natstest.NewID() }

func newTask() task.ID { return natstest.NewTask() }

func newFact(id task.ID, e task.Event) *events.Fact { return natstest.NewFact(id, e) }

func testWork(queue string) task.Work { return natstest.Work(queue) }

func note(text string) task.Event { return natstest.Note(text) }

func recorder(s *Store) *events.Recorder {
	return &events.Recorder{Log: s, Actor: "test", Now: time.Now, NewID: func(time.Time) string { return newID() }}
}

// submit places the birth of a new task.
func submit(t testing.TB, s *Store, queue string) task.ID {
	t.Helper()
	id := newTask()
	if _, err := s.Place(within(t), newFact(id, task.Submitted{Work: testWork(queue)})); err != nil {
		t.Fatal(err)
	}
	return id
}

// offersOf pulls some queues until the test ends.
func offersOf(t testing.TB, s *Store, queues ...string) *offers {
	t.Helper()
	o := must(s.Offers(within(t), queues))(t)
	t.Cleanup(o.Close)
	return o.(*offers)
}

func follow(t testing.TB, s *Store, from uint64) *feed {
	t.Helper()
	f := must(s.Follow(within(t), from))(t)
	t.Cleanup(f.Close)
	return f.(*feed)
}

// raw stores a message as a client would that knows nothing of facts.
func raw(t testing.TB, s *Store, subject string, header nats.Header, body []byte) uint64 {
	t.Helper()
	return natstest.Raw(t, s.JS, subject, header, body)
}

// testCluster is three servers that each hold everything. Each of its accounts is a world of its
// own.
type testCluster struct{ *embed.Cluster }

const accounts = 96

// cluster starts three servers in this process.
func cluster(t testing.TB) *testCluster {
	t.Helper()
	return clusterWith(t, "")
}

// clusterWith starts them with more accounts.
func clusterWith(t testing.TB, also string) *testCluster {
	t.Helper()
	var more strings.Builder
	more.WriteString("accounts {\n  SYS { users: [{ user: sys, password: sys }] }\n")
	for a := range accounts {
		fmt.Fprintf(&more, "  A%d { jetstream: enabled, users: [{ user: u%d, password: p }] }\n", a, a)
	}
	more.WriteString(also + "}\nsystem_account: SYS\n")
	c := must(embed.StartCluster(t.TempDir(), 3, more.String()))(t)
	t.Cleanup(c.Stop)
	return &testCluster{c}
}

// newTestServer makes a single server with a configuration of its own.
func newTestServer(conf string) (*server.Server, error) {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(conf); err != nil {
		return nil, err
	}
	opts.NoSigs, opts.NoLog, opts.DisableJetStreamBanner = true, true, true
	return server.NewServer(opts)
}

// connect returns a connection to any of the servers, for an account by number.
func (c *testCluster) connect(t testing.TB, account int) *nats.Conn {
	t.Helper()
	return connect(t, c.URL(), nats.UserInfo(fmt.Sprint("u", account), "p"))
}

// open opens an empty store in an account.
func (c *testCluster) open(t testing.TB, account int, layout streams.Layout) *Store {
	t.Helper()
	return openStore(t, c.connect(t, account), layout)
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
