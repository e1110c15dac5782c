package node

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
)

// The end of a task that no node took tells why: which need none of how many nodes met, or what keeps
// those that do.
func TestNoNode(t *testing.T) {
	t.Parallel()
	in := func(key string, values ...string) placement.Requirement {
		return placement.Requirement{Key: key, Op: placement.OpIn, Values: values}
	}
	selected := func(queue string, needs ...placement.Requirement) task.Work {
		asked := placement.Asked{Queue: queue, Needs: needs}
		return task.Work{Spec: &job.Spec{Handler: "x"}, Asked: &asked, Route: asked.Route(5)}
	}
	all := fleet()
	for i := range all {
		all[i].Since = noon
	}
	busy := Node{ID: "busy", State: Ready, Since: noon, Profile: Profile{Queues: []string{"other"}, Slots: 1, Probes: true, Labels: map[string]string{"disk": ""}}}
	undo := map[string]string{
		"a quarantine":        "`millrace node release quarantined`",
		"orders of operators": "`millrace node uncordon cordoned` or `millrace node undrain draining`",
		"three nodes":         "`millrace node uncordon cordoned`",
	}
	only := func(names ...ID) (some []Node) {
		for _, n := range all {
			if slices.Contains(names, n.ID) {
				some = append(some, n)
			}
		}
		return some
	}
	for name, c := range map[string]struct {
		nodes  []Node
		work   task.Work
		paused bool
		want   string
	}{
		"a queue that no node serves":       {all, task.Work{Route: "archive.5"}, false, `no node serves queue "archive" (10 looked at)`},
		"no node at all":                    {nil, task.Work{Route: "archive.5"}, false, `no node serves queue "archive" (0 looked at)`},
		"a queue whose nodes take no work":  {all[5:6], task.Work{Route: "default.5"}, false, `no node that serves queue "default" takes work (1 looked at, 1 such)`},
		"a quarantine":                      {only("quarantined"), task.Work{Route: "default.5"}, false, `no node that serves queue "default" takes work (1 looked at, 1 such)`},
		"orders of operators":               {only("cordoned", "draining"), task.Work{Route: "default.5"}, false, `no node that serves queue "default" takes work (2 looked at, 2 such)`},
		"a queue that a node serves":        {all, task.Work{Route: "default.5"}, false, ""},
		"a paused queue":                    {all, task.Work{Route: "archive.5"}, true, ""},
		"a label that no node has":          {all, selected("default", in("gpu", "a100"), in("zone", "eu")), false, "no node has gpu=a100 (10 looked at)"},
		"two of them":                       {all, selected("default", in("gpu", "a100"), in("zone", "eu"), placement.Requirement{Key: "tpu", Op: placement.OpExists}), false, "no node has gpu=a100, tpu (10 looked at)"},
		"a handler":                         {all, selected("default", placement.Requirement{Key: "handler/crop", Op: placement.OpExists}), false, `no node has the handler "crop" (10 looked at)`},
		"labels that no node has together":  {append([]Node{busy}, all...), selected("default", in("zone", "eu"), placement.Requirement{Key: "disk", Op: placement.OpExists}), false, `no node serves queue "default" and has disk, zone=eu (11 looked at)`},
		"a label of another queue":          {[]Node{busy, all[0]}, selected("default", placement.Requirement{Key: "disk", Op: placement.OpExists}), false, `no node serves queue "default" and has disk (2 looked at)`},
		"a label of nodes that stand aside": {all[5:6], selected("default", in("zone", "eu")), false, `no node that serves queue "default" and has zone=eu takes work (1 looked at, 1 such)`},
		"names beside labels":               {all, selected("default", in("node", "b", "a")), false, "no node runs as node a or b (10 looked at)"},
		"a node":                            {all, task.Work{Spec: &job.Spec{Place: job.Place{Nodes: []string{"offline"}}}, Route: "@offline.5"}, false, "node offline is offline since 2026-03-01T12:00:00Z"},
		"three nodes":                       {all, task.Work{Spec: &job.Spec{Place: job.Place{Nodes: []string{"cordoned", "ghost", "retired"}}}, Route: "@cordoned.5"}, false, "node cordoned is cordoned since 2026-03-01T12:00:00Z, no worker has registered as node ghost, node retired is retired"},
		"a node that takes work":            {all, task.Work{Route: "@able.5"}, false, ""},
	} {
		w := NewFleet(c.nodes, 7, noon.Add(time.Hour))
		k := task.Evolve(task.Task{}, task.Recorded{Seq: 1, At: noon, Event: task.Submitted{Work: c.work}})
		if c.paused {
			w.Tell(queue.Queue{Name: k.Route.Queue(), Paused: &queue.Pause{Since: noon}})
		}
		around := w.Around(&k)
		if around.NoNode != c.want {
			t.Errorf("%s: %q, want %q", name, around.NoNode, c.want)
		}
		if want := undo[name]; around.Undo != want {
			t.Errorf("%s: %q has it taken, want %q", name, around.Undo, want)
		}
		by := w.By(&k, around, duties.Settings{})
		if named := by.Looked != nil; named != (c.want != "") || named && strings.Contains(c.want, "looked at") && !strings.Contains(c.want, strconv.Itoa(*by.Looked)+" looked at") {
			t.Errorf("%s: looked at %v", name, by.Looked)
		}
	}
}

// An attempt on a node of which the log has nothing is nobody's, once the log was asked for that node. What a
// list of nodes lacks may have registered since.
func TestAroundAnUnknownNode(t *testing.T) {
	t.Parallel()
	began := noon.Add(time.Minute)
	on := func(s task.State, id string) task.Task {
		return task.Task{State: s, Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: placement.QueueRoute("q", 5)}, Node: id, Session: "s1", StartedAt: began, Seq: 3, Epoch: 3}
	}
	running := on(task.Running, "n1")
	n1 := Node{ID: "n1", State: Ready, Session: "s1", Since: noon, Head: 1}
	for name, c := range map[string]struct {
		task         task.Task
		nodes, fresh []Node
		doubted      ID
		gone         time.Time
	}{
		"a list without it":          {running, nil, nil, "n1", time.Time{}},
		"a log without it":           {running, nil, []Node{{ID: "n1"}}, "n1", began},
		"a log that has it":          {running, nil, []Node{n1}, "", time.Time{}},
		"a list that has it":         {running, []Node{n1}, nil, "", time.Time{}},
		"a log that has other facts": {running, nil, []Node{{ID: "n1", Head: 1}}, "n1", began},
		"cancelling":                 {on(task.Cancelling, "n1"), nil, []Node{{ID: "n1"}}, "n1", began},
		"a parent":                   {on(task.Running, ""), nil, nil, "", time.Time{}},
		"it has ended":               {on(task.Finished, "n1"), nil, []Node{{ID: "n1"}}, "", time.Time{}},
		"it waits":                   {on(task.Pending, "n1"), nil, []Node{{ID: "n1"}}, "", time.Time{}},
	} {
		w := NewFleet(c.nodes, 7, noon.Add(time.Hour))
		for _, n := range c.fresh {
			w.Freshen(n)
		}
		around := w.Around(&c.task)
		if is := w.Doubted(&c.task, around); is != c.doubted || !around.NodeGone.Equal(c.gone) {
			t.Errorf("%s: %q is doubted, gone since %v; want %q, %v", name, is, around.NodeGone, c.doubted, c.gone)
		}
	}
}
