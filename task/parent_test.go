package task

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/reason"
)

const parentID ID = "01JNA0PARENT00000000000000"

// parent returns a submitted parent with this place.
func parent(t *testing.T, p job.Place) Task {
	t.Helper()
	e, err := Birth(Submission{Spec: &job.Spec{Handler: "x", Place: p}, Queue: "images"}, nil, 0, noon)
	if err != nil {
		t.Fatal(err)
	}
	return Evolve(Task{ID: parentID}, Recorded{Seq: 1, At: noon, Event: e})
}

func add(t *testing.T, p Task, c Command) Task {
	t.Helper()
	e, err := Decide(p, c, noon)
	if err != nil || e == nil {
		t.Fatalf("%+v: %+v, %v", c, e, err)
	}
	return Evolve(p, Recorded{Seq: p.Seq + 1, Chain: true, At: noon.Add(time.Duration(p.Seq) * time.Second), Event: e})
}

func states(p *Task, all ...State) map[ID]End {
	m := map[ID]End{}
	for i, s := range all {
		if s != Unknown {
			m[ChildID(p.ID, p.Children.Names[i])] = End{State: s}
		}
	}
	return m
}

func TestFollow(t *testing.T) {
	open := add(t, parent(t, job.Place{Nodes: []string{"a", "b"}, Each: true}), Expand{Children{AtSeq: 1, Names: []string{"a", "b"}}})
	cancelling := add(t, open, Cancel{Reason: "no"})
	for _, c := range []struct {
		name     string
		given    Task
		children []State
		want     State // Unknown: nothing changes
		result   string
	}{
		{"nobody has seen them", open, []State{Unknown, Unknown}, Unknown, ""},
		{"one runs", open, []State{Finished, Running}, Unknown, ""},
		{"one is missing", open, []State{Finished, Unknown}, Unknown, ""},
		{"both finished", open, []State{Finished, Finished}, Finished, `{"finished":2}`},
		{"one failed", open, []State{Finished, Error}, Error, `{"error":1,"finished":1}`},
		{"one could not run", open, []State{Abnormal, Cancelled}, Error, `{"abnormal":1,"cancelled":1}`},
		{"one was cancelled", open, []State{Finished, Cancelled}, Cancelled, `{"cancelled":1,"finished":1}`},
		{"cancelling", cancelling, []State{Cancelled, Cancelling}, Unknown, ""},
		{"cancelled", cancelling, []State{Cancelled, Error}, Cancelled, `{"cancelled":1,"error":1}`},
		{"cancelled too late", cancelling, []State{Finished, Finished}, Finished, `{"finished":2}`},
	} {
		command, ok := Follow(&c.given, states(&c.given, c.children...))
		if ok != (c.want != Unknown) {
			t.Errorf("%s: %+v, %v", c.name, command, ok)
			continue
		}
		if !ok {
			continue
		}
		end := add(t, c.given, command)
		if end.State != c.want || string(end.Result) != c.result || end.EndedAt.IsZero() {
			t.Errorf("%s: it is %s with %s, want %s with %s", c.name, end.State, end.Result, c.want, c.result)
		}
		if _, again := Follow(&end, states(&c.given, c.children...)); again {
			t.Errorf("%s: it ends twice", c.name)
		}
	}
	unborn := add(t, parent(t, job.Place{Mode: job.PlaceAll}), Cancel{})
	if c, ok := Follow(&unborn, nil); !ok || add(t, unborn, c).State != Cancelled {
		t.Errorf("cancelled before it had children: %+v, %v", c, ok)
	}
}

