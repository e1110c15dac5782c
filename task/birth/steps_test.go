package birth_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/birth"
	family "millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// does returns a step that needs others to succeed.
func does(name string, needs ...job.StepNeed) job.Step {
	return job.Step{Name: name, Needs: needs, Spec: job.Spec{Handler: "x"}}
}

func need(step, when string) job.StepNeed { return job.StepNeed{Step: step, When: when} }

// graph returns a task with these steps and all handlers, expanded.
func graph(t *testing.T, steps ...job.Step) task.Task {
	t.Helper()
	h := job.Step{Spec: job.Spec{Handler: "h"}}
	return expandedTask(t, job.Spec{Steps: steps, On: &job.Handlers{Success: &h, Failure: &h, Cancel: &h, Exit: &h}}, nil)
}

func expandedTask(t *testing.T, s job.Spec, params map[string]json.RawMessage) task.Task {
	t.Helper()
	e, err := birth.Of(birth.Submission{Spec: &s, Params: params, Queue: "images", Labels: map[string]string{"a": "b"}}, nil, 0, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	p := task.Evolve(task.Task{ID: parentID}, task.Recorded{Seq: 1, At: logtest.Noon, Event: e})
	own, ok := family.OwnChildren(&p)
	if !ok || p.State != task.Running {
		t.Fatalf("it is %s, with children of its own: %v", p.State, ok)
	}
	return add(t, p, task.Expand{Children: own})
}

func endsBy(p *task.Task, all map[string]task.End) map[task.ID]task.End {
	ends := map[task.ID]task.End{}
	for name, e := range all {
		ends[family.ChildID(p.ID, name)] = e
	}
	return ends
}

func TestStepBirths(t *testing.T) {
	p := graph(t, does("a"), job.Step{Name: "b", Needs: []job.StepNeed{need("a", job.WhenEnd)}, Queue: "slow",
		Params: map[string]json.RawMessage{"x": json.RawMessage("1")}, Spec: job.Spec{Handler: "x", Signal: &job.Signal{}}})
	if want := []string{"a", "b", job.OnSuccess, job.OnFailure, job.OnCancel, job.OnExit}; !reflect.DeepEqual(p.Children.Names, want) {
		t.Fatalf("its children are %v", p.Children.Names)
	}
	a, b, exit := family.Births(&p)("a"), family.Births(&p)("b"), family.Births(&p)(job.OnExit)
	if !a.Offers() || a.Parent != p.ID || a.Route != "images.5" || a.Labels["a"] != "b" {
		t.Errorf("the first step is %+v", a)
	}
	if b.Route != "slow.5" || !slices.Equal(b.Holds, []string{task.HoldNeeds, task.HoldSignal}) || string(b.Params) != `{"x":1}` ||
		!reflect.DeepEqual(b.Needs.Of, []task.Need{{Task: family.ChildID(p.ID, "a"), Name: "a", When: job.WhenEnd}}) {
		t.Errorf("the second step is %+v", b)
	}
	if len(exit.Needs.Of) != 2 || exit.Needs.Of[1].When != job.WhenEnd || exit.Needs.Validate() != nil {
		t.Errorf("the handler needs %s", exit.Needs)
	}
	if got := family.Stops(&p); !slices.Equal(got, []string{job.OnSuccess, job.OnFailure, "b", "a"}) {
		t.Errorf("a cancel stops %v", got)
	}
}

func TestHandlersNeeds(t *testing.T) {
	ok, bad := task.End{State: task.Finished}, task.End{State: task.Error, Reason: value.Exit}
	user, skip := task.End{State: task.Cancelled, Reason: value.User}, task.End{State: task.Cancelled, Reason: value.Skipped}
	p := graph(t, does("a"), does("b"))
	for _, c := range []struct {
		a, b                           task.End
		success, failure, cancel, exit task.Verdict
	}{
		{ok, ok, task.Met, task.Never, task.Never, task.Met},
		{ok, skip, task.Met, task.Never, task.Never, task.Met},
		{ok, task.End{State: task.Running}, task.NotYet, task.NotYet, task.NotYet, task.NotYet},
		{bad, skip, task.Never, task.Met, task.Never, task.Met},
		{ok, user, task.Never, task.Never, task.Met, task.Met},
		{bad, user, task.Never, task.Met, task.Met, task.Met},
	} {
		ends := endsBy(&p, map[string]task.End{"a": c.a, "b": c.b})
		for name, want := range map[string]task.Verdict{job.OnSuccess: c.success, job.OnFailure: c.failure, job.OnCancel: c.cancel, job.OnExit: c.exit} {
			needs := family.Births(&p)(name).Needs
			var of []task.End
			for _, need := range needs.Of {
				of = append(of, ends[need.Task])
			}
			if got, why := needs.Judge(of); got != want {
				t.Errorf("with %s and %s: %s is %d, want %d: %s", c.a, c.b, name, got, want, why)
			}
		}
	}
}

func TestAwaken(t *testing.T) {
	ok, bad, skip, runs := task.End{State: task.Finished, Reason: ""}, task.End{State: task.Error, Reason: value.Exit}, task.End{State: task.Cancelled, Reason: value.Skipped}, task.End{State: task.Pending}
	// The file lists the chain in reverse.
	p := graph(t, does("c", need("b", "")), does("b", need("a", "")), does("a"), does("mend", need("a", job.WhenFailure)))
	for _, c := range []struct {
		name string
		ends map[string]task.End
		want []string
	}{
		{"nothing has changed", map[string]task.End{"a": bad, "b": skip, "c": skip, "mend": ok, job.OnSuccess: skip, job.OnFailure: ok, job.OnCancel: skip, job.OnExit: ok}, nil},
		{"the failed one has another life", map[string]task.End{"a": runs, "b": skip, "c": skip, "mend": ok, job.OnSuccess: skip, job.OnFailure: ok, job.OnCancel: skip, job.OnExit: ok},
			[]string{"b", job.OnSuccess, job.OnCancel, "c"}},
		{"it has succeeded", map[string]task.End{"a": ok, "b": skip, "c": skip, "mend": skip}, []string{"b", "c"}},
		{"one is unknown", map[string]task.End{"b": skip}, []string{"b"}},
	} {
		if got := family.Awaken(&p, endsBy(&p, c.ends)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v may run after all, want %v", c.name, got, c.want)
		}
	}
}

func TestFollowSteps(t *testing.T) {
	ok, bad, user, skip := task.End{State: task.Finished, Reason: ""}, task.End{State: task.Error, Reason: value.Exit}, task.End{State: task.Cancelled, Reason: value.User}, task.End{State: task.Cancelled, Reason: value.Skipped}
	open := expandedTask(t, job.Spec{Steps: []job.Step{does("a"), does("b", need("a", job.WhenFailure))}}, nil)
	cancelling := add(t, open, task.Cancel{})
	for _, c := range []struct {
		given task.Task
		a, b  task.End
		want  task.State
	}{
		{open, ok, skip, task.Finished},
		{open, bad, ok, task.Error},
		{open, user, skip, task.Cancelled},
		{open, ok, task.End{State: task.Held}, task.Unknown},
		{cancelling, ok, skip, task.Finished},
		{cancelling, user, skip, task.Cancelled},
	} {
		ends := endsBy(&open, map[string]task.End{"a": c.a, "b": c.b})
		command, ended := family.Follow(&c.given, ends)
		if !ended {
			if c.want != task.Unknown {
				t.Errorf("with %s and %s it goes on", c.a, c.b)
			}
			continue
		}
		end := add(t, c.given, command)
		if end.State != c.want {
			t.Errorf("with %s and %s it is %s, want %s", c.a, c.b, end.State, c.want)
		}
		if _, again := family.Revive(&end, ends); again {
			t.Errorf("with %s and %s it has another life at once", c.a, c.b)
		}
		ends[family.ChildID(open.ID, "a")] = task.End{State: task.Running}
		if again, ok := family.Revive(&end, ends); !ok || add(t, end, again).State != task.Running {
			t.Errorf("that a child has another life gives it none")
		}
	}
	failed := add(t, open, task.Conclude{State: task.Error})
	if _, again := family.Revive(&failed, endsBy(&open, map[string]task.End{"a": ok, "b": skip})); !again {
		t.Error("it stays in error although all is well by now")
	}
	strange := add(t, open, family.Estranged(&open, task.Conclude{}, "a", "spec"))
	if _, again := family.Revive(&strange, endsBy(&open, map[string]task.End{"a": ok, "b": skip})); again {
		t.Error("it has another life, which ends at once: a task that it has not made has the id of its child")
	}
}

func TestEach(t *testing.T) {
	step := does("get")
	step.Each = &job.Each{Param: "urls"}
	list := job.Spec{Handler: "x", Each: &job.Each{Param: "urls"}}
	params := map[string]json.RawMessage{"urls": json.RawMessage(`["a",{"b":"<&>"}]`), "n": json.RawMessage("1")}
	p := expandedTask(t, list, params)
	a, b := family.Births(&p)("0"), family.Births(&p)("1")
	if text, _ := a.Item(); text != "a" || string(a.Params) != `{"item":"a","n":1}` || a.Spec.Each != nil || !a.Offers() {
		t.Errorf("the first child is given %s", a.Params)
	}
	if text, _ := b.Item(); text != `{"b":"<&>"}` || !strings.Contains(string(b.Params), text) || a.Spec == p.Spec {
		t.Errorf("the second child is given %s", b.Params)
	}
	b.Params = json.RawMessage(`{"item":{"b":"\u003c\u0026\u003e"}}`) // as an earlier version wrote it
	if text, _ := b.Item(); text != `{"b":"<&>"}` {
		t.Errorf("the item of an earlier version is %s", text)
	}
	empty := expandedTask(t, list, map[string]json.RawMessage{"urls": json.RawMessage("[]")})
	if c, ok := family.Follow(&empty, nil); !ok || add(t, empty, c).State != task.Finished {
		t.Errorf("an empty list: %+v, %v", c, ok)
	}
	for _, s := range []job.Spec{list, {Steps: []job.Step{step}}} {
		for _, urls := range []string{"7", "null", `"a"`, ""} {
			given := map[string]json.RawMessage{}
			if urls != "" {
				given["urls"] = json.RawMessage(urls)
			}
			if _, err := birth.Of(birth.Submission{Spec: &s, Params: given}, nil, 0, logtest.Noon); err == nil || !strings.Contains(err.Error(), `each.param: parameter "urls" is`) {
				t.Errorf("the list %s: %v", urls, err)
			}
		}
	}
	// The results of a step are known only later.
	from := does("get", need("list", ""))
	from.Each = &job.Each{Result: "list"}
	g := graph(t, does("list"), from)
	birth := family.Births(&g)("get")
	born := task.Evolve(task.Task{ID: family.ChildID(g.ID, "get")}, task.Recorded{Seq: 1, At: logtest.Noon, Event: birth})
	for inputs, want := range map[string]task.State{
		`{"list":{"task":"x","state":"finished","result":["p","q"]}}`: task.Running,
		`{"list":{"task":"x","state":"finished","result":7}}`:         task.Abnormal,
		`{}`: task.Abnormal,
	} {
		now := add(t, born, task.Unhold{Hold: task.HoldNeeds, Inputs: json.RawMessage(inputs)})
		own, _ := family.OwnChildren(&now)
		now = add(t, now, task.Expand{Children: own})
		if c, ok := family.Follow(&now, nil); ok {
			now = add(t, now, c)
		}
		if now.State != want || want == task.Running && (len(own.Names) != 2 || strings.Contains(string(family.Births(&now)("1").Inputs), `"q"`)) {
			t.Errorf("with %s it is %s: %s", inputs, now.State, now.Message)
		}
	}
}

func TestGather(t *testing.T) {
	p := expandedTask(t, job.Spec{Handler: "x", Each: &job.Each{Values: []json.RawMessage{json.RawMessage("1"), json.RawMessage("2"), json.RawMessage("3")}}}, nil)
	child := func(name, result string) task.Task {
		return task.Task{ID: family.ChildID(p.ID, name), State: task.Finished, Result: json.RawMessage(result)}
	}
	if got := string(family.Gather(&p, []task.Task{child("2", `"c"`), child("0", `1`), {ID: family.ChildID(p.ID, "1"), State: task.Error, Result: json.RawMessage("5")}})); got != `[1,null,"c"]` {
		t.Errorf("its result is %s", got)
	}
	big := `"` + strings.Repeat("x", job.MaxInputs) + `"`
	if got := string(family.Gather(&p, []task.Task{child("0", big), child("1", "2")})); got != "[null,2,null]" {
		t.Errorf("what is too large leaves %d bytes", len(got))
	}
	s := expandedTask(t, job.Spec{Steps: []job.Step{does("a"), does("b")}}, nil)
	if got := string(family.Gather(&s, []task.Task{child("b", "9"), child("a", "")})); got != `{"b":9}` {
		t.Errorf("the result of steps is %s", got)
	}
}

func TestStepsRefused(t *testing.T) {
	nested := does("a")
	nested.Steps = []job.Step{does("b")}
	unique := does("a")
	unique.Unique.Key = "k"
	each := does("a")
	each.Each = &job.Each{Result: "b"}
	for want, s := range map[string]job.Spec{
		"steps[1].name: \"a\" is the name of steps[0] as well": {Steps: []job.Step{does("a"), does("a")}},
		"steps[0].name: step":                                              {Steps: []job.Step{does("a b")}},
		"names that begin with on-":                                        {Steps: []job.Step{does(job.OnExit)}},
		"steps[0].needs: there is no step \"b\"":                           {Steps: []job.Step{does("a", need("b", ""))}},
		"steps[0].needs: step \"b\" is named twice":                        {Steps: []job.Step{does("a", need("b", ""), need("b", job.WhenEnd)), does("b")}},
		"steps[0].needs: the steps wait for each other: a needs a":         {Steps: []job.Step{does("a", need("a", ""))}},
		"steps[1].needs: the steps wait for each other: b needs c needs b": {Steps: []job.Step{does("a"), does("b", need("c", "")), does("c", need("b", ""))}},
		"steps[0].steps: steps cannot have steps":                          {Steps: []job.Step{nested}},
		"steps[0].unique is for a whole job":                               {Steps: []job.Step{unique}},
		"steps[0].each.result: \"b\" is not among the needs":               {Steps: []job.Step{each, does("b")}},
		"steps[0].nothing to run":                                          {Steps: []job.Step{{Name: "a"}}},
		"steps and run or handler are both set":                            {Handler: "x", Steps: []job.Step{does("a")}},
		"timeout is for what runs":                                         {Timeout: job.Timeout{Run: 1}, Steps: []job.Step{does("a")}},
		"on: nothing runs":                                                 {On: &job.Handlers{Exit: new(does("x"))}, Each: &job.Each{Param: "a"}},
		"on: nothing is set":                                               {Steps: []job.Step{does("a")}, On: &job.Handlers{}},
		"on.exit: a handler has no name":                                   {Steps: []job.Step{does("a")}, On: &job.Handlers{Exit: &job.Step{Name: "x"}}},
		"each: choose one":                                                 {Handler: "x", Each: &job.Each{Param: "a", Result: "b"}},
		"each: want a list":                                                {Handler: "x", Each: &job.Each{}},
		"at most 256 beside on":                                            {Steps: make([]job.Step, job.MaxNeeds+1), On: &job.Handlers{Exit: &job.Step{}}},
		"steps: 4097 steps, want at most 4096":                             {Steps: make([]job.Step, job.MaxChildren+1)},
	} {
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A reopened task asks for a missing approval again, but not for one that was given.
func TestSignalInAnotherLife(t *testing.T) {
	e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "x", Signal: &job.Signal{}}}, nil, 0, logtest.Noon)
	if err != nil {
		t.Fatal(err)
	}
	born := task.Evolve(task.Task{ID: parentID}, task.Recorded{Seq: 1, At: logtest.Noon, Event: e})
	never := add(t, add(t, born, task.Cancel{}), task.Reopen{})
	if never.State != task.Held || !slices.Equal(never.Holds, []string{task.HoldSignal}) {
		t.Errorf("without its signal it is %s, held by %v", never.State, never.Holds)
	}
	given := add(t, add(t, add(t, born, task.Unhold{Hold: task.HoldSignal}), task.Cancel{}), task.Reopen{})
	if given.State != task.Pending || len(given.Holds) > 0 {
		t.Errorf("with it it is %s, held by %v", given.State, given.Holds)
	}
}
