package promises

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
)

// The heartbeats of all nodes are removed by a request to the server, and with their bucket. No
// living node counts as lost because of that, and running tasks continue. A message cannot remove
// them.
func TestHeartbeatsAreWiped(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("the bucket of heartbeats is deleted")
	p.Let("MILLRACE_BEAT", "1s")
	p.Let("MILLRACE_NODE_TTL", "3s")
	p.Server()
	nodes := []string{"a", "b", "c"}
	for _, id := range nodes {
		p.Worker(id)
	}
	c := p.Connect()
	for _, id := range nodes {
		p.SubmitAs(c, birth.Submission{Spec: &job.Spec{Run: &job.Run{Argv: []string{"sleep", "600"}}}, Nodes: []string{id}, NoNode: job.NoNodeWait})
	}
	js := p.JetStream()
	ctx, cancel := context.WithTimeout(t.Context(), 2*harness.Patience)
	defer cancel()
	const bucket = "KV_MR_NODES"
	running := func() bool {
		alive, err := c.Store().Alive(ctx)
		for _, id := range nodes {
			if h := alive[node.ID(id)]; len(h.Runs) != 1 {
				return false
			}
		}
		return err == nil
	}
	p.Until("each node runs a task and says so", running)
	answer, err := js.Conn().RequestMsgWithContext(ctx, &nats.Msg{Subject: "$KV.MR_NODES.nobody", Header: nats.Header{"Nats-Rollup": {"all"}}})
	if err != nil || !strings.Contains(string(answer.Data), "rollup not permitted") {
		t.Errorf("a message that would roll all up: %v, %+v", err, answer)
	}
	for _, wipe := range []struct {
		how string
		do  func() error
	}{
		{"that message and a purge", func() error {
			s, err := js.Stream(ctx, bucket)
			if err == nil {
				err = s.Purge(ctx)
			}
			return err
		}},
		{"a deletion", func() error { return js.DeleteStream(ctx, bucket) }},
	} {
		if err := wipe.do(); err != nil {
			t.Fatalf("%s: %v", wipe.how, err)
		}
		wiped := time.Now()
		p.Until("the nodes beat again after "+wipe.how, func() bool { return time.Since(wiped) > 4*time.Second && running() })
		for _, id := range nodes {
			if facts := nodeFacts(p, c, node.ID(id)); slices.Contains(facts, events.NodeOffline) {
				t.Errorf("after %s node %s counted as lost: %v", wipe.how, id, facts)
			}
		}
	}
}
