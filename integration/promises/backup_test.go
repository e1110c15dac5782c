package promises

import (
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/integration/harness"
	"millrace/task"
)

// relay passes connections on to a NATS server, and later to another one that has taken its place.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	to       string              // guarded by mu
	open     map[net.Conn]string // guarded by mu; where each goes
}

func newRelay(t testing.TB, to *embed.Server) (r *relay, address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r = &relay{listener: listener, open: map[net.Conn]string{}}
	address = r.lead(t, to)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.pass(c) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.cut("")
		all.Wait()
	})
	return r, address
}

// lead has all connections go to a server from now on, and returns the URL by which it is reached.
func (r *relay) lead(t testing.TB, to *embed.Server) string {
	t.Helper()
	at := reached(t, to)
	r.mu.Lock()
	r.to = at.Host
	r.mu.Unlock()
	r.cut(at.Host)
	at.Host = r.listener.Addr().String()
	return at.String()
}

// cut ends the connections to all other servers.
func (r *relay) cut(keep string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, to := range r.open {
		if to != keep {
			_ = c.Close()
		}
	}
}

func (r *relay) pass(from net.Conn) {
	defer from.Close()
	r.mu.Lock()
	to := r.to
	r.mu.Unlock()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	r.open[server] = to
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.open, server)
	}()
	go func() {
		_, _ = io.Copy(server, from)
		_ = server.Close()
	}()
	_, _ = io.Copy(from, server)
}

// reached is the URL of a server of [natsAt].
func reached(t testing.TB, s *embed.Server) *url.URL {
	t.Helper()
	at, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("ann", "secret")
	return at
}

// natsAt starts a NATS server in this process, in a folder of the place.
func natsAt(p *harness.Place, name string) *embed.Server {
	p.Helper()
	s, err := embed.Start(embed.Config{Dir: p.Path(name), Auth: embed.Auth{User: "ann", Password: "secret"}})
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(s.Stop)
	return s
}

// serving starts a server on the place's NATS server.
func serving(p *harness.Place, data string) *harness.Process {
	p.Helper()
	s := p.Start("server", "--data", data)
	s.Until("it serves", func() bool { return strings.Contains(s.Said.String(), "Millrace serves") })
	return s
}

// A worker of the old installation lives on, and reaches the restored one. It held a lease when the
// backup was made, and it has begun a task since. Others have both tasks now: what it says of them
// changes nothing, although the second attempt was the next fact in either log.
func TestOldWorkerMeetsRestoredLog(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("timers that fired after the backup")
	old := natsAt(p, "old")
	r, address := newRelay(t, old)
	p.URL = address
	server := serving(p, "model")
	first := p.Worker("w1")
	c := p.Connect()
	line := `until [ -e "` + p.Path("go-") + `$MILLRACE_NODE" ]; do sleep 0.1; done`
	leased := p.Submit(line)
	p.Await(c, leased, task.Running)
	waiting := p.Submit(line, "--queue", "other")
	p.Run("backup", "saved")

	second := p.Worker("w2", "--queue", "other")
	begun := p.Await(c, waiting, task.Running)
	server.Stop()

	now := natsAt(p, "now")
	p.URL = reached(p, now).String()
	if r := p.Try("restore", "saved"); r.Code != 0 || !strings.Contains(r.Errs, "holds the log up to #") {
		t.Fatalf("%+v", r)
	}
	serving(p, "model2")
	p.Worker("w3", "--queue", "other", "--queue", "default")
	c = p.Connect()
	var epochs []uint64
	for _, id := range []task.ID{leased, waiting} {
		var is task.Task
		p.Until("w3 has the task", func() bool { is = p.State(c, id); return is.State == task.Running && is.Node == "w3" })
		epochs = append(epochs, is.Epoch)
	}
	if epochs[1] == begun.Epoch {
		t.Errorf("the attempt on w3 has the epoch %d, as the one on w2 had", begun.Epoch)
	}
	r.lead(t, now)
	p.Write("go-w1", "")
	p.Write("go-w2", "")
	for name, w := range map[string]*harness.Process{"w1": first, "w2": second} {
		w.Until(name+" has heard that its attempt counts no more", func() bool {
			return strings.Contains(w.Said.String(), "result came too late")
		})
	}
	for i, id := range []task.ID{leased, waiting} {
		if is := p.State(c, id); is.State != task.Running || is.Epoch != epochs[i] {
			t.Errorf("task %s is %s on %s, and its attempt on w3 was to go on\n%s", id, is.State, is.Node, harness.Story(p.History(c, id)))
		}
	}
	p.Write("go-w3", "")
	for i, id := range []task.ID{leased, waiting} {
		if is := p.Await(c, id, task.Finished); is.Node != "w3" || is.Epoch != epochs[i] {
			t.Errorf("task %s has ended on %s\n%s", id, is.Node, harness.Story(p.History(c, id)))
		}
		if n := harness.Count(p.History(c, id), events.AttemptFinished); n != 1 {
			t.Errorf("task %s has %d results", id, n)
		}
	}
	if r := p.Try("verify", "--settled"); r.Code > 1 {
		t.Errorf("%+v", r)
	}
}
