package promises

import (
	"os"
	"strings"
	"testing"
	"time"

	"millrace/events/jet/embed"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/task"
)

// NATS comes back with an older log, as after a loss of power or a restore beneath living processes:
// all that happened since the copy is gone. No process needs a restart: the worker says so and takes
// work again, on its queue and on its own route, the read model tells the log that there is, and
// nobody goes by a sequence that he remembers.
func TestOlderLog(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("the log has lost its last messages")
	p.Let("MILLRACE_FLAP_LIMIT", "0")
	cfg := embed.Config{Dir: p.Path("nats"), SyncAlways: true, Port: testkit.Port(t)}
	start := func() *embed.Server {
		p.Helper()
		server, err := embed.Start(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return server
	}
	server := start()
	defer func() { server.Stop() }()
	p.URL = server.URL()
	// away does something while NATS is away.
	away := func(do func() error) {
		p.Helper()
		server.Stop()
		if err := do(); err != nil {
			t.Fatal(err)
		}
		server = start()
	}
	copied := func() error { return os.CopyFS(p.Path("older"), os.DirFS(cfg.Dir)) }
	restored := func() error {
		if err := os.RemoveAll(cfg.Dir); err != nil {
			return err
		}
		return os.Rename(p.Path("older"), cfg.Dir)
	}
	serves := p.Start("server", "--data", harness.Data)
	serves.Until("it serves", func() bool { return strings.Contains(serves.Said.String(), "Millrace serves") })
	c := p.Connect()
	works := func(when string) {
		p.Helper()
		for _, flags := range [][]string{{}, {"--node", "w"}, {"--priority", "8"}} {
			id := p.Submit("true", flags...)
			if got := p.Await(c, id, task.Finished); got.Attempt != 1 {
				t.Errorf("%s a task (%v) ends on attempt %d", when, flags, got.Attempt)
			}
			p.Until("the list has it", func() bool {
				return strings.Contains(p.Try("task", "ls", "--state", "finished", "--names").Out, string(id))
			})
		}
	}

	away(copied) // before the node's first fact
	w := p.Worker("w")
	works("before")
	away(restored)
	w.Until("the worker says so", func() bool { return strings.Contains(w.Said.String(), "registers anew") })
	works("after the node was lost")

	away(copied) // amid its session
	p.Run("node", "cordon", "w")
	p.Until("the node has heard", func() bool { return strings.Contains(w.Said.String(), "takes no work for now") })
	p.Run("node", "uncordon", "w")
	works("before the second loss")
	lost := p.Submit("sleep 600")
	p.Await(c, lost, task.Running)
	away(restored)
	works("after facts of the node's session were lost")
	p.Until("no process of the lost task is left", func() bool { return len(harness.Survivors("MILLRACE_TASK="+string(lost))) == 0 })
	p.Until("the node is ready", func() bool { return strings.Contains(p.Run("node", "ls"), " ready ") })
	if r := p.Try("verify"); r.Code == 2 {
		t.Errorf("verify after all that: exit code %d\n%s", r.Code, r.Out)
	}
	if said := strings.Count(w.Said.String(), "registers anew"); said != 2 {
		t.Errorf("the worker said %d times that it registers anew, want 2", said)
	}
	w.Stop()
	serves.Stop()
}
