package task

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/queue"
	"millrace/task/where"
)

// What a task requires of nodes follows from its spec and from where it waits.
func TestAsks(t *testing.T) {
	gpu := where.Selector{{Key: "gpu", Op: where.OpExists}}
	spec := job.Spec{Handler: "x", Slots: 2, Place: job.Place{Labels: gpu, Avoid: []string{"n1"}, NoNode: job.NoNodeFallback}}
	e, err := Birth(Submission{Spec: &spec, Queue: "images"}, nil, 0, noon)
	if err != nil || !e.Route.Selected() {
		t.Fatalf("born on %s, %v", e.Route, err)
	}
	waits := given(e)
	name, needs := waits.Asks()
	if name != "images" || needs.String() != "gpu,node!=n1,slots>=2" {
		t.Errorf("it asks for %s in %s", needs, name)
	}
	if d := Owes(waits, Surroundings{Paused: &queue.Pause{}}, settings); d.Command != nil || !strings.Contains(d.What, "resume images") {
		t.Errorf("while its queue is paused its duty is %+v", d)
	}
	d := Owes(waits, Surroundings{}, settings)
	move, ok := d.Command.(Reassign)
	if !ok || !d.Overdue(noon.Add(time.Minute)) {
		t.Fatalf("without a node its duty is %+v", d)
	}
	moved := Evolve(waits, Recorded{Seq: 7, Chain: true, At: noon, Event: Reassigned{From: move.From, To: move.To, Reason: move.Reason}})
	if queue, needs := moved.Asks(); queue != "images" || needs.String() != "slots>=2" {
		t.Errorf("having fallen back it asks for %s in %s", needs, queue)
	}
	if d := Owes(moved, Surroundings{}, settings); d.Command != nil {
		if _, again := d.Command.(Reassign); again {
			t.Errorf("having fallen back it falls back again: %+v", d)
		}
	}
	plain := given(Submitted{Work: Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}})
	if queue, needs := plain.Asks(); queue != "default" || needs != nil {
		t.Errorf("a plain task asks for %s in %s", needs, queue)
	}
}

// Claims and takeovers of tasks for other nodes are refused.
func TestClaimFits(t *testing.T) {
	gpu := where.Selector{{Key: "gpu", Op: where.OpExists}}
	e, err := Birth(Submission{Spec: &job.Spec{Handler: "x", Place: job.Place{Labels: gpu}}}, nil, 0, noon)
	if err != nil {
		t.Fatal(err)
	}
	waits := given(e)
	for _, labels := range []map[string]string{nil, {"zone": "eu"}} {
		if _, err := Decide(waits, Claim{Node: "n", Offer: 1, Labels: labels}, noon); err == nil || !strings.Contains(err.Error(), ErrUnfit.Error()) {
			t.Errorf("%v: %v, want a refusal", labels, err)
		}
	}
	fits := Claim{Node: "n", Offer: 1, Labels: map[string]string{"gpu": ""}}
	started, err := Decide(waits, fits, noon)
	if err != nil || !reflect.DeepEqual(started, AttemptStarted{Attempt: 1, Node: "n", Offer: 1}) {
		t.Fatalf("%+v, %v", started, err)
	}
	runs := Evolve(waits, Recorded{Seq: 5, Chain: true, At: noon, Event: started})
	over := &Account{Epoch: 5, Now: noon}
	if _, err := Decide(runs, Claim{Node: "m", Offer: 1, Account: over}, noon); !errors.Is(err, ErrUnfit) {
		t.Errorf("taken over by a node that does not match: %v", err)
	}
	fits.Account = over
	if e, err := Decide(runs, fits, noon); err != nil || e.(AttemptStarted).TookOver == nil {
		t.Errorf("not taken over: %+v, %v", e, err)
	}
}
