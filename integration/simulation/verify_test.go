package simulation

import (
	"maps"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/verify"
)

// verified holds the log of a history against the promises as `millrace verify`
// does. Facts that a stranger forged are left out: package verify cannot tell
// them from those of a broken program, and would be right to say so.
func verified(t *testing.T, h *history, settled bool) *verify.Report {
	t.Helper()
	v := verify.New(verify.Config{
		Settled: settled, Settings: bounds, Margin: 10 * time.Second, Acknowledged: slices.Sorted(maps.Keys(h.accepted)),
	})
	rows := newFold()
	for i := range h.records {
		r := &h.records[i]
		if r.Kind == events.KindChain && r.Fact.Actor == stranger && r.Fact.Event != nil {
			continue
		}
		if err := v.Add(r); err != nil {
			t.Fatal(err)
		}
		rows.add(r)
	}
	for _, k := range rows.tasks {
		v.Row(&k)
	}
	v.RowsEnd()
	return v.Report(time.Time{})
}

// What honest programs write verifies clean, whatever befalls them.
func TestHistoriesVerify(t *testing.T) {
	checked := map[verify.Rule]int{}
	for seed := range min(*historiesFlag, 150) {
		h := play(t, seed, variant{})
		h.report(t)
		r := verified(t, h, true)
		for _, f := range r.Findings {
			t.Errorf("seed %d: %v: task %s, node %s, %v: %s\n%s", seed, f.Rule, f.Task, f.Node, f.Seqs, f.What, telling(h.stories[f.Task]))
		}
		if t.Failed() {
			return
		}
		for _, rule := range r.Rules {
			checked[rule.Rule] += rule.Checked
		}
	}
	for _, rule := range verify.Rules() {
		// Everything has ended, and there are no schedules.
		if nothing := rule == verify.Deadlines || rule == verify.OneTask; checked[rule] == 0 && !nothing {
			t.Errorf("%v found nothing to check", rule)
		}
	}
	t.Logf("checked: %v", checked)
}
