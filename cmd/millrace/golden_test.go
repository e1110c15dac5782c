package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// golden compares a table with testdata/golden/<name>.txt; go test -update writes it.
func golden(t *testing.T, name string, got table, bound int, colours bool) {
	t.Helper()
	var b bytes.Buffer
	if err := got.write(&b, bound, colours); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(b.Bytes(), want) {
		t.Errorf("%s is\n%s\nwant\n%s", name, b.Bytes(), want)
	}
}

const (
	id1 task.ID = "01JD6Z8V3M0QK4T7W2X9Y5ABCD"
	id2 task.ID = "01JD6Z8V3M0QK4T7W2X9Y5ABCE"
)

// history is a task that failed once, was lost once and runs now.
func history() []events.Record {
	work := task.Work{
		Job: "backup", Revision: 3, Route: task.QueueRoute("bulk", 5), Labels: map[string]string{"team": "a", "customer": "acme"},
		Params: json.RawMessage(`{"depth":2}`),
		Spec: &task.Spec{
			Run:     &task.Run{Argv: []string{"backup", "--all"}, Env: map[string]string{"TMP": "/x"}},
			Timeout: task.Timeout{Run: task.Duration(time.Minute)}, Retry: task.Retry{Max: 2},
		},
	}
	code := 3
	var records []events.Record
	add := func(after time.Duration, kind events.Kind, actor string, e task.Event) {
		at := noon.Add(after)
		records = append(records, events.Record{
			Seq: uint64(len(records) + 10), Stored: at, Kind: kind, Place: "mr.task." + string(id1), Raw: []byte(`{}`),
			Fact: events.Fact{At: at, Task: id1, Type: events.TypeOf(e), Actor: actor, Event: e},
		})
	}
	add(0, events.KindOffer, "ada@desk", task.Submitted{Work: work})
	add(2*time.Millisecond, events.KindChain, "", task.AttemptStarted{Attempt: 1, Node: "node-a", Session: "s1", Offer: 10})
	add(3*time.Second, events.KindChain, "", task.AttemptFailed{
		Attempt: 1, Epoch: 11, Class: task.ReasonExit, Exit: &code, Message: "backup exited with code 3", Retry: &task.RetryPlan{Attempt: 2, Due: noon.Add(4 * time.Second)},
		Usage: &task.Usage{UserTime: task.Duration(20 * time.Millisecond), MaxMemory: 5 << 20},
	})
	add(3*time.Second, events.KindOffer, "node-a", task.Queued{Work: work, Attempt: 2, After: 12, Reason: "exit", Due: noon.Add(4 * time.Second)})
	add(4*time.Second, events.KindChain, "", task.AttemptStarted{Attempt: 2, Node: "node-a", Session: "s1", Offer: 13})
	add(40*time.Second, events.KindChain, "", task.AttemptStarted{Attempt: 3, Node: "node-b", Session: "s7", Offer: 13, TookOver: &task.TookOver{Epoch: 14, Reason: "the lease of node-a ran out"}})
	records = append(records, events.Record{
		Seq: 16, Stored: noon.Add(41 * time.Second), Kind: events.KindChain, Raw: []byte("\x1b[2Jnonsense"), Err: errors.New("not JSON"), Fact: events.Fact{Task: id1},
	})
	add(42*time.Second, events.KindChain, "", task.AttemptLate{Epoch: 14, Node: "node-a", Said: json.RawMessage(`{"type":"attempt.finished"}`)})
	return records
}

func TestTaskTables(t *testing.T) {
	records := history()
	now := noon.Add(50 * time.Second)
	running := events.FoldTask(id1, records)
	ended := task.Task{
		ID: id2, State: task.Abnormal, Reason: task.ReasonExpired, Message: "start timeout:\x1b[31m no node\nserved queue \"gpu\"", SubmittedAt: noon.Add(-3 * time.Hour),
		Work: task.Work{Spec: &task.Spec{Run: &task.Run{Shell: "for i in 1 2 3; do echo $i; done | sort --reverse"}}, Route: "gpu.5"},
	}
	page := client.ListPage{
		Tasks: []task.Task{running, ended}, Next: "abc", Seq: 17,
		Counts: map[string]int{"running": 1, "abnormal": 1, "pending": 0, "sleeping": 2},
	}
	golden(t, "task_ls", taskTable(&page, now), 0, false)
	golden(t, "task_ls_narrow_coloured", taskTable(&page, now), 130, true)
	golden(t, "task_ls_none", taskTable(&client.ListPage{Counts: map[string]int{}}, now), 0, false)
	golden(t, "task_show", taskDetails(&running, now), 0, false)
	golden(t, "task_events", historyTable(records), 0, false)
}

func TestWhyTables(t *testing.T) {
	rules := task.Settings{StartDeadline: 2 * time.Minute, AckWait: 6 * time.Second, Slack: 2 * time.Second}
	records := history()
	for name, c := range map[string]struct {
		until    int
		nodes    []node.Node
		enforced bool
		now      time.Time
	}{
		"why_pending":        {1, nil, false, noon.Add(time.Minute)},
		"why_pending_served": {1, []node.Node{{ID: "node-a", State: node.Online, Profile: node.Profile{Queues: []string{"bulk"}}}}, true, noon.Add(time.Minute)},
		"why_retrying":       {3, nil, true, noon.Add(3500 * time.Millisecond)},
		"why_running":        {len(records), nil, true, noon.Add(50 * time.Second)},
		"why_overdue":        {len(records), []node.Node{{ID: "node-b", Session: "s7", State: node.Offline, Since: noon.Add(45 * time.Second)}}, true, noon.Add(5 * time.Minute)},
	} {
		k, decisive := decisiveFacts(id1, records[:c.until])
		e := explainTask(&k, decisive, around(&k, c.nodes, task.Queue{}, c.now), rules, c.enforced, c.now)
		golden(t, name, whyTable(e, c.now), 0, false)
	}
}

