package birth_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

const parentID task.ID = "01JNA0PARENT00000000000000"

// parent returns a submitted parent with this place.
func parent(t *testing.T, p job.Place) task.Task {
	t.Helper()
	e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "x", Place: p}, Queue: "images"}, nil, 0, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	return task.Evolve(task.Task{ID: parentID}, task.Recorded{Seq: 1, At: logtest.Noon, Event: e})
}

func add(t *testing.T, p task.Task, c task.Command) task.Task {
	t.Helper()
	e, err := task.Decide(p, c, logtest.Noon)
	if err != nil || e == nil {
		t.Fatalf("%+v: %+v, %v", c, e, err)
	}
	return task.Evolve(p, task.Recorded{Seq: p.Seq + 1, Chain: true, At: logtest.Noon.Add(time.Duration(p.Seq) * time.Second), Event: e})
}

func states(p *task.Task, all ...task.State) map[task.ID]task.End {
	m := map[task.ID]task.End{}
	for i, s := range all {
		if s != task.Unknown {
			m[birth.ChildID(p.ID, p.Children.Names[i])] = task.End{State: s}
		}
	}
	return m
}

func TestFollow(t *testing.T) {
	open := add(t, parent(t, job.Place{Nodes: []string{"a", "b"}, Each: true}), task.Expand{Children: task.Children{AtSeq: 1, Names: []string{"a", "b"}}})
	cancelling := add(t, open, task.Cancel{Reason: "no"})
	for _, c := range []struct {
		name     string
		given    task.Task
		children []task.State
		want     task.State // Unknown: nothing changes
		result   string
	}{
		{"nobody has seen them", open, []task.State{task.Unknown, task.Unknown}, task.Unknown, ""},
		{"one runs", open, []task.State{task.Finished, task.Running}, task.Unknown, ""},
		{"one is missing", open, []task.State{task.Finished, task.Unknown}, task.Unknown, ""},
		{"both finished", open, []task.State{task.Finished, task.Finished}, task.Finished, `{"finished":2}`},
		{"one failed", open, []task.State{task.Finished, task.Error}, task.Error, `{"error":1,"finished":1}`},
		{"one could not run", open, []task.State{task.Abnormal, task.Cancelled}, task.Error, `{"abnormal":1,"cancelled":1}`},
		{"one was cancelled", open, []task.State{task.Finished, task.Cancelled}, task.Cancelled, `{"cancelled":1,"finished":1}`},
		{"cancelling", cancelling, []task.State{task.Cancelled, task.Cancelling}, task.Unknown, ""},
		{"cancelled", cancelling, []task.State{task.Cancelled, task.Error}, task.Cancelled, `{"cancelled":1,"error":1}`},
		{"cancelled too late", cancelling, []task.State{task.Finished, task.Finished}, task.Finished, `{"finished":2}`},
	} {
		command, ok := birth.Follow(&c.given, states(&c.given, c.children...))
		if ok != (c.want != task.Unknown) {
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
		if _, again := birth.Follow(&end, states(&c.given, c.children...)); again {
			t.Errorf("%s: it ends twice", c.name)
		}
	}
	unborn := add(t, parent(t, job.Place{Mode: job.PlaceAll}), task.Cancel{})
	if c, ok := birth.Follow(&unborn, nil); !ok || add(t, unborn, c).State != task.Cancelled {
		t.Errorf("cancelled before it had children: %+v, %v", c, ok)
	}
}

// A failing parent names its failed children and their errors.
func TestFollowNamesFailures(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e"}
	p := add(t, parent(t, job.Place{Nodes: names, Each: true}), task.Expand{Children: task.Children{AtSeq: 1, Names: names}})
	exit := task.End{State: task.Error, Reason: value.Exit, Message: "sh exited with code 7: KeyError: 'x'"}
	long := task.End{State: task.Abnormal, Reason: value.Lost, Message: strings.Repeat("é", 200)}
	ok := task.End{State: task.Finished}
	for _, c := range []struct {
		ends []task.End
		want string
	}{
		{[]task.End{ok, ok, ok, ok, ok}, "5 of 5 have ended: 5 finished"},
		{[]task.End{ok, exit, ok, ok, ok}, "b failed (error/exit: sh exited with code 7: KeyError: 'x'); 5 of 5 have ended: 4 finished, 1 error"},
		{[]task.End{{State: task.Error}, long, ok, ok, ok}, "a failed (error), b failed (abnormal/lost: " + strings.Repeat("é", 120) + "…); 5 of 5 have ended: 3 finished, 1 error, 1 abnormal"},
		{[]task.End{{State: task.Error}, {State: task.Error}, {State: task.Error}, {State: task.Error}, {State: task.Error}}, "a failed (error), b failed (error), c failed (error), and so did 2 more; 5 of 5 have ended: 5 error"},
	} {
		ends := map[task.ID]task.End{}
		for i, e := range c.ends {
			ends[birth.ChildID(p.ID, names[i])] = e
		}
		command, _ := birth.Follow(&p, ends)
		if got := command.(task.Conclude).Message; got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// The step of any kind of child is its path below the outermost parent.
func TestStepPaths(t *testing.T) {
	on := add(t, parent(t, job.Place{Nodes: []string{"w1", "w2"}, Each: true}), task.Expand{Children: task.Children{AtSeq: 1, Names: []string{"w1", "w2"}}})
	if got := birth.Births(&on)("w2"); got.Step != "w2" || got.What() != "w2: x" {
		t.Errorf("the child on a node is %q, %q", got.Step, got.What())
	}
	p := graph(t, does("a"), job.Step{Name: "sum", Spec: job.Spec{Handler: "sum", Each: &job.Each{Values: []json.RawMessage{json.RawMessage("7")}}}})
	p.Job = "etl"
	sum := birth.Births(&p)("sum")
	if sum.Step != "sum" || sum.What() != "etl/sum" {
		t.Errorf("the step is %q, %q", sum.Step, sum.What())
	}
	list := task.Evolve(task.Task{ID: birth.ChildID(p.ID, "sum")}, task.Recorded{Seq: 9, At: logtest.Noon, Event: sum})
	list.Children = &task.Children{Names: []string{"0"}}
	if got := birth.Births(&list)("0"); got.Step != "sum/0" || got.What() != "etl/sum/0" {
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
		p := add(t, parent(t, c.place), task.Expand{Children: task.Children{AtSeq: 9, Names: c.names}})
		command, ok := birth.Follow(&p, nil)
		if ok != c.short || c.short && len(birth.Wanting(&p, nil)) > 0 {
			t.Errorf("%+v with %v: %+v, wanting %v", c.place, c.names, command, birth.Wanting(&p, nil))
		}
		if ok {
			end := add(t, p, command)
			if end.State != task.Abnormal || end.Reason != value.Unplaced {
				t.Errorf("%+v: it is %s/%s", c.place, end.State, end.Reason)
			}
			if again := add(t, end, task.Reopen{}); again.Children != nil || again.State != task.Running {
				t.Errorf("reopened it is %s with %+v", again.State, again.Children)
			}
		}
	}
}

func TestExpand(t *testing.T) {
	p := parent(t, job.Place{Mode: job.PlaceAll, Late: job.LateInclude})
	if p.State != task.Running || p.Offered {
		t.Fatalf("a parent is born %s", p.State)
	}
	if _, missing := task.NextOffer(&p); missing {
		t.Error("an offer is missing of a parent")
	}
	p = add(t, p, task.Expand{Children: task.Children{AtSeq: 5, Names: []string{"a", "b"}}})
	if e, err := task.Decide(p, task.Expand{Children: task.Children{AtSeq: 6, Names: []string{"b", "a"}}}, logtest.Noon); e != nil || err != nil {
		t.Errorf("nothing new: %+v, %v", e, err)
	}
	more := add(t, p, task.Expand{Children: task.Children{AtSeq: 7, Names: []string{"b", "c"}}})
	if got := more.Children; !reflect.DeepEqual(got.Names, []string{"a", "b", "c"}) || got.AtSeq != 5 {
		t.Errorf("it has %+v", got)
	}
	if len(p.Children.Names) != 2 {
		t.Error("a list that another one shares was changed")
	}
	closed := add(t, parent(t, job.Place{Mode: job.PlaceAll}), task.Expand{Children: task.Children{AtSeq: 5, Names: []string{"a"}}})
	if e, err := task.Decide(closed, task.Expand{Children: task.Children{Names: []string{"z"}}}, logtest.Noon); e != nil || err != nil {
		t.Errorf("one that ignores who comes late: %+v, %v", e, err)
	}
	plain := logtest.Given(task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5"}})
	if _, err := task.Decide(plain, task.Expand{}, logtest.Noon); !errors.Is(err, task.ErrNoParent) {
		t.Errorf("a plain task: %v", err)
	}
	if _, err := task.Decide(plain, task.Conclude{State: task.Finished}, logtest.Noon); !errors.Is(err, task.ErrNoParent) {
		t.Errorf("a plain task: %v", err)
	}
}

func TestChild(t *testing.T) {
	p := parent(t, job.Place{Count: 2, NoNode: job.NoNodeWait})
	p.Due = logtest.Noon.Add(time.Hour)
	p = add(t, p, task.Expand{Children: task.Children{AtSeq: 5, Names: []string{"a", "b"}, Spares: []string{"x", "y", "z"}}})
	first, second := birth.Births(&p)("a"), birth.Births(&p)("b")
	if want := []string{"a", "x", "y", "z"}; !reflect.DeepEqual(first.Spec.Place.Nodes, want) || first.Route != "@a.5" {
		t.Errorf("the first child goes to %s, then %v", first.Route, first.Spec.Place.Nodes)
	}
	if want := []string{"b", "y", "z", "x"}; !reflect.DeepEqual(second.Spec.Place.Nodes, want) || second.Spec.Place.NoNode != job.NoNodeWait {
		t.Errorf("the second child goes to %v", second.Spec.Place.Nodes)
	}
	if first.Spec.Parental() || first.Parent != p.ID || !first.Due.Equal(p.Due) || first.Spec.Place.Queue != "images" || first.Spec.Validate() != nil {
		t.Errorf("the child is %+v", first)
	}
	id := birth.ChildID(p.ID, "a")
	if parsed, err := task.ParseID(string(id)); err != nil || parsed != id || id == birth.ChildID(p.ID, "b") || id == birth.ChildID("01JNA0PARENT00000000000001", "a") || id[:10] != p.ID[:10] {
		t.Errorf("its id is %s, %v", id, err)
	}
}

func TestProgress(t *testing.T) {
	p := birth.Progress{States: map[task.State]int{task.Finished: 2, task.Error: 1, task.Running: 3, task.Unknown: 1}, Skipped: 1}
	if got, want := p.String(), "4 of 8 have ended: 2 finished, 1 error, 3 running, 1 not seen yet, 1 skipped"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if !json.Valid(p.Result()) {
		t.Errorf("%s", p.Result())
	}
}

// A parent fails if another task has the id of one of its children.
func TestStrangerInTheStepsOfAParent(t *testing.T) {
	parent := task.Evolve(task.Task{ID: "01JNA0000000000000000PARNT"}, task.Recorded{Seq: 1, Event: task.Submitted{Work: task.Work{
		Spec: &job.Spec{Steps: []job.Step{{Name: "a", Spec: job.Spec{Handler: "real"}}, {Name: "b", Spec: job.Spec{Handler: "real"}}}}, Route: "default.5",
	}}})
	parent.Apply(task.Recorded{Seq: 2, Chain: true, Event: task.Expanded{Children: task.Children{Names: []string{"a", "b"}}}})
	child := func(name string, change func(*task.Submitted)) task.Task {
		made := birth.Births(&parent)(name)
		change(&made)
		return task.Evolve(task.Task{ID: birth.ChildID(parent.ID, name)}, task.Recorded{Seq: 3, Event: made})
	}
	moved := func(e *task.Submitted) { e.Route, e.Inputs = "other.5", []byte(`{"x":{}}`) }
	forged := func(e *task.Submitted) { e.Spec = &job.Spec{Handler: "another"} }
	done := task.Conclude{State: task.Finished}
	if c, rule := birth.Concluding(&parent, done, []task.Task{child("a", moved), child("b", moved)}); rule != "" || c.State != task.Finished {
		t.Errorf("children that were moved: %+v", c)
	}
	if c, rule := birth.Concluding(&parent, done, []task.Task{child("a", moved), child("b", forged)}); rule != task.RuleStranger || c.State != task.Error || c.Reason != value.System {
		t.Errorf("a stranger among them: %+v", c)
	}
}
