package job

import (
	"errors"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/testkit"
	"millrace/service/client"
	"millrace/task/node"
	"millrace/task/value"
)

// A list never calls a node ready that has been silent for longer than its heartbeat is valid.
func TestASilentNodeIsNotReady(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	page := client.NodePage{Nodes: []client.NodeView{
		{Node: node.Node{ID: "quiet", State: node.Ready}, LastBeat: now.Add(-36 * time.Second), Silent: true},
		{Node: node.Node{ID: "well", State: node.Ready}, LastBeat: now.Add(-time.Second)},
	}}
	for _, row := range nodeList.Table(page, presentAt(now)).Rows {
		want := map[string]string{"quiet": "silent", "well": "ready"}[row[0].Text]
		if row[1].Text != want {
			t.Errorf("node %s is listed as %s, want %s", row[0].Text, row[1].Text, want)
		}
	}
	if !strings.HasPrefix(wording.SeenState(&page.Nodes[0]).Text, "silent") {
		t.Error("node show calls it something else")
	}
}

func TestNodeTables(t *testing.T) {
	a := client.NodeView{
		Node: node.Node{
			ID: "node-a", State: node.Ready, Reason: "its probe came through", Session: "s1", Head: 9, Since: noon, Started: noon,
			Link: node.Ready, OnlineSince: noon.Add(-time.Second), ReadySince: noon, Took: value.Duration(3 * time.Millisecond), Kept: 2,
			Standing:  node.Standing{Order: node.OrderCordon, Reason: "disk", By: "ada@desk", Since: noon.Add(time.Second)},
			Stability: node.Stability{Sessions: 3, Ended: 2, Lived: value.Duration(time.Hour), Short: 1},
			Profile:   node.Profile{Host: "desk", PID: 42, Version: "v1.2.3", Labels: map[string]string{"gpu": "yes"}, Slots: 4, Queues: []string{"default", "bulk"}, Probes: true},
		},
		MeanSession: value.Duration(30 * time.Minute), Score: 0.7, Running: 3, LastBeat: noon.Add(58 * time.Second),
		Machine: node.Machine{Processors: 8, Busy: 0.37, Memory: 16 << 30, MemoryUsed: 5 << 30},
	}
	b := client.NodeView{Node: node.Node{ID: "node-b", State: node.Offline, Reason: "its heartbeat stopped", Since: noon.Add(-time.Hour)}}
	now := noon.Add(time.Minute)
	for _, v := range []*client.NodeView{&a, &b} {
		v.Next = node.Owes(v.Node, node.Settings{TTL: 15 * time.Second})
	}
	c := client.NodeView{Node: node.Node{ID: "node-c", State: node.Draining, Reason: "drained by ada@desk: new disk", Since: noon, Standing: node.Standing{Order: node.OrderDrain}}}
	c.Runs(1)
	d := c
	d.ID = "node-d"
	d.Runs(0)
	a.Version = "v0.3.1-0.20261122101500-ff0781f2b3c4"
	nodes := client.NodePage{Nodes: []client.NodeView{a, b, c, d}, Seq: 9}
	testkit.Table(t, "node_ls", nodeList.Table(nodes, presentAt(now)), 0, false)
	testkit.Table(t, "node_ls_80", nodeList.Table(nodes, presentAt(now)), 80, false)
	registered := events.Record{Seq: 8, Kind: events.KindNode, Fact: events.Fact{At: noon, Node: "node-a", Type: events.NodeRegistered, Event: node.Registered{Session: "s1", Profile: a.Profile}}}
	online := events.Record{Seq: 9, Kind: events.KindNode, Fact: events.Fact{At: noon, Node: "node-a", Type: events.NodeOnline, Event: node.WentOnline{Session: "s1", Reason: "its heartbeat was stored"}}}
	testkit.Table(t, "node_show", nodeDetails(&a, []events.Record{registered, online}, now), 0, false)

	for want, n := range map[string]node.Node{
		`timed out waiting: node a is online for 1m00s (beats); its worker must act: fetch what was put on its own route, which proves that work reaches it, by 2026-03-01 12:00:15; otherwise look at the worker's log: it beats, and cannot fetch`: {
			ID: "a", State: node.Online, Reason: "beats", Since: noon, OnlineSince: noon, Profile: node.Profile{Probes: true}},
		`timed out waiting: node a is ready for 1m00s (proved), and that is less than 2m0s without a drop`:                                       {ID: "a", State: node.Ready, Reason: "proved", Since: noon, ReadySince: noon},
		"timed out waiting: node a is unknown; an operator must act: start `millrace worker --name a`: no worker has registered under this name": {ID: "a"},
	} {
		if got := unready(n, 2*time.Minute, now, node.Settings{TTL: 15 * time.Second}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// presentAt is the present at a time.
func presentAt(now time.Time) *connect.Sight {
	return &connect.Sight{Now: func() time.Time { return now }}
}

// Who asks for a node that never came learns what waits for it, and what to start.
func TestAwaitedNode(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	all := []client.UnservedNode{{Node: "w9", Unserved: node.Unserved{Tasks: 2, Since: now.Add(-time.Minute)}}}
	f := term.FaultOf(awaited(node.ErrUnknown, "w9", all, now))
	if f == nil || f.Code != term.ExitNotFound || !strings.Contains(f.Error(), "2 tasks wait for it alone since") || !strings.Contains(f.Hint, "millrace worker --name w9") {
		t.Errorf("%v", f)
	}
	if err := awaited(node.ErrUnknown, "w8", all, now); !errors.Is(err, node.ErrUnknown) || err.Error() != node.ErrUnknown.Error() {
		t.Errorf("%v", err)
	}
}
