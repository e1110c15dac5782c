package duties

import (
	"slices"
	"testing"

	"millrace/task/job"
)

// Each rule that postpones tasks is asked, by the claim and by who decides again, and no other.
func TestEachPostponingRuleIsAsked(t *testing.T) {
	for _, name := range job.Postponing() {
		if postponers[name] == nil {
			t.Errorf("the rule %s postpones tasks by job.Rules, and none is asked by that name", name)
		}
	}
	for name := range postponers {
		if !slices.Contains(job.Postponing(), name) {
			t.Errorf("a rule %s is asked, and no rule of that name postpones anything", name)
		}
	}
}
