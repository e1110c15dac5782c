package verify

import (
	"slices"
	"testing"

	"millrace/task/job"
)

// The decision of every postponing rule is repeated.
func TestEachRuleIsDecidedAgain(t *testing.T) {
	for _, name := range job.Postponing() {
		if postponers[name] == nil {
			t.Errorf("nobody decides again what the rule %s postpones", name)
		}
	}
	for name := range postponers {
		if !slices.Contains(job.Postponing(), name) {
			t.Errorf("%s is decided again, and no rule of that name postpones anything", name)
		}
	}
}
