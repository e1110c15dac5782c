package simulation

import (
	"testing"
	"time"

	"millrace/task"
	"millrace/verify"
	"millrace/whatif"
)

// Under its own settings every decision of a history comes out as it was, also if they are given as others.
func TestHistoriesComeOutTheSame(t *testing.T) {
	own := verify.Other{
		Bounds: *bounds.Bounds(),
		Spec:   func(_ string, spec *task.Spec) *task.Spec { c := *spec; return &c },
	}
	for seed := range uint64(120) {
		h := play(t, seed, variant{})
		h.report(t)
		for name, other := range map[string]verify.Other{"none": {}, "its own": own} {
			j := whatif.New(whatif.Config{Other: other, Settings: bounds, Margin: 10 * time.Second})
			for i := range h.records {
				if r := &h.records[i]; r.Fact.Actor != stranger {
					if err := j.Add(r); err != nil {
						t.Fatal(err)
					}
				}
			}
			if r := j.Report(); len(r.Mistakes) > 0 || len(r.Changes) > 0 || r.Decisions.Same+r.Decisions.Unjudged != r.Decisions.All {
				t.Fatalf("seed %d, %s: %+v", seed, name, r)
			}
		}
	}
}
