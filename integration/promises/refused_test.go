package promises

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"millrace/events/jet/natstest"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
)

// guarded starts a NATS server in this process that asks for a password, and returns what changes it.
func guarded(p *harness.Place) (ns *server.Server, change func(password string)) {
	p.Helper()
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: p.Path("nats"), NoLog: true, NoSigs: true,
		Username: "ann", Password: "right",
	}
	ns, err := server.NewServer(opts)
	if err != nil {
		p.Fatal(err)
	}
	ns.Start()
	p.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(harness.Patience) {
		p.Fatal("the NATS server is not ready")
	}
	at, err := url.Parse(ns.ClientURL())
	if err != nil {
		p.Fatal(err)
	}
	at.User = url.UserPassword("ann", "right")
	p.URL = at.String()
	return ns, func(password string) {
		p.Helper()
		now := opts.Clone()
		now.Password = password
		if err := ns.ReloadOptions(now); err != nil {
			p.Fatal(err)
		}
	}
}

// onServer starts a server and a worker on the place's NATS server, and a command that follows a task
// which runs until there is a file.
func onServer(p *harness.Place) (serves, works, follows *harness.Process, c *client.Client) {
	p.Helper()
	serves = p.Start("server", "--data", harness.Data)
	serves.Until("it serves", func() bool { return strings.Contains(serves.Said.String(), "Millrace serves") })
	works = p.Worker("w")
	follows = p.Start("run", "--follow", "--dir", p.Dir, "--shell", "until [ -e go ]; do sleep 0.2; done; exit 3")
	c = p.Connect()
	p.Until("its task runs", func() bool { return strings.Contains(p.Run("task", "ls"), "running") })
	return serves, works, follows, c
}

// A NATS server refuses its password for a while, as while an operator changes it, and then takes it
// again. Every process comes back, says so once, and goes on with its work.
func TestRefusedForAWhile(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("the node is silent for longer than its heartbeat lasts")
	ns, change := guarded(p)
	serves, works, follows, c := onServer(p)
	all := map[string]*harness.Process{"server": serves, "worker": works, "command": follows}

	change("another")
	p.Until("each of them was refused several times", func() bool {
		closed, err := ns.Connz(&server.ConnzOptions{State: server.ConnClosed, Limit: 1000})
		if err != nil {
			return false
		}
		refused := map[string]int{}
		for _, conn := range closed.Conns {
			if conn.Reason == server.AuthenticationViolation.String() {
				refused[conn.Name]++
			}
		}
		return refused["millrace server"] > 3 && refused["millrace projector"] > 3 && refused["millrace worker"] > 3 && refused["millrace command line"] > 3
	})
	for name, process := range all {
		process.Until(name+" says so", func() bool { return strings.Contains(process.Said.String(), "refuses this connection") })
	}
	change("right")
	p.Until("the node is ready again", func() bool { return strings.Contains(p.Try("node", "ls").Out, "ready") })
	after := p.Submit("true")
	p.Await(c, after, task.Finished)
	p.Write("go", "")
	if code := follows.Wait(); code != 3 {
		t.Errorf("the command that follows ended with %d, want its task's 3\n%s", code, follows.Said.String())
	}
	for _, connection := range []string{"millrace worker", "millrace files"} {
		if said := strings.Count(works.Said.String(), `"connection":"`+connection+`","error":"nats: authorization violation"`); said != 1 {
			t.Errorf("the worker said %d times that %s is refused", said, connection)
		}
	}
	works.Stop()
	serves.Stop()
}

// A connection that is closed for good leaves no process behind that cannot do its work: each ends,
// with the exit code for a missing server and a reason, and whoever started it starts it again.
func TestClosedForGood(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	_, _ = guarded(p)
	front := natstest.NewFront(t, p.URL)
	p.URL = front.URL()
	serves, works, follows, _ := onServer(p)
	id := strings.Fields(p.Run("task", "ls", "--names"))[0]
	const odd = "something that only a later server says"
	all := map[string]*harness.Process{
		"server": serves, "worker": works, "run --follow": follows,
		"task wait": p.Start("task", "wait", id), "task logs -f": p.Start("task", "logs", "-f", id), "events tail": p.Start("events", "tail"),
	}
	p.Until("all are connected: server and worker twice, and this test", func() bool { return front.Open() >= 9 })
	for name, process := range all {
		p.Until(name+" has ended", func() bool {
			front.Say(odd)
			select {
			case <-process.Ended:
				return true
			default:
				return false
			}
		})
		// Only what was certainly connected before can name the reason; a command may still have tried.
		code, said := process.Wait(), process.Said.String()
		named := code == 4 && strings.Contains(said, odd)
		if running := process == serves || process == works || process == follows; running && !named || code == 0 || said == "" {
			t.Errorf("the %s ended with %d and said\n%s", name, code, said)
		}
	}
}
