package simulation

import (
	"slices"
	"testing"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
)

// Every decision that is changed in a log is found.
func TestChangedDecisionsAreFound(t *testing.T) {
	const enoughOfEach = 12
	changed, names := map[string]int{}, []string{
		"attempt.failed retry.due", "attempt.failed reason", "attempt.failed by.drawn", "attempt.failed by.final",
		"attempt.started took_over.heard", "attempt.started took_over.ground", "attempt.lost reason", "attempt.lost by.rule", "attempt.lost by.seen",
		"task.abnormal detail", "task.abnormal by.rule", "task.cancel_requested deadline", "task.reassigned to", "task.reassigned by.rule",
	}
	missing := func(name string) bool { return changed[name] < enoughOfEach }
	for seed := uint64(0); seed < 400 && slices.ContainsFunc(names, missing); seed++ {
		h := play(t, seed, variant{})
		h.report(t)
		log := slices.DeleteFunc(slices.Clone(h.records), func(r events.Record) bool { return r.Fact.Actor == stranger })
		logtest.Alter(t, log, enoughOfEach, changed, func(log []events.Record) bool {
			return foundAtOnce(t, log) || verified(t, h, verify.Config{}, log).Violations > 0
		})
	}
	for _, name := range names {
		if missing(name) {
			t.Errorf("%s was changed %d times, want %d", name, changed[name], enoughOfEach)
		}
	}
	t.Logf("changed: %v", changed)
}

// foundAtOnce tells whether package verify finds something before it comes to the end of a log. Most
// changes are found where they are, long before.
func foundAtOnce(t *testing.T, log []events.Record) bool {
	t.Helper()
	v := verify.New(verify.Config{Settings: bounds, Margin: margin})
	for i := range log {
		if err := v.Add(&log[i]); err != nil {
			t.Fatal(err)
		}
		if v.Found() {
			return true
		}
	}
	return false
}
