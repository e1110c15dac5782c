package task_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/queue"
)

// What a task requires of nodes follows from its spec and from where it waits.
func TestAsks(t *testing.T) {
	gpu := placement.Selector{{Key: "gpu", Op: placement.OpExists}}
	spec := job.Spec{Handler: "x", Slots: 2, Place: job.Place{Labels: gpu, Avoid: []string{"n1"}, NoNode: job.NoNodeFallback}}
	e, err := birth.Of(birth.Submission{Spec: &spec, Queue: "images"}, nil, 0, logtest.Noon)
	if err != nil || !e.Route.Selected() {
		t.Fatalf("born on %s, %v", e.Route, err)
	}
	waits := logtest.Given(e)
	name, needs := waits.Asks()
	if name != "images" || needs.String() != "gpu,node!=n1,slots>=2" {
		t.Errorf("it asks for %s in %s", needs, name)
	}
	if d := duties.Owes(waits, duties.Surroundings{Paused: &queue.Pause{}}, logtest.Settings); d.Command != nil || !strings.Contains(d.What, "resume images") {
		t.Errorf("while its queue is paused its duty is %+v", d)
	}
	d := duties.Owes(waits, duties.Surroundings{}, logtest.Settings)
	move, ok := d.Command.(task.Reassign)
	if !ok || !d.Overdue(logtest.Noon.Add(time.Minute)) {
		t.Fatalf("without a node its duty is %+v", d)
	}
	moved := task.Evolve(waits, task.Recorded{Seq: 7, Chain: true, At: logtest.Noon, Event: task.Reassigned{From: move.From, To: move.To, Reason: move.Reason}})
	if queue, needs := moved.Asks(); queue != "images" || needs.String() != "slots>=2" {
		t.Errorf("having fallen back it asks for %s in %s", needs, queue)
	}
	if d := duties.Owes(moved, duties.Surroundings{}, logtest.Settings); d.Command != nil {
		if _, again := d.Command.(task.Reassign); again {
			t.Errorf("having fallen back it falls back again: %+v", d)
		}
	}
	plain := logtest.Given(task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}})
	if queue, needs := plain.Asks(); queue != "default" || needs != nil {
		t.Errorf("a plain task asks for %s in %s", needs, queue)
	}
}

// Claims and takeovers of tasks for other nodes are refused.
func TestClaimFits(t *testing.T) {
	gpu := placement.Selector{{Key: "gpu", Op: placement.OpExists}}
	e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "x", Place: job.Place{Labels: gpu}}}, nil, 0, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	waits := logtest.Given(e)
	for _, labels := range []map[string]string{nil, {"zone": "eu"}} {
		if _, err := task.Decide(waits, task.Claim{Node: "n", Offer: 1, Labels: labels}, logtest.Noon); err == nil || !strings.Contains(err.Error(), task.ErrUnfit.Error()) {
			t.Errorf("%v: %v, want a refusal", labels, err)
		}
	}
	fits := task.Claim{Node: "n", Offer: 1, Labels: map[string]string{"gpu": ""}}
	started, err := task.Decide(waits, fits, logtest.Noon)
	if err != nil || !reflect.DeepEqual(started, task.AttemptStarted{Attempt: 1, Node: "n", Offer: 1}) {
		t.Fatalf("%+v, %v", started, err)
	}
	runs := task.Evolve(waits, task.Recorded{Seq: 5, Chain: true, At: logtest.Noon, Event: started})
	over := &task.Account{Epoch: 5, Now: logtest.Noon}
	if _, err := task.Decide(runs, task.Claim{Node: "m", Offer: 1, Account: over}, logtest.Noon); !errors.Is(err, task.ErrUnfit) {
		t.Errorf("taken over by a node that does not match: %v", err)
	}
	fits.Account = over
	if e, err := task.Decide(runs, fits, logtest.Noon); err != nil || e.(task.AttemptStarted).TookOver == nil {
		t.Errorf("not taken over: %+v, %v", e, err)
	}
}
