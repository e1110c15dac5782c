package promises

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millrace/events/jet"
	jetnames "millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
)

// A process that starts while a cluster has no leader says what it waits for, and works once there
// is one. That goes for a command, too, although a server of Millrace says that nothing is stored.
func TestStartsWhileAClusterElects(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	nc, err := nats.Connect(c.URL(), jet.Resilient(t.Name(), slog.New(slog.DiscardHandler))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := jet.Open(t.Context(), nc, streams.Layout{Replicas: 3, AckWait: 6 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()

	p := harness.New(t, 6*time.Second)
	p.Let("MILLRACE_REPLICAS", "3")
	// The leader of the log stays: what it stores is lost, but it answers longer than another would.
	stays := -1
	p.Until("the log has a leader", func() bool {
		stays = slices.IndexFunc(c.Servers, func(ns *server.Server) bool { return ns.JetStreamIsStreamLeader("$G", jetnames.LogStream) })
		return stays >= 0
	})
	others := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == stays })
	p.URL = c.Servers[stays].ClientURL()
	watches := p.Start("server", "--data", "watches")
	watches.Until("it serves", func() bool { return strings.Contains(watches.Said.String(), "Millrace serves") })
	for _, i := range others {
		c.Servers[i].Shutdown()
		c.Servers[i].WaitForShutdown()
	}
	// The server that is left takes some seconds to find out that it is alone; it answers
	// meanwhile.
	processes := []*harness.Process{p.Start("worker", "--name", "w1")}
	p.Until("nobody is the leader", func() bool {
		s, err := jet.Attach(t.Context(), nc, jet.WithPatience(request.Patience{For: time.Nanosecond}))
		if err == nil {
			s.Close()
		}
		return errors.Is(err, request.ErrElecting)
	})
	watches.Until("it has seen that nothing is stored", func() bool { return strings.Contains(watches.Said.String(), "the log takes no messages") })
	processes = append(processes, p.Start("worker", "--name", "w2"), p.Start("server", "--data", "server"))
	command := p.Start("run", "--wait", "--", "true")
	early := []*harness.Process{p.Start("worker", "--name", "w3"), p.Start("server", "--data", "early")}
	for _, s := range slices.Concat(processes, early, []*harness.Process{command}) {
		s.Until("it says that it waits", func() bool { return strings.Contains(s.Said.String(), "waiting") })
	}
	for _, s := range early {
		s.Stop() // told to end while it starts, a process ends well
	}
	if r := p.Try("job", "ls", "--timeout", "1s"); r.Code != 4 || !strings.Contains(r.Errs, "no leader") {
		t.Errorf("a command with --timeout 1s: exit code %d, want 4 and why:\n%s", r.Code, r.Errs)
	}
	for _, i := range others {
		if err := c.Restart(i); err != nil {
			t.Fatal(err)
		}
	}
	if code := command.Wait(); code != 0 {
		t.Errorf("the command ended with %d, want 0: %s", code, command.Said.String())
	}
	p.Until("the nodes are ready", func() bool {
		r := p.Try("node", "ls")
		return strings.Count(r.Out, " ready ") == 2
	})
	for _, s := range append(processes, watches) {
		s.Stop()
	}
}
