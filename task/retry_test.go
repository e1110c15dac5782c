package task_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

func TestShuns(t *testing.T) {
	avoid := &job.Spec{Handler: "h", Retry: job.Retry{Max: 1, AvoidNode: true}}
	waits := task.Task{State: task.Pending, Avoids: []string{"n0", "n1"}, Since: logtest.Noon, Work: task.Work{Spec: avoid, Route: "default.5"}}
	with := func(change func(*task.Task)) task.Task { k := waits; change(&k); return k }
	for name, c := range map[string]struct {
		task task.Task
		node string
		want bool
	}{
		"the node of the failure":   {waits, "n1", true},
		"that of an earlier one":    {waits, "n0", true},
		"another":                   {waits, "n2", false},
		"no failure yet":            {with(func(k *task.Task) { k.Avoids = nil }), "", false},
		"not asked":                 {with(func(k *task.Task) { k.Spec = &job.Spec{Handler: "h"} }), "n1", false},
		"no spec":                   {with(func(k *task.Task) { k.Spec = nil }), "n1", false},
		"on the node's own route":   {with(func(k *task.Task) { k.Route = "@n1.5" }), "n1", false},
		"while it runs":             {with(func(k *task.Task) { k.State = task.Running }), "n1", false},
		"was left to others before": {with(func(k *task.Task) { k.Handed = &task.Handed{Home: "default.5"} }), "n1", false},
	} {
		if got := duties.Shuns(&c.task, c.node); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Policies with avoid_node avoid the nodes of all failed attempts of this life. A task that waits
// for labels or named nodes is left to the others of those.
func TestAvoidsAllThatFailed(t *testing.T) {
	peer := func(name string) duties.Peer {
		return duties.Peer{Node: name, Labels: map[string]string{placement.LabelNode: name}}
	}
	peers := []duties.Peer{peer("n1"), peer("n2"), peer("n3")}
	for name, c := range map[string]struct {
		place job.Place
		queue string
		needs string
	}{
		"plain":       {job.Place{}, "images", "node notin (n1,n2)"},
		"labels":      {job.Place{Labels: logtest.Selects("gpu")}, "images", "gpu,node notin (n1,n2)"},
		"named":       {job.Place{Nodes: []string{"n1", "n2", "n3"}}, "", "node in (n1,n2,n3),node notin (n1,n2)"},
		"preferences": {job.Place{Prefer: []job.Preference{{Labels: logtest.Selects("node=n3"), Weight: 1}}}, "images", "node notin (n1,n2),node=n3"},
		"sticky":      {job.Place{Sticky: job.StickyAttempt}, "images", "node notin (n1,n2)"},
	} {
		birth := logtest.Preferring(c.place)
		birth.Spec.Retry = job.Retry{Max: 5, AvoidNode: true, AvoidWait: value.Duration(5 * time.Minute)}
		k := logtest.Given(birth)
		seq := uint64(1)
		add := func(e task.Event, chain bool) {
			seq++
			k.Apply(task.Recorded{Seq: seq, Chain: chain, At: logtest.Noon, Event: e})
		}
		offer := func() { add(task.Queued{Work: k.Work, Attempt: k.Attempt + 1, After: k.Turn}, false) }
		for _, on := range []string{"n1", "n2", "n1"} {
			add(task.AttemptStarted{Attempt: k.Attempt + 1, Node: on, Offer: 1}, true)
			add(task.AttemptFailed{Epoch: k.Epoch, Class: value.Exit, Retry: &task.RetryPlan{Attempt: k.Attempt + 1, Due: logtest.Noon}}, true)
			offer()
		}
		says := duties.Owes(k, duties.Surroundings{Serving: 3}, logtest.Settings).What
		if !slices.Equal(k.Avoids, []string{"n1", "n2"}) || !k.Route.Selected() && !strings.Contains(says, "nodes n1, n2, where it failed") {
			t.Errorf("%s: it avoids %v: %s", name, k.Avoids, says)
		}
		hand, ok := duties.HandsOver(&k, peer("n1"), peers, "n1")
		if !ok {
			t.Errorf("%s: n1 takes it though it failed there", name)
			continue
		}
		e, err := task.Decide(k, hand, logtest.Noon)
		if err != nil {
			t.Fatal(err)
		}
		if moved := e.(task.Reassigned); !moved.Until.Equal(logtest.Noon.Add(5 * time.Minute)) {
			t.Errorf("%s: left to others until %v", name, moved.Until)
		}
		home := k.Route
		add(e, true)
		offer()
		if queue, needs := k.Asks(); queue != c.queue || needs.String() != c.needs || !k.Route.Selected() {
			t.Errorf("%s: it asks for queue %q and %q, want %q and %q", name, queue, needs, c.queue, c.needs)
		}
		back, ok := duties.Owes(k, duties.Surroundings{}, logtest.Settings).Command.(task.Reassign)
		if !ok || back.To != home {
			t.Errorf("%s: without any of those: %+v", name, back)
		}
		if _, ok := duties.HandsOver(&k, peer("n1"), peers, "n1"); ok {
			t.Errorf("%s: it is left to others twice", name)
		}
		add(task.AttemptStarted{Attempt: k.Attempt + 1, Node: "n3", Offer: seq}, true)
		add(task.AttemptFailed{Epoch: k.Epoch, Class: value.Exit, Retry: &task.RetryPlan{Attempt: k.Attempt + 1, Due: logtest.Noon}}, true)
		offer()
		if k.Route != home {
			t.Errorf("%s: the next turn begins on %s, want %s", name, k.Route, home)
		}
		if _, ok := duties.HandsOver(&k, peer("n1"), peers, "n1"); ok {
			t.Errorf("%s: all have failed, and still it is left to others", name)
		}
		add(task.GivenUp{Reason: value.Lost}, true)
		add(task.Reopened{}, true)
		if len(k.Avoids) > 0 {
			t.Errorf("%s: another life begins with %v", name, k.Avoids)
		}
	}
}
