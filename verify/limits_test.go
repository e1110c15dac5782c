package verify_test

import (
	"strings"
	"testing"

	"millrace/verify"
)

// More epochs under a limit than it allows are found, and only by its rule.
func TestBrokenLimit(t *testing.T) {
	r := check(t, "I-4.limit", verify.Config{})
	if r.Violations != 1 || r.Findings[0].Rule != verify.Limits || !strings.Contains(r.Findings[0].What, "key:crawl/acme has 2 attempts under way, and allows 1") {
		t.Errorf("found %+v", r.Findings)
	}
}

// A place that was given back by a failure is somebody else's until the limit admits the
// task again.
func TestGoodLimit(t *testing.T) {
	if r := check(t, "good.limit", verify.Config{Settled: true}); r.Violations > 0 || r.Rules[verify.Limits-1].Checked == 0 {
		t.Errorf("found %+v", r.Findings)
	}
}
