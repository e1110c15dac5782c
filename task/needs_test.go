package task_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

func TestJudge(t *testing.T) {
	good, bad, gone := task.End{State: task.Finished}, task.End{State: task.Error, Reason: value.Exit}, task.End{State: task.Cancelled, Reason: value.User}
	skipped, lost := task.End{State: task.Cancelled, Reason: value.Skipped}, task.End{State: task.Abnormal, Reason: value.Lost}
	runs, none := task.End{State: task.Running}, task.End{}
	for _, c := range []struct {
		rule, when string
		ends       []task.End
		want       task.Verdict
	}{
		{"", "", []task.End{good, good}, task.Met},
		{job.NeedAll, job.WhenSuccess, []task.End{good, runs}, task.NotYet},
		{job.NeedAll, job.WhenSuccess, []task.End{good, none}, task.NotYet},
		{job.NeedAll, job.WhenSuccess, []task.End{good}, task.NotYet}, // the other need is unknown
		{job.NeedAll, job.WhenSuccess, []task.End{bad, runs}, task.Never},
		{job.NeedAll, job.WhenSuccess, []task.End{good, skipped}, task.Never},
		{job.NeedAll, job.WhenFailure, []task.End{bad, lost}, task.Met},
		{job.NeedAll, job.WhenFailure, []task.End{bad, gone}, task.Never},
		{job.NeedAll, job.WhenCancel, []task.End{gone, gone}, task.Met},
		{job.NeedAll, job.WhenCancel, []task.End{gone, skipped}, task.Never},
		{job.NeedAll, job.WhenEnd, []task.End{good, skipped}, task.Met},
		{job.NeedAll, job.WhenTrouble, []task.End{gone, lost}, task.Met},
		{job.NeedAny, job.WhenFailure, []task.End{good, bad}, task.Met},
		{job.NeedAny, job.WhenFailure, []task.End{runs, bad}, task.NotYet},
		{job.NeedAny, job.WhenFailure, []task.End{good, skipped}, task.Never},
		{job.NeedNone, job.WhenTrouble, []task.End{good, skipped}, task.Met},
		{job.NeedNone, job.WhenTrouble, []task.End{good, gone}, task.Never},
		{job.NeedNone, job.WhenTrouble, []task.End{good, runs}, task.NotYet},
	} {
		n := &task.Needs{Rule: c.rule, Of: []task.Need{{Task: "a", When: c.when}, {Task: "b", When: c.when}}}
		got, why := n.Judge(c.ends)
		if got != c.want || why == "" {
			t.Errorf("%s of %s after %v: %d (%q), want %d", c.rule, c.when, c.ends, got, why, c.want)
		}
	}
}

// The command names the ends that decided it.
func TestNeedsFollow(t *testing.T) {
	n := &task.Needs{Of: []task.Need{{Task: "01JNA000000000000000000001", Name: "a"}, {Task: "01JNA000000000000000000002", Name: "b"}}}
	done := task.Input{State: task.Finished, Result: json.RawMessage(`7`), Seq: 12}
	for name, c := range map[string]struct {
		known []task.Input
		want  task.Command
	}{
		"one is open":             {[]task.Input{done, {State: task.Running, Seq: 9}}, nil},
		"nothing is known of one": {[]task.Input{done, {}}, nil},
		"all is well": {[]task.Input{done, {State: task.Finished, Seq: 15}}, task.Unhold{Hold: task.HoldNeeds, Reason: "all that it needs has ended", Ends: []uint64{12, 15},
			Inputs: json.RawMessage(`{"a":{"task":"01JNA000000000000000000001","state":"finished","result":7},"b":{"task":"01JNA000000000000000000002","state":"finished"}}`)}},
		"one failed": {[]task.Input{{}, {State: task.Error, Reason: value.Exit, Seq: 15}}, task.Skip{Reason: "b ended as error/exit, and its success is needed", Ends: []uint64{0, 15}}},
	} {
		got, err := n.Follow(c.known)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestNeedsValidate(t *testing.T) {
	const a, b = task.ID("01JNA0TASK0000000000000000"), task.ID("01JNA0TASK0000000000000001")
	for want, n := range map[string]task.Needs{
		"":              {Rule: job.NeedAny, Of: []task.Need{{Task: a, When: job.WhenEnd}, {Task: b}}},
		"no task":       {},
		"needs.rule":    {Rule: "some", Of: []task.Need{{Task: a}}},
		"no task id":    {Of: []task.Need{{Task: "x"}}},
		"when is":       {Of: []task.Need{{Task: a, When: "later"}}},
		"named twice":   {Of: []task.Need{{Task: a}, {Task: a, When: job.WhenEnd}}},
		"want at most ": {Of: make([]task.Need, job.MaxNeeds+1)},
	} {
		err := n.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// If the results are too large together, the largest are left out first.
func TestInputs(t *testing.T) {
	n := &task.Needs{Of: []task.Need{{Task: "a", Name: "big"}, {Task: "b", Name: "small"}, {Task: "c"}}}
	big := json.RawMessage(`"` + strings.Repeat("x", job.MaxInputs) + `"`)
	text, err := n.Inputs([]task.Input{{State: task.Finished, Result: big}, {State: task.Finished, Result: json.RawMessage(`7`)}, {State: task.Error, Reason: value.Exit}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"big":{"task":"a","state":"finished"},"c":{"task":"c","state":"error","reason":"exit"},"small":{"task":"b","state":"finished","result":7}}`
	if string(text) != want {
		t.Errorf("it is told\n%s, want\n%s", text, want)
	}
}

// A reopened task is held by its needs once more.
func TestReopenedIsHeldAgain(t *testing.T) {
	s := held(task.HoldNeeds)
	s.Needs = &task.Needs{Of: []task.Need{{Task: "a"}}}
	got := logtest.Given(s, task.CancelConfirmed{Code: value.Skipped, Reason: "a failed"}, task.Reopened{Reason: "a runs again"})
	if got.State != task.Held || len(got.Holds) != 1 {
		t.Errorf("it is %s, held by %v", got.State, got.Holds)
	}
	got = logtest.Given(s, task.CancelConfirmed{Code: value.Skipped, Reason: "a failed"}, task.Reopened{}, task.Unheld{Hold: task.HoldNeeds})
	if _, ok := task.NextOffer(&got); got.State != task.Pending || !ok {
		t.Errorf("it is %s, to be offered: %v", got.State, ok)
	}
}

// A list step that ended because what it needed left no list finds its values anew.
func TestReopenedListIsFoundAnew(t *testing.T) {
	s := held(task.HoldNeeds)
	s.Needs = &task.Needs{Of: []task.Need{{Task: "a", Name: "a"}}}
	s.Spec = &job.Spec{Handler: "h", Each: &job.Each{Result: "a"}}
	told := func(result string) task.Unheld {
		return task.Unheld{Hold: task.HoldNeeds, Inputs: json.RawMessage(`{"a":{"task":"a","state":"finished","result":` + result + `}}`)}
	}
	got := logtest.Given(s, told(`{}`), task.Expanded{}, task.GivenUp{Reason: value.User}, task.Reopened{}, told(`[1]`))
	if got.State != task.Running || got.Children != nil {
		t.Errorf("it is %s, and its children are %v", got.State, got.Children)
	}
}
