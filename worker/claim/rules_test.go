package claim

import (
	"testing"

	"millrace/task/job"
)

// Each rule that postpones tasks is asked, and once.
func TestEachRuleIsAsked(t *testing.T) {
	asked := map[string]int{}
	for _, r := range rules {
		if asked[r.name]++; asked[r.name] > 1 {
			t.Errorf("the rule %s is asked twice", r.name)
		}
	}
	for _, name := range job.Postponing() {
		if asked[name] == 0 {
			t.Errorf("the rule %s postpones tasks by job.Rules, and a claim does not ask it", name)
		}
	}
}
