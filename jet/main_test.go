package jet

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/jet/embed"
	"millrace/task"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// The tests wait for leases, timers and elections far more than they compute.
	if err := flag.Set("test.parallel", "10"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	goleak.VerifyTestMain(testkit.InMemory(m))
}

// testAckWait is how long leases last in tests.
const testAckWait = time.Second

// patience is how long a test waits for what must come; only a failure takes so long.
const patience = time.Minute

// within returns a context that ends when something that must come has not.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// startServer starts a server that stops with the test.
func startServer(t testing.TB, cfg embed.Config) *embed.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	s, err := embed.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopServer(t, s) })
	return s
}

// stopServer stops a server once its streams hear what they source; one that was stopped already is left
// alone. A server that asks for a source just when it stops leaves a goroutine behind, which waits for the
// answer for some seconds more.
func stopServer(t testing.TB, s *embed.Server) {
	t.Helper()
	defer s.Stop()
	nc, err := s.Connect()
	if err != nil {
		return // it was stopped
	}
	defer nc.Close()
	js := must(jetstream.New(nc))(t)
	testkit.Eventually(t, "each stream of the server hears its sources", func() bool {
		all := js.ListStreams(within(t))
		hears := true
		for info := range all.Info() {
			for _, source := range info.Sources {
				hears = hears && source.Active >= 0
			}
		}
		return hears && all.Err() == nil
	})
}

