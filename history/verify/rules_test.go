package verify

import (
	"slices"
	"testing"

	"millrace/task/job"
)

// What a decision read is found for rules that postpone tasks, and for no others.
func TestEachReadIsOfARule(t *testing.T) {
	for name := range reads {
		if !slices.Contains(job.Postponing(), name) {
			t.Errorf("%s is read again, and no rule of that name postpones anything", name)
		}
	}
}
