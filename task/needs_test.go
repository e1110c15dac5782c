package task

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"millrace/task/job"
	"millrace/task/reason"
)

func TestJudge(t *testing.T) {
	good, bad, gone := End{State: Finished}, End{State: Error, Reason: reason.Exit}, End{State: Cancelled, Reason: reason.User}
	skipped, lost := End{State: Cancelled, Reason: reason.Skipped}, End{State: Abnormal, Reason: reason.Lost}
	runs, none := End{State: Running}, End{}
	for _, c := range []struct {
		rule, when string
		ends       []End
		want       Verdict
	}{
		{"", "", []End{good, good}, Met},
		{job.NeedAll, job.WhenSuccess, []End{good, runs}, NotYet},
		{job.NeedAll, job.WhenSuccess, []End{good, none}, NotYet},
		{job.NeedAll, job.WhenSuccess, []End{good}, NotYet}, // the other need is unknown
		{job.NeedAll, job.WhenSuccess, []End{bad, runs}, Never},
		{job.NeedAll, job.WhenSuccess, []End{good, skipped}, Never},
		{job.NeedAll, job.WhenFailure, []End{bad, lost}, Met},
		{job.NeedAll, job.WhenFailure, []End{bad, gone}, Never},
		{job.NeedAll, job.WhenCancel, []End{gone, gone}, Met},
		{job.NeedAll, job.WhenCancel, []End{gone, skipped}, Never},
		{job.NeedAll, job.WhenEnd, []End{good, skipped}, Met},
		{job.NeedAll, job.WhenTrouble, []End{gone, lost}, Met},
		{job.NeedAny, job.WhenFailure, []End{good, bad}, Met},
		{job.NeedAny, job.WhenFailure, []End{runs, bad}, NotYet},
		{job.NeedAny, job.WhenFailure, []End{good, skipped}, Never},
		{job.NeedNone, job.WhenTrouble, []End{good, skipped}, Met},
		{job.NeedNone, job.WhenTrouble, []End{good, gone}, Never},
		{job.NeedNone, job.WhenTrouble, []End{good, runs}, NotYet},
	} {
		n := &Needs{Rule: c.rule, Of: []Need{{Task: "a", When: c.when}, {Task: "b", When: c.when}}}
		got, why := n.Judge(c.ends)
		if got != c.want || why == "" {
			t.Errorf("%s of %s after %v: %d (%q), want %d", c.rule, c.when, c.ends, got, why, c.want)
		}
	}
}

// The command names the ends that decided it.
func TestNeedsFollow(t *testing.T) {
	n := &Needs{Of: []Need{{Task: "01JNA000000000000000000001", Name: "a"}, {Task: "01JNA000000000000000000002", Name: "b"}}}
	done := Input{State: Finished, Result: json.RawMessage(`7`), Seq: 12}
	for name, c := range map[string]struct {
		known []Input
		want  Command
	}{
		"one is open":             {[]Input{done, {State: Running, Seq: 9}}, nil},
		"nothing is known of one": {[]Input{done, {}}, nil},
		"all is well": {[]Input{done, {State: Finished, Seq: 15}}, Unhold{Hold: HoldNeeds, Reason: "all that it needs has ended", Ends: []uint64{12, 15},
			Inputs: json.RawMessage(`{"a":{"task":"01JNA000000000000000000001","state":"finished","result":7},"b":{"task":"01JNA000000000000000000002","state":"finished"}}`)}},
		"one failed": {[]Input{{}, {State: Error, Reason: reason.Exit, Seq: 15}}, Skip{Reason: "b ended as error/exit, and its success is needed", Ends: []uint64{0, 15}}},
	} {
		got, err := n.Follow(c.known)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}

func TestNeedsValidate(t *testing.T) {
	const a, b = ID("01JNA0TASK0000000000000000"), ID("01JNA0TASK0000000000000001")
	for want, n := range map[string]Needs{
		"":              {Rule: job.NeedAny, Of: []Need{{Task: a, When: job.WhenEnd}, {Task: b}}},
		"no task":       {},
		"needs.rule":    {Rule: "some", Of: []Need{{Task: a}}},
		"no task id":    {Of: []Need{{Task: "x"}}},
		"when is":       {Of: []Need{{Task: a, When: "later"}}},
		"named twice":   {Of: []Need{{Task: a}, {Task: a, When: job.WhenEnd}}},
		"want at most ": {Of: make([]Need, job.MaxNeeds+1)},
	} {
		err := n.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// If the results are too large together, the largest are left out first.
func TestInputs(t *testing.T) {
	n := &Needs{Of: []Need{{Task: "a", Name: "big"}, {Task: "b", Name: "small"}, {Task: "c"}}}
	big := json.RawMessage(`"` + strings.Repeat("x", job.MaxInputs) + `"`)
	text, err := n.Inputs([]Input{{State: Finished, Result: big}, {State: Finished, Result: json.RawMessage(`7`)}, {State: Error, Reason: reason.Exit}})
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
	s := held(HoldNeeds)
	s.Needs = &Needs{Of: []Need{{Task: "a"}}}
	got := given(s, CancelConfirmed{Code: reason.Skipped, Reason: "a failed"}, Reopened{Reason: "a runs again"})
	if got.State != Held || len(got.Holds) != 1 {
		t.Errorf("it is %s, held by %v", got.State, got.Holds)
	}
	got = given(s, CancelConfirmed{Code: reason.Skipped, Reason: "a failed"}, Reopened{}, Unheld{Hold: HoldNeeds})
	if _, ok := NextOffer(&got); got.State != Pending || !ok {
		t.Errorf("it is %s, to be offered: %v", got.State, ok)
	}
}
