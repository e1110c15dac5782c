package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/client"
	"millrace/cmd/millrace/reach"
	"millrace/cmd/millrace/term"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/view"
)

// golden compares a table with testdata/golden/<name>.txt; go test -update writes it.
func golden(t *testing.T, name string, got term.Table, bound int, colours bool) {
	t.Helper()
	var b bytes.Buffer
	if err := got.Write(&b, bound, colours); err != nil {
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

// recorded is a task that failed once, was lost once and runs now.
func recorded() []events.Record {
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
	records := recorded()
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
	golden(t, "task_ls_80", taskTable(&page, now), 80, false)
	golden(t, "task_ls_steps", taskTable(steps(now), now), 100, false)
	golden(t, "task_ls_steps_80", taskTable(steps(now), now), 80, false)
	golden(t, "task_show", taskDetails(&running, now), 0, false)
	golden(t, "task_events", historyTable(records), 0, false)
}

// steps is a page of a whole that runs, with its steps in the order of their ids.
func steps(now time.Time) *client.ListPage {
	spec := &task.Spec{Steps: []task.Step{{Name: "extract"}, {Name: "transform"}, {Name: "load"}}}
	whole := task.Task{ID: id1, State: task.Running, SubmittedAt: now.Add(-time.Minute), StartedAt: now.Add(-time.Minute),
		Work: task.Work{Job: "etl", Spec: spec, Route: "default.5"}, Children: &task.Children{Names: []string{"extract", "transform", "load"}}}
	child := func(name string) task.Task {
		return task.Task{ID: task.ChildID(id1, name), SubmittedAt: whole.SubmittedAt, Work: task.Work{Job: "etl", Step: name, Parent: id1, Route: "default.5", Spec: &task.Spec{}}}
	}
	extract, transform, load := child("extract"), child("transform"), child("load")
	extract.State, extract.Ran, extract.Node, extract.Attempt = task.Finished, task.Duration(1500*time.Millisecond), "node-a", 1
	transform.State, transform.StartedAt, transform.Node, transform.Attempt = task.Running, now.Add(-20*time.Second), "node-b", 2
	load.State, load.Reason, load.Route = task.Held, task.HoldNeeds, task.NodeRoute("node-c", 5)
	half := 0.4
	return &client.ListPage{
		Tasks: []task.Task{load, whole, transform, extract}, Seq: 30,
		Live:   map[task.ID]*task.Live{transform.ID: {Progress: &half, Message: "page 40 of 100"}},
		Wholes: map[task.ID]*client.Whole{id1: {Ended: 1, Total: 3, Running: []string{"transform"}}},
	}
}

// presumed is a view of some facts, and of nodes of which there are none.
type presumed struct {
	*view.World
	nodes view.Page
}

func (v presumed) List(ctx context.Context, q view.Query) (view.Page, error) {
	if q.Kind == view.Nodes {
		return v.nodes, nil
	}
	return v.World.List(ctx, q)
}

func (presumed) Beats(context.Context) (map[node.ID]node.Heartbeat, error)      { return nil, nil }
func (presumed) Ran(context.Context, string) (string, error)                    { return "", nil }
func (presumed) Paused(context.Context, task.Lane) (*task.Pause, error)         { return nil, nil }
func (presumed) Standing(context.Context, task.ID, int) (*task.Standing, error) { return nil, nil }

func TestWhyTables(t *testing.T) {
	rules := task.Settings{StartDeadline: 2 * time.Minute, AckWait: 6 * time.Second, Slack: 2 * time.Second}
	records := recorded()
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
		v := presumed{view.Past(records[:c.until], view.Moment{}), view.Page{Nodes: c.nodes, Beating: !c.enforced}}
		e, err := view.Why(t.Context(), v, id1, view.Rules{Task: rules, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		e.Suspect, e.Nodes = nil, nil // other tables show them
		golden(t, name, whyTable(&explanation{Explanation: *e}, c.now), 0, false)
	}
	whole := task.Task{ID: id1, State: task.Error, Reason: task.ReasonTask, Since: noon, Message: "transform failed (error/exit: sh exited with code 7: KeyError: 'x'); 3 of 3 have ended: 1 finished, 1 error, 1 skipped",
		Work: task.Work{Spec: &task.Spec{Steps: []task.Step{{Name: "extract"}, {Name: "transform"}, {Name: "load"}}}}, Children: &task.Children{Names: []string{"extract", "transform", "load"}}}
	children := []task.Task{
		{ID: task.ChildID(id1, "load"), State: task.Cancelled, Reason: task.ReasonSkipped}, {ID: task.ChildID(id1, "extract"), State: task.Finished},
		{ID: task.ChildID(id1, "transform"), State: task.Error, Reason: task.ReasonExit, Node: "node-b", Attempt: 2, Message: "sh exited with code 7: KeyError: 'x'"},
	}
	e := &explanation{Explanation: view.Explanation{Task: whole.ID, State: whole.State, Reason: whole.Reason, Message: whole.Message, Since: whole.Since, Enforced: true}}
	e.Parts = view.PartsOf(&whole, children)
	golden(t, "why_whole", whyTable(e, noon), 80, false)
	children[2].State = task.Running
	e.Parts = view.PartsOf(&whole, children)
	golden(t, "why_whole_running", whyTable(e, noon), 80, false)
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
	c := client.NodeView{Node: node.Node{ID: "node-c", State: node.Draining, Reason: "drained by ada@desk: new disk", Since: noon, Standing: node.Standing{Order: node.OrderDrain}}}
	c.Runs(1)
	d := c
	d.ID = "node-d"
	d.Runs(0)
	a.Version = "v0.3.1-0.20261122101500-ff0781f2b3c4"
	nodes := client.NodePage{Nodes: []client.NodeView{a, b, c, d}, Seq: 9}
	golden(t, "node_ls", nodeTable(&nodes, presentAt(now)), 0, false)
	golden(t, "node_ls_80", nodeTable(&nodes, presentAt(now)), 80, false)
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
	jobs := []client.JobRow{{
		StoredJob: jet.StoredJob{
			Job:      task.Job{Name: "hello", Title: "Say hello", Labels: map[string]string{"team": "a"}, Spec: task.Spec{Run: &task.Run{Argv: []string{"echo", "hello"}}}},
			Revision: 3, Changed: noon.Add(-5 * time.Minute),
		},
		Schedules: []string{"hello", "hourly"}, Last: &client.Run{State: task.Error, Reason: task.ReasonExit, Since: noon.Add(-2 * time.Hour)},
	}, {
		StoredJob: jet.StoredJob{Job: task.Job{Name: "resize", Queue: "images", Spec: task.Spec{Handler: "resize"}}, Revision: 12, Changed: noon.AddDate(0, 0, -9)},
		Last:      &client.Run{State: task.Running, Since: noon.Add(-40 * time.Second)},
	}}
	golden(t, "job_ls", jobTable(jobs, noon), 0, false)
	golden(t, "job_ls_80", jobTable(jobs, noon), 80, false)
}

func TestScheduleTable(t *testing.T) {
	row := func(name string, when task.Schedule, last *client.Run, decided time.Time, skipped map[string]int) client.ScheduleRow {
		stored := schedule.Stored{Definition: schedule.Definition{Name: name, When: when, Make: task.Submission{Job: "backup"}, Since: noon.Add(-time.Hour), Anchor: noon.Add(-time.Hour)}}
		return client.NewScheduleRow(stored, last, decided, skipped, noon)
	}
	paused := row("tidy", task.Schedule{Every: task.Duration(time.Minute)}, nil, noon, nil)
	paused.Paused, paused.Next = &schedule.Pause{Reason: "enough of it"}, nil
	rows := []client.ScheduleRow{
		row("late", task.Schedule{Every: task.Duration(time.Minute)}, &client.Run{State: task.Running, Since: noon.Add(-5 * time.Minute)}, noon.Add(-5*time.Minute), nil),
		row("nightly", task.Schedule{Cron: "30 2 * * *", Timezone: "Europe/Berlin"}, &client.Run{State: task.Error, Reason: task.ReasonExit, Since: noon.Add(-9 * time.Hour)},
			noon, map[string]int{task.SkipOverlap: 2, task.SkipMissed: 1}),
		paused,
	}
	if got := rows[0].Undecided; got != 4 { // the tick of this moment is in time
		t.Errorf("%d ticks are undecided, want 4", got)
	}
	golden(t, "schedule_ls", scheduleTable(rows, noon), 0, false)
	golden(t, "schedule_ls_80", scheduleTable(rows, noon), 80, false)
}

// presentAt is the present at a time.
func presentAt(now time.Time) *reach.Sight { return &reach.Sight{Now: func() time.Time { return now }} }

// noon is now in these tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