func TestNodeTables(t *testing.T) {
	a := client.NodeView{
		Node: node.Node{
			ID: "node-a", State: node.Ready, Reason: "its probe came through", Session: "s1", Head: 9, Since: noon, Started: noon,
			Link: node.Ready, OnlineSince: noon.Add(-time.Second), ReadySince: noon, Took: task.Duration(3 * time.Millisecond), Kept: 2,
			Standing:  node.Standing{Order: node.OrderCordon, Reason: "disk", By: "ada@desk", Since: noon.Add(time.Second)},
			Stability: node.Stability{Sessions: 3, Ended: 2, Lived: task.Duration(time.Hour), Short: 1},
			Profile:   node.Profile{Host: "desk", PID: 42, Version: "v1.2.3", Labels: map[string]string{"gpu": "yes"}, Slots: 4, Queues: []string{"default", "bulk"}, Probes: true},
		},
		MeanSession: task.Duration(30 * time.Minute), Score: 0.7, Running: 3, LastBeat: noon.Add(58 * time.Second),
	}
	b := client.NodeView{Node: node.Node{ID: "node-b", State: node.Offline, Reason: "its heartbeat stopped", Since: noon.Add(-time.Hour)}}
	now := noon.Add(time.Minute)
	for _, v := range []*client.NodeView{&a, &b} {
		v.Next = node.Owes(v.Node, node.Settings{TTL: 15 * time.Second})
	}
	golden(t, "node_ls", nodeTable(&client.NodePage{Nodes: []client.NodeView{a, b}, Seq: 9}, now), 0, false)
	registered := events.Record{Seq: 8, Kind: events.KindNode, Fact: events.Fact{At: noon, Node: "node-a", Type: events.NodeRegistered, Event: node.Registered{Session: "s1", Profile: a.Profile}}}
	online := events.Record{Seq: 9, Kind: events.KindNode, Fact: events.Fact{At: noon, Node: "node-a", Type: events.NodeOnline, Event: node.WentOnline{Session: "s1", Reason: "its heartbeat was stored"}}}
	golden(t, "node_show", nodeDetails(&a, []events.Record{registered, online}, now), 0, false)

	for want, n := range map[string]node.Node{
		`timed out waiting: node a is online for 1m00s (beats); its worker must act: fetch what was put on its own route, which proves that work reaches it, by 2026-03-01 12:00:15; otherwise look at the worker's log: it beats, and cannot fetch`: {
			ID: "a", State: node.Online, Reason: "beats", Since: noon, OnlineSince: noon, Profile: node.Profile{Probes: true}},
		`timed out waiting: node a is ready for 1m00s (proved), and that is less than 2m0s without a drop`:                                    {ID: "a", State: node.Ready, Reason: "proved", Since: noon, ReadySince: noon},
		"timed out waiting: node a is unknown; an operator must act: start `millrace worker --name a`: nobody has registered under this name": {ID: "a"},
	} {
		if got := unready(n, 2*time.Minute, now, node.Settings{TTL: 15 * time.Second}); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestJobTable(t *testing.T) {
	a := app{now: func() time.Time { return noon }}
	jobs := []jet.StoredJob{{
		Job:      task.Job{Name: "hello", Labels: map[string]string{"team": "a"}, Spec: task.Spec{Run: &task.Run{Argv: []string{"echo", "hello"}}}},
		Revision: 3, Changed: noon.Add(-5 * time.Minute),
	}, {
		Job: task.Job{Name: "resize", Queue: "images", Spec: task.Spec{Handler: "resize"}}, Revision: 12, Changed: noon.AddDate(0, 0, -9),
	}}
	golden(t, "job_ls", a.jobTable(jobs), 0, false)
}

func TestAround(t *testing.T) {
	serves := func(id node.ID, s node.State, since time.Time) node.Node {
		return node.Node{ID: id, State: s, Since: since, Profile: node.Profile{Queues: []string{"bulk"}}}
	}
	waiting := task.Task{State: task.Pending, Work: task.Work{Route: "bulk.5"}, Node: "node-a"}
	running := waiting
	running.State = task.Running
	gone := serves("node-a", node.Offline, noon)
	for name, c := range map[string]struct {
		t     task.Task
		nodes []node.Node
		want  task.Surroundings
	}{
		"no nodes":           {waiting, nil, task.Surroundings{}},
		"other queue":        {waiting, []node.Node{{ID: "x", State: node.Online, Since: noon}}, task.Surroundings{}},
		"served":             {waiting, []node.Node{serves("b", node.Online, noon), gone}, task.Surroundings{Serving: 1}},
		"no longer served":   {waiting, []node.Node{serves("b", node.Draining, noon.Add(time.Minute)), gone}, task.Surroundings{Unserved: noon.Add(time.Minute)}},
		"its node is gone":   {running, []node.Node{gone, serves("b", node.Online, noon)}, task.Surroundings{Serving: 1, NodeGone: noon}},
		"node of a past try": {waiting, []node.Node{gone}, task.Surroundings{Unserved: noon}},
	} {
		c.want.Seen = noon
		if got := around(&c.t, c.nodes, task.Queue{}, noon); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
