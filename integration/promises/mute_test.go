package promises

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"millrace/integration/harness"
)

// A NATS server that finds no room for a file of its own shuts JetStream down. Then questions get no
// answer, as in a cluster without a leader. A command that cannot open the log therefore asks a
// millrace server which of the two it is, and does not wait for a leader if the disk is full.
func TestACommandTellsAFullDiskFromAnElection(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(harness.Patience) {
		t.Fatal("the NATS server is not ready")
	}
	nc, err := nats.Connect(ns.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	const why = "the log takes no messages: no space on /data"
	var says atomic.Value
	says.Store(why)
	health := func(m *nats.Msg) { _ = m.Respond(fmt.Appendf(nil, `{"log":%q}`, says.Load())) }
	for subject, answer := range map[string]nats.MsgHandler{
		"$JS.API.>":              func(*nats.Msg) {},
		"mr.api.*.server.health": health,
	} {
		if _, err := nc.Subscribe(subject, answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	p.URL = ns.ClientURL()
	for _, command := range []string{"run -- true", "task ls", "task ls --timeout 1s"} {
		began := time.Now()
		r := p.Try(strings.Fields(command)...)
		if r.Code != 7 || !strings.Contains(r.Errs, why) || !strings.Contains(r.Errs, "hint: make room on the disk") {
			t.Errorf("millrace %s ends with %d after %v and says %s", command, r.Code, time.Since(began), r.Errs)
		}
	}
	// A millrace server that cannot ask the log either does not know which of the two it is.
	says.Store("the log cannot be asked: context deadline exceeded")
	if r := p.Try("task", "ls", "--timeout", "1s"); r.Code != 4 || strings.Contains(r.Errs, "make room") {
		t.Errorf("while a cluster may be electing, it ends with %d and says %s", r.Code, r.Errs)
	}
}