// connect returns a connection as a worker has it, over TCP.
func connect(t testing.TB, url string, opts ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(url, append(Resilient(t.Name(), slog.New(slog.DiscardHandler)), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// openStore opens a store that closes with the test.
func openStore(t testing.TB, nc *nats.Conn, layout Layout) *Store {
	t.Helper()
	if layout.AckWait == 0 {
		layout.AckWait = testAckWait
	}
	// As a process does when it starts: three servers on a busy machine may elect for longer than the default.
	s, err := Open(within(t), nc, layout, WithPatience(Patience{For: patience}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// newStore opens a store on a server of its own.
func newStore(t testing.TB, layout Layout) *Store {
	t.Helper()
	nc := must(startServer(t, embed.Config{SyncAlways: layout.SyncAlways}).Connect())(t)
	t.Cleanup(nc.Close)
	return openStore(t, nc, layout)
}

// newImpatientStore is a store on a connection whose publishes wait for their
// acknowledgement no longer than timeout.
func newImpatientStore(t testing.TB, nc *nats.Conn, timeout time.Duration, layout Layout) *Store {
	t.Helper()
	s := openStore(t, nc, layout)
	pub, err := newPublisher(nc, timeout)
	if err != nil {
		t.Fatal(err)
	}
	if s.group != nil {
		s.group.close()
		s.group = newGroup(pub)
	}
	s.pub.close()
	s.pub, s.Link.Pub = pub, pub
	s.Denials.Of(pub)
	return s
}

var ids atomic.Uint64

// newID returns a ULID that no other test has.
func newID() string { return fmt.Sprintf("01JNA0%020d", ids.Add(1)) }

func newTask() task.ID { return task.ID(newID()) }

func newFact(id task.ID, e task.Event) *events.Fact {
	return &events.Fact{ID: newID(), At: time.Now().UTC(), Type: events.TypeOf(e), Task: id, Actor: "test", Event: e}
}

func testWork(queue string) task.Work {
	return task.Work{Spec: &task.Spec{Handler: "noop"}, Route: task.QueueRoute(queue, task.DefaultPriority)}
}

// note is an event that any chain takes.
func note(text string) task.Event { return task.GivenUp{Reason: task.ReasonExpired, Detail: text} }

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

// raw stores a message as somebody could who knows nothing of facts.
func raw(t testing.TB, s *Store, subject string, header nats.Header, body []byte) uint64 {
	t.Helper()
	ack, err := s.JS.PublishMsg(within(t), &nats.Msg{Subject: subject, Header: header, Data: body})
	if err != nil {
		t.Fatalf("publish to %s: %v", subject, err)
	}
	return ack.Sequence
}

// testCluster is three servers that hold everything three times. Each of its
// accounts is a world of its own.
type testCluster struct{ servers []*server.Server }

const accounts = 64

// cluster starts three servers in this process.
func cluster(t testing.TB) *testCluster {
	t.Helper()
	return clusterWith(t, "")
}

// clusterWith starts them with more accounts.
func clusterWith(t testing.TB, accounts string) *testCluster {
	t.Helper()
	dir := t.TempDir()
	for attempt := range 5 {
		c, err := tryCluster(filepath.Join(dir, fmt.Sprint(attempt)), accounts)
		if err == nil {
			t.Cleanup(c.stop)
			return c
		}
		t.Logf("attempt %d: %v", attempt, err) // somebody else was faster at one of the ports
	}
	t.Fatal("no cluster")
	return nil
}

func tryCluster(dir, also string) (*testCluster, error) {
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	c := &testCluster{}
	failed := make(chan string, 3)
	for i, port := range ports {
		var conf strings.Builder
		fmt.Fprintf(&conf, "server_name: s%d\nlisten: 127.0.0.1:-1\nmax_payload: 8MB\n", i)
		fmt.Fprintf(&conf, "jetstream { store_dir: %q }\n", filepath.Join(dir, fmt.Sprint(i)))
		fmt.Fprintf(&conf, "cluster { name: test, listen: 127.0.0.1:%d, routes: [", port)
		for _, p := range ports {
			fmt.Fprintf(&conf, "%q,", fmt.Sprint("nats://127.0.0.1:", p))
		}
		conf.WriteString("] }\naccounts {\n  SYS { users: [{ user: sys, password: sys }] }\n")
		for a := range accounts {
			fmt.Fprintf(&conf, "  A%d { jetstream: enabled, users: [{ user: u%d, password: p }] }\n", a, a)
		}
		conf.WriteString(also + "}\nsystem_account: SYS\n")
		ns, err := newTestServer(conf.String(), failed)
		if err != nil {
			c.stop()
			return nil, err
		}
		c.servers = append(c.servers, ns)
	}
	for _, ns := range c.servers {
		ns.Start()
	}
	if !testkit.Poll(patience, c.ready) {
		c.stop()
		select {
		case why := <-failed:
			return nil, errors.New(why)
		default:
			return nil, errors.New("the servers have not found each other")
		}
	}
	return c, nil
}

func newTestServer(conf string, failed chan string) (*server.Server, error) {
	opts := &server.Options{}
	if err := opts.ProcessConfigString(conf); err != nil {
		return nil, err
	}
	opts.NoSigs, opts.DisableJetStreamBanner = true, true
	ns, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	ns.SetLoggerV2(serverLog(failed), false, false, false)
	return ns, nil
}

// serverLog hears why a server does not start, and nothing else.
type serverLog chan string

func (serverLog) Noticef(string, ...any) {}
func (serverLog) Warnf(string, ...any)   {}
func (serverLog) Errorf(string, ...any)  {}
func (serverLog) Debugf(string, ...any)  {}
func (serverLog) Tracef(string, ...any)  {}

// Fatalf must not end the process.
func (l serverLog) Fatalf(format string, v ...any) {
	select {
	case l <- fmt.Sprintf(format, v...):
	default:
	}
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // only after all are found, so that they differ
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func (c *testCluster) ready() bool {
	for _, ns := range c.servers {
		if ns.JetStreamIsLeader() && len(ns.JetStreamClusterPeers()) == len(c.servers) {
			return true
		}
	}
	return false
}

func (c *testCluster) stop() {
	for _, ns := range c.servers {
		ns.Shutdown()
	}
	for _, ns := range c.servers {
		ns.WaitForShutdown()
	}
}

// connect returns a connection to any of the servers, for an account by number.
func (c *testCluster) connect(t testing.TB, account int) *nats.Conn {
	t.Helper()
	var urls []string
	for _, ns := range c.servers {
		urls = append(urls, ns.ClientURL())
	}
	return connect(t, strings.Join(urls, ","), nats.UserInfo(fmt.Sprint("u", account), "p"))
}

// open opens an empty store in an account.
func (c *testCluster) open(t testing.TB, account int, layout Layout) *Store {
	t.Helper()
	return openStore(t, c.connect(t, account), layout)
}