// A failing parent names its failed children and their errors.
func TestFollowNamesFailures(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	p := add(t, parent(t, job.Place{Nodes: names, Each: true}), Expand{Children{AtSeq: 1, Names: names}})
	exit := End{State: Error, Reason: reason.Exit, Message: "sh exited with code 7: KeyError: 'x'"}
	long := End{State: Abnormal, Reason: reason.Lost, Message: strings.Repeat("é", 200)}
	ok := End{State: Finished}
	for _, c := range []struct {
		ends []End
		want string
	}{
		{[]End{ok, ok, ok, ok, ok}, "5 of 5 have ended: 5 finished"},
		{[]End{ok, exit, ok, ok, ok}, "b failed (error/exit: sh exited with code 7: KeyError: 'x'); 5 of 5 have ended: 4 finished, 1 error"},
		{[]End{{State: Error}, long, ok, ok, ok}, "a failed (error), b failed (abnormal/lost: " + strings.Repeat("é", 120) + "…); 5 of 5 have ended: 3 finished, 1 error, 1 abnormal"},
		{[]End{{State: Error}, {State: Error}, {State: Error}, {State: Error}, {State: Error}}, "a failed (error), b failed (error), c failed (error), and so did 2 more; 5 of 5 have ended: 5 error"},
	} {
		ends := map[ID]End{}
		for i, e := range c.ends {
			ends[ChildID(p.ID, names[i])] = e
		}
		command, _ := Follow(&p, ends)
		if got := command.(Conclude).Message; got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// The step of any kind of child is its path below the outermost parent.
func TestStepPaths(t *testing.T) {
	on := add(t, parent(t, job.Place{Nodes: []string{"w1", "w2"}, Each: true}), Expand{Children{AtSeq: 1, Names: []string{"w1", "w2"}}})
	if got := Child(&on, "w2"); got.Step != "w2" || got.What() != "w2: x" {
		t.Errorf("the child on a node is %q, %q", got.Step, got.What())
	}
	p := graph(t, does("a"), job.Step{Name: "sum", Spec: job.Spec{Handler: "sum", Each: &job.Each{Values: []json.RawMessage{json.RawMessage("7")}}}})
	p.Job = "etl"
	sum := Child(&p, "sum")
	if sum.Step != "sum" || sum.What() != "etl/sum" {
		t.Errorf("the step is %q, %q", sum.Step, sum.What())
	}
	list := Evolve(Task{ID: ChildID(p.ID, "sum")}, Recorded{Seq: 9, At: noon, Event: sum})
	list.Children = &Children{Names: []string{"0"}}
	if got := Child(&list, "0"); got.Step != "sum/0" || got.What() != "etl/sum/0" {
		t.Errorf("the value of its list is %q, %q", got.Step, got.What())
	}
}

func TestParentWithoutEnoughNodes(t *testing.T) {
	for _, c := range []struct {
		place job.Place
		names []string
		short bool
	}{
		{job.Place{Mode: job.PlaceAll}, nil, true},
		{job.Place{Mode: job.PlaceAll}, []string{"a"}, false},
		{job.Place{Count: 2}, []string{"a"}, true},
		{job.Place{Count: 2}, []string{"a", "b"}, false},
		{job.Place{Mode: job.PlaceAll, Late: job.LateInclude}, nil, false},
	} {
		p := add(t, parent(t, c.place), Expand{Children{AtSeq: 9, Names: c.names}})
		command, ok := Follow(&p, nil)
		if ok != c.short || c.short && len(p.Wanting(nil)) > 0 {
			t.Errorf("%+v with %v: %+v, wanting %v", c.place, c.names, command, p.Wanting(nil))
		}
		if ok {
			end := add(t, p, command)
			if end.State != Abnormal || end.Reason != reason.Unplaced {
				t.Errorf("%+v: it is %s/%s", c.place, end.State, end.Reason)
			}
			if again := add(t, end, Reopen{}); again.Children != nil || again.State != Running {
				t.Errorf("reopened it is %s with %+v", again.State, again.Children)
			}
		}
	}
}

func TestExpand(t *testing.T) {
	p := parent(t, job.Place{Mode: job.PlaceAll, Late: job.LateInclude})
	if p.State != Running || p.Offered {
		t.Fatalf("a parent is born %s", p.State)
	}
	if _, missing := NextOffer(&p); missing {
		t.Error("an offer is missing of a parent")
	}
	p = add(t, p, Expand{Children{AtSeq: 5, Names: []string{"a", "b"}}})
	if e, err := Decide(p, Expand{Children{AtSeq: 6, Names: []string{"b", "a"}}}, noon); e != nil || err != nil {
		t.Errorf("nothing new: %+v, %v", e, err)
	}
	more := add(t, p, Expand{Children{AtSeq: 7, Names: []string{"b", "c"}}})
	if got := more.Children; !reflect.DeepEqual(got.Names, []string{"a", "b", "c"}) || got.AtSeq != 5 {
		t.Errorf("it has %+v", got)
	}
	if len(p.Children.Names) != 2 {
		t.Error("a list that another one shares was changed")
	}
	closed := add(t, parent(t, job.Place{Mode: job.PlaceAll}), Expand{Children{AtSeq: 5, Names: []string{"a"}}})
	if e, err := Decide(closed, Expand{Children{Names: []string{"z"}}}, noon); e != nil || err != nil {
		t.Errorf("one that ignores who comes late: %+v, %v", e, err)
	}
	plain := given(Submitted{Work: Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}})
	if _, err := Decide(plain, Expand{}, noon); !errors.Is(err, ErrNoParent) {
		t.Errorf("a plain task: %v", err)
	}
	if _, err := Decide(plain, Conclude{State: Finished}, noon); !errors.Is(err, ErrNoParent) {
		t.Errorf("a plain task: %v", err)
	}
}

func TestChild(t *testing.T) {
	p := parent(t, job.Place{Count: 2, NoNode: job.NoNodeWait})
	p.Due = noon.Add(time.Hour)
	p = add(t, p, Expand{Children{AtSeq: 5, Names: []string{"a", "b"}, Spares: []string{"x", "y", "z"}}})
	first, second := Child(&p, "a"), Child(&p, "b")
	if want := []string{"a", "x", "y", "z"}; !reflect.DeepEqual(first.Spec.Place.Nodes, want) || first.Route != "@a.5" {
		t.Errorf("the first child goes to %s, then %v", first.Route, first.Spec.Place.Nodes)
	}
	if want := []string{"b", "y", "z", "x"}; !reflect.DeepEqual(second.Spec.Place.Nodes, want) || second.Spec.Place.NoNode != job.NoNodeWait {
		t.Errorf("the second child goes to %v", second.Spec.Place.Nodes)
	}
	if first.Spec.Parental() || first.Parent != p.ID || !first.Due.Equal(p.Due) || first.Spec.Place.Queue != "images" || first.Spec.Validate() != nil {
		t.Errorf("the child is %+v", first)
	}
	id := ChildID(p.ID, "a")
	if parsed, err := ParseID(string(id)); err != nil || parsed != id || id == ChildID(p.ID, "b") || id == ChildID("01JNA0PARENT00000000000001", "a") || id[:10] != p.ID[:10] {
		t.Errorf("its id is %s, %v", id, err)
	}
}

func TestProgress(t *testing.T) {
	p := Progress{States: map[State]int{Finished: 2, Error: 1, Running: 3, Unknown: 1}, Skipped: 1}
	if got, want := p.String(), "4 of 8 have ended: 2 finished, 1 error, 3 running, 1 not seen yet, 1 skipped"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !json.Valid(p.Result()) {
		t.Errorf("%s", p.Result())
	}
}

func TestExpects(t *testing.T) {
	again := Task{Turn: 10}
	for name, row := range map[string]struct {
		parent Task
		child  Task
		want   bool
	}{
		"a failure of the life before":            {again, Task{State: Error, Seq: 9}, true},
		"a cancel of it":                          {again, Task{State: Cancelled, Reason: reason.User, Seq: 9}, true},
		"a failure since":                         {again, Task{State: Error, Seq: 11}, false},
		"one that lives":                          {again, Task{State: Pending, Seq: 11}, false},
		"one that has finished":                   {again, Task{State: Finished, Seq: 9}, false},
		"one that was skipped, and may be so now": {again, Task{State: Cancelled, Reason: reason.Skipped, Seq: 9}, false},
		"the first life":                          {Task{}, Task{State: Error, Seq: 9}, false},
	} {
		if got := row.parent.Expects([]Task{{State: Finished, Seq: 3}, row.child}); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

// A parent fails if another task has the id of one of its children.
func TestStrangerInTheStepsOfAParent(t *testing.T) {
	parent := Evolve(Task{ID: "01JNA0000000000000000PARNT"}, Recorded{Seq: 1, Event: Submitted{Work: Work{
		Spec: &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "real"}}, {Name: "b", Spec: job.Spec{Handler: "real"}}}}, Route: "default.5",
	}}})
	parent.Apply(Recorded{Seq: 2, Chain: true, Event: Expanded{Children: Children{Names: []string{"a", "b"}}}})
	child := func(name string, change func(*Submitted)) Task {
		birth := Child(&parent, name)
		change(&birth)
		return Evolve(Task{ID: ChildID(parent.ID, name)}, Recorded{Seq: 3, Event: birth})
	}
	moved := func(e *Submitted) { e.Route, e.Inputs = "other.5", []byte(`{"x":{}}`) }
	forged := func(e *Submitted) { e.Spec = &job.Spec{Handler: "another"} }
	done := Conclude{State: Finished}
	if c, rule := parent.Concluding(done, []Task{child("a", moved), child("b", moved)}); rule != "" || c.State != Finished {
		t.Errorf("children that were moved: %+v", c)
	}
	if c, rule := parent.Concluding(done, []Task{child("a", moved), child("b", forged)}); rule != RuleStranger || c.State != Error || c.Reason != reason.System {
		t.Errorf("a stranger among them: %+v", c)
	}
}
