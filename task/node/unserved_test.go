package node

import (
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
)

// Tasks that no node takes are counted by their queue, whether they want a queue, labels or a node, with
// since when and why.
func TestUnservedOf(t *testing.T) {
	pending := func(w task.Work) task.Task { return task.Task{State: task.Pending, Offered: true, Work: w} }
	gpu := placement.Asked{Queue: "images", Needs: placement.Selector{{Key: "gpu", Op: placement.OpExists}}}
	selected := pending(task.Work{Spec: &job.Spec{Handler: "x"}, Asked: &gpu, Route: gpu.Route(5)})
	resize := placement.Asked{Queue: "images", Needs: placement.Selector{{Key: job.LabelHandler + "resize", Op: placement.OpExists}}}
	handled := pending(task.Work{Spec: &job.Spec{Handler: "x"}, Asked: &resize, Route: resize.Route(5)})
	nodes := []Node{
		{ID: "a", State: Ready, Since: noon, Profile: Profile{Queues: []string{"images"}}},
		{ID: "b", State: Offline, Since: noon.Add(time.Hour), Profile: Profile{Queues: []string{"mail"}}},
	}
	got := UnservedOf([]Route{
		{"images", 3, noon, pending(task.Work{Route: "images.5"})},
		{"images", 2, noon.Add(time.Minute), selected},
		{"images", 1, noon.Add(2 * time.Minute), handled},
		{"mail", 4, noon.Add(time.Minute), pending(task.Work{Route: "mail.5"})},
		{"archive", 1, noon, pending(task.Work{Route: "archive.5"})},
		{"@b", 7, noon, pending(task.Work{Route: "@b.5"})},
		{"@ghost", 2, noon, pending(task.Work{Route: "@ghost.5"})},
		{"closed", 5, noon, pending(task.Work{Route: "closed.5"})},
	}, nodes, []queue.Queue{{Name: "closed", Paused: &queue.Pause{Since: noon}}}, noon.Add(2*time.Hour))
	want := map[string]Unserved{
		"images":  {3, noon.Add(time.Minute), `no node has gpu (2 looked at); no node has the handler "resize" (2 looked at)`},
		"mail":    {4, noon.Add(time.Hour), `no node that serves queue "mail" takes work (2 looked at, 1 such)`},
		"archive": {1, noon, `no node serves queue "archive" (2 looked at)`},
		"@ghost":  {2, noon, "no worker has registered as node ghost"},
		"@b":      {7, noon.Add(time.Hour), "node b is offline since 2026-03-01T13:00:00Z"},
	}
	for name, is := range want {
		if got[name] == nil || *got[name] != is {
			t.Errorf("%s: %+v, want %+v", name, got[name], is)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d queues, want %d: %+v", len(got), len(want), got)
	}
}
