package integration

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/jet"
)

// Whatever is started while a cluster has no leader says what it waits for, and works when there is one.
func TestStartsWhileAClusterElects(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	t.Cleanup(func() { c.stop() }) // those that were started again
	nc, err := nats.Connect(c.urls(), jet.Resilient(t.Name(), slog.New(slog.DiscardHandler))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := jet.Open(t.Context(), nc, jet.Layout{Replicas: 3, AckWait: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	p := newPlace(t, 6*time.Second)
	p.setenv("MILLRACE_REPLICAS", "3")
	p.url = c[0].ClientURL()
	again := c.restarts(1, 2)
	for _, i := range []int{1, 2} {
		c[i].Shutdown()
		c[i].WaitForShutdown()
	}
	// The server that is left takes some seconds to find out that it is alone; it answers meanwhile.
	processes := []*process{p.start("worker", "--name", "w1")}
	p.until("nobody is the leader", func() bool {
		s, err := jet.Attach(t.Context(), nc, jet.WithPatience(jet.Patience{For: time.Nanosecond}))
		if err == nil {
			s.Close()
		}
		return errors.Is(err, jet.ErrElecting)
	})
	processes = append(processes, p.start("worker", "--name", "w2"), p.start("server", "--data", "server"))
	command := p.start("run", "--wait", "--", "true")
	for _, s := range append(processes, command) {
		s.until("it says that it waits", func() bool { return strings.Contains(s.said.String(), "waiting") })
	}
	if r := p.try("job", "ls", "--timeout", "1s"); r.code != 4 || !strings.Contains(r.errs, "no leader") {
		t.Errorf("a command with --timeout 1s: exit code %d, want 4 and why:\n%s", r.code, r.errs)
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	if code := command.wait(); code != 0 {
		t.Errorf("the command ended with %d, want 0: %s", code, command.said.String())
	}
	p.until("the nodes are ready", func() bool {
		r := p.try("node", "ls")
		return strings.Count(r.out, " ready ") == 2
	})
	for _, s := range processes {
		s.stop()
	}
}
