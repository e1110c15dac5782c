package main

import (
	"strings"
	"testing"
	"time"

	"millrace/client"
	"millrace/cmd/millrace/told"
	"millrace/node"
)

// A list never calls a node ready of which nothing was heard for longer than a heartbeat lasts.
func TestASilentNodeIsNotReady(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	page := client.NodePage{Nodes: []client.NodeView{
		{Node: node.Node{ID: "quiet", State: node.Ready}, LastBeat: now.Add(-36 * time.Second), Silent: true},
		{Node: node.Node{ID: "well", State: node.Ready}, LastBeat: now.Add(-time.Second)},
	}}
	for _, row := range nodeTable(&page, presentAt(now)).Rows {
		want := map[string]string{"quiet": "silent", "well": "ready"}[row[0].Text]
		if row[1].Text != want {
			t.Errorf("node %s is listed as %s, want %s", row[0].Text, row[1].Text, want)
		}
	}
	if !strings.HasPrefix(told.SeenState(&page.Nodes[0]).Text, "silent") {
		t.Error("node show calls it something else")
	}
}
