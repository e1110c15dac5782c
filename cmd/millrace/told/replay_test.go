package told

import (
	"testing"

	"millrace/replay"
	"millrace/task"
)

// A claim of a task that did not wait says nothing of how it was decided: so there is no heading.
func TestNothingDecided(t *testing.T) {
	if head, below := Decided(&replay.Decision{}); head != "" || below != nil {
		t.Errorf("%q, %q", head, below)
	}
	if head, _ := Decided(&replay.Decision{By: &task.By{Drawn: 0.5}}); head != "decided" {
		t.Errorf("%q", head)
	}
	if head, _ := Decided(&replay.Decision{Rule: "duty"}); head != "decided by rule duty" {
		t.Errorf("%q", head)
	}
}
