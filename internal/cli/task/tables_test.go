package task

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/cli/term"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/value"
)

const (
	id1 task.ID = "01JD6Z8V3M0QK4T7W2X9Y5ABCD"
	id2 task.ID = "01JD6Z8V3M0QK4T7W2X9Y5ABCE"
)

// recorded is a task that failed once, was lost once and runs now.
func recorded() []events.Record {
	work := task.Work{
		Job: "backup", Revision: 3, Route: placement.QueueRoute("bulk", 5), Labels: map[string]string{"team": "a", "customer": "acme"},
		Params: json.RawMessage(`{"depth":2}`),
		Spec: &job.Spec{
			Run:     &job.Run{Argv: []string{"backup", "--all"}, Env: map[string]string{"TMP": "/x"}},
			Timeout: job.Timeout{Run: value.Duration(time.Minute)}, Retry: job.Retry{Max: 2},
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
		Attempt: 1, Epoch: 11, Class: value.Exit, Exit: &code, Message: "backup exited with code 3", Retry: &task.RetryPlan{Attempt: 2, Due: noon.Add(4 * time.Second)},
		Usage: &task.Usage{UserTime: value.Duration(20 * time.Millisecond), MaxMemory: 5 << 20},
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
		ID: id2, State: task.Abnormal, Reason: value.Expired, Message: "start timeout:\x1b[31m no node\nserved queue \"gpu\"", SubmittedAt: noon.Add(-3 * time.Hour),
		Work: task.Work{Spec: &job.Spec{Run: &job.Run{Shell: "for i in 1 2 3; do echo $i; done | sort --reverse"}}, Route: "gpu.5"},
	}
	page := client.ListPage{
		Tasks: []task.Task{running, ended}, Next: "abc", Seq: 17,
		Counts: map[string]int{"running": 1, "abnormal": 1, "pending": 0, "sleeping": 2},
	}
	testkit.Table(t, "task_ls", TaskTable(&page, now), 0, false)
	testkit.Table(t, "task_ls_narrow_coloured", TaskTable(&page, now), 130, true)
	testkit.Table(t, "task_ls_none", TaskTable(&client.ListPage{Counts: map[string]int{}}, now), 0, false)
	testkit.Table(t, "task_ls_80", TaskTable(&page, now), 80, false)
	testkit.Table(t, "task_ls_steps", TaskTable(steps(now), now), 100, false)
	testkit.Table(t, "task_ls_steps_80", TaskTable(steps(now), now), 80, false)
	testkit.Table(t, "task_show", Details(&running, now), 0, false)
	testkit.Table(t, "task_events", History(records), 0, false)
}

// steps is a page of a whole that runs, with its steps in the order of their ids.
func steps(now time.Time) *client.ListPage {
	spec := &job.Spec{Steps: []job.Step{{Name: "extract"}, {Name: "transform"}, {Name: "load"}}}
	whole := task.Task{ID: id1, State: task.Running, SubmittedAt: now.Add(-time.Minute), StartedAt: now.Add(-time.Minute),
		Work: task.Work{Job: "etl", Spec: spec, Route: "default.5"}, Children: &task.Children{Names: []string{"extract", "transform", "load"}}}
	child := func(name string) task.Task {
		return task.Task{ID: birth.ChildID(id1, name), SubmittedAt: whole.SubmittedAt, Work: task.Work{Job: "etl", Step: name, Parent: id1, Route: "default.5", Spec: &job.Spec{}}}
	}
	extract, transform, load := child("extract"), child("transform"), child("load")
	extract.State, extract.Ran, extract.Node, extract.Attempt = task.Finished, value.Duration(1500*time.Millisecond), "node-a", 1
	transform.State, transform.StartedAt, transform.Node, transform.Attempt = task.Running, now.Add(-20*time.Second), "node-b", 2
	load.State, load.Reason, load.Route = task.Held, task.HoldNeeds, placement.NodeRoute("node-c", 5)
	half := 0.4
	return &client.ListPage{
		Tasks: []task.Task{load, whole, transform, extract}, Seq: 30,
		Live:   map[task.ID]*output.Live{transform.ID: {Progress: &half, Message: "page 40 of 100"}},
		Wholes: map[task.ID]*client.Whole{id1: {Ended: 1, Total: 3, Running: []string{"transform"}}},
	}
}

// presumed is a view of some facts, with nodes that no fact registered.
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

func (presumed) Beats(context.Context) (map[node.ID]node.Heartbeat, error)       { return nil, nil }
func (presumed) Ran(context.Context, string) (string, error)                     { return "", nil }
func (presumed) Paused(context.Context, placement.Lane) (*queue.Pause, error)    { return nil, nil }
func (presumed) Standing(context.Context, task.ID, int) (*quota.Standing, error) { return nil, nil }

func TestWhyTables(t *testing.T) {
	rules := duties.Settings{StartDeadline: 2 * time.Minute, AckWait: 6 * time.Second, Slack: 2 * time.Second}
	records := recorded()
	served := []node.Node{{ID: "node-a", State: node.Online, Profile: node.Profile{Queues: []string{"bulk"}}}}
	for name, c := range map[string]struct {
		until    int
		nodes    []node.Node
		enforced bool
		now      time.Time
	}{
		"why_pending":        {1, nil, false, noon.Add(time.Minute)},
		"why_pending_served": {1, served, true, noon.Add(time.Minute)},
		"why_pending_proved": {-3, served, true, noon.Add(time.Minute)},
		"why_retrying":       {3, nil, true, noon.Add(3500 * time.Millisecond)},
		"why_running":        {len(records), nil, true, noon.Add(50 * time.Second)},
		"why_overdue":        {len(records), []node.Node{{ID: "node-b", Session: "s7", State: node.Offline, Since: noon.Add(45 * time.Second)}}, true, noon.Add(5 * time.Minute)},
	} {
		log := records[:max(c.until, 1)]
		for i := range -c.until { // the consumer was replaced, and its node has proved itself anew each time
			log = append(slices.Clip(log), events.Record{
				Seq: uint64(20 + i), Stored: noon.Add(time.Duration(i) * time.Second), Kind: events.KindNode, Place: "mr.node.node-a",
				Fact: events.Fact{Node: "node-a", Type: "node.online", Event: node.WentOnline{Session: "s1", Connection: uint64(1 + i), Reason: "the consumer queue_bulk was another one and has been made again"}},
			})
		}
		v := presumed{view.Past(log, view.Moment{}), view.Page{Nodes: c.nodes, Beating: !c.enforced}}
		e, err := view.Why(t.Context(), v, id1, view.Rules{Task: rules, Now: c.now})
		if err != nil {
			t.Fatal(err)
		}
		e.Suspect, e.Nodes = nil, nil // other tables show them
		testkit.Table(t, name, whyTable(&Explanation{Explanation: *e}, c.now), 0, false)
	}
	whole := task.Task{ID: id1, State: task.Error, Reason: value.Task, Since: noon, Message: "transform failed (error/exit: sh exited with code 7: KeyError: 'x'); 3 of 3 have ended: 1 finished, 1 error, 1 skipped",
		Work: task.Work{Spec: &job.Spec{Steps: []job.Step{{Name: "extract"}, {Name: "transform"}, {Name: "load"}}}}, Children: &task.Children{Names: []string{"extract", "transform", "load"}}}
	children := []task.Task{
		{ID: birth.ChildID(id1, "load"), State: task.Cancelled, Reason: value.Skipped}, {ID: birth.ChildID(id1, "extract"), State: task.Finished},
		{ID: birth.ChildID(id1, "transform"), State: task.Error, Reason: value.Exit, Node: "node-b", Attempt: 2, Message: "sh exited with code 7: KeyError: 'x'"},
	}
	e := &Explanation{Explanation: view.Explanation{Task: whole.ID, State: whole.State, Reason: whole.Reason, Message: whole.Message, Since: whole.Since, Enforced: true}}
	e.Parts = view.PartsOf(&whole, children)
	testkit.Table(t, "why_whole", whyTable(e, noon), 80, false)
	children[2].State = task.Running
	e.Parts = view.PartsOf(&whole, children)
	testkit.Table(t, "why_whole_running", whyTable(e, noon), 80, false)
}

// noon is now in these tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// What a program says of itself is aligned with the other fields, without the blanks that lists
// put before a percentage.
func TestStandingIsAligned(t *testing.T) {
	half := 0.5
	var out term.Table
	out.Field("took", "2s")
	standingFields(&out, &output.Live{At: noon, Progress: &half}, nil, noon.Add(time.Second))
	var text strings.Builder
	if err := out.Write(&text, 0, false); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text.String(), "\nsays  50% (") {
		t.Errorf("the fields are:\n%s", text.String())
	}
}
