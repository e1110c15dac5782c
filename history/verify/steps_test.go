package verify_test

import (
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

// Each step of a function is recorded once, by the attempt that runs.
func TestStepsAreMadeOnce(t *testing.T) {
	id, noon := task.ID("01JNAT00000000000000000009"), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	do := func(epoch uint64, first int, names ...string) any {
		e := task.AttemptStepped{Attempt: 1, Epoch: epoch, First: first}
		for _, name := range names {
			e.Steps = append(e.Steps, task.Step{Name: name, Kind: task.StepDo})
		}
		return e
	}
	park := func(epoch uint64, kind string) any {
		return task.AttemptParked{Attempt: 1, Epoch: epoch, First: 1, Park: task.Park{Step: "p", Kind: kind, Until: noon.Add(time.Hour)}}
	}
	lost := task.AttemptLost{Attempt: 1, Epoch: 3}
	told := task.Unheld{Hold: task.HoldSignal}
	for name, c := range map[string]struct {
		log  []any // behind the birth, the node and the claim, from 4 on
		what string
	}{
		"in order":                   {[]any{do(3, 0, "a"), do(3, 1, "b", "c"), do(3, 3, "d")}, ""},
		"one again":                  {[]any{do(3, 0, "a"), do(3, 0, "a")}, `step "a" is recorded as step 1, and 1 were done before`},
		"with a gap":                 {[]any{do(3, 0, "a"), do(3, 2, "c")}, "is recorded as step 3, and 1 were done before"},
		"of a lost attempt":          {[]any{do(3, 0, "a"), lost, do(3, 1, "b")}, "attempt.stepped of epoch 3, which does not run any more"},
		"of no attempt":              {[]any{do(9, 0, "a")}, "no attempt of the task has started there"},
		"behind a wait":              {[]any{do(3, 0, "a"), park(3, task.StepAwait), told}, ""},
		"a wait of a lost attempt":   {[]any{do(3, 0, "a"), lost, park(3, task.StepSleep)}, "attempt.parked of epoch 3, which does not run any more"},
		"of an attempt that waits":   {[]any{do(3, 0, "a"), park(3, task.StepSleep), do(3, 1, "b")}, "which does not run any more"},
		"waits twice under an epoch": {[]any{do(3, 0, "a"), park(3, task.StepSleep), park(3, task.StepSleep)}, "which does not run any more"},
	} {
		v := verify.New(verify.Config{Rules: []verify.Rule{verify.CauseFirst, verify.OneEpoch}})
		log := append([]any{
			task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "f"}, Route: "default.5"}},
			node.Registered{Session: "n1", Profile: node.Profile{Slots: 1, Queues: []string{"default"}}},
			task.AttemptStarted{Attempt: 1, Node: "n", Session: "n1", Offer: 1},
		}, c.log...)
		for i, e := range log {
			at := noon.Add(time.Duration(i) * time.Second)
			f := events.Fact{ID: string(rune('a' + i)), At: at, Type: events.TypeOf(e), Event: e, Task: id}
			kind := events.KindChain
			switch i {
			case 0:
				kind = events.KindOffer
			case 1:
				kind, f.Task, f.Node = events.KindNode, "", "n"
			}
			if err := v.Add(&events.Record{Seq: uint64(i + 1), Stored: at, Kind: kind, Fact: f}); err != nil {
				t.Fatal(err)
			}
		}
		found := v.Report(time.Time{}).Findings
		if c.what == "" && len(found) > 0 || c.what != "" && (len(found) != 1 || !strings.Contains(found[0].What, c.what)) {
			t.Errorf("%s: found %+v, want %q", name, found, c.what)
		}
	}
}
