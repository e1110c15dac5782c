package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/limit"
	"millrace/verify"
)

// More epochs under a limit than it allows are found, by its rule, and so is the admission that led
// to them.
func TestBrokenLimit(t *testing.T) {
	r := check(t, "I-4.limit", verify.Config{})
	if r.Violations != 2 || r.Findings[1].Rule != verify.Decisions || !strings.Contains(r.Findings[1].What, "by all that was known at 4, no more than 1 are admitted") {
		t.Errorf("found %+v", r.Findings)
	}
	r = check(t, "I-4.limit", verify.Config{Rules: slices.DeleteFunc(verify.Rules(), func(r verify.Rule) bool { return r == verify.Decisions })})
	if r.Violations != 1 || r.Findings[0].Rule != verify.Limits || !strings.Contains(r.Findings[0].What, "key:crawl/acme has 2 attempts under way, and allows 1") {
		t.Errorf("found %+v", r.Findings)
	}
}

// A place that a failure freed belongs to another task until the limit admits the first one again.
func TestGoodLimit(t *testing.T) {
	if r := check(t, "good.limit", verify.Config{Settled: true}); r.Violations > 0 || r.Rules[verify.Limits-1].Checked == 0 {
		t.Errorf("found %+v", r.Findings)
	}
}

// An admission lies on the chains of exactly the scopes whose limits it names.
func TestAdmissionOnAllOfItsChains(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	common := limit.ScopeOf("key:/x")
	both, own := []string{"job:a", "key:/x"}, []string{"job:a", "rate:a/k"}
	type at struct {
		seq    uint64
		scope  limit.Scope // "" for another fact
		limits []string
	}
	for name, c := range map[string]struct {
		from    uint64
		records []at
		want    string
	}{
		"one":                {1, []at{{1, "job.a", own}, {2, "", nil}}, ""},
		"none any more":      {1, []at{{1, "queue.q", nil}, {2, "", nil}}, ""},
		"both":               {1, []at{{1, "job.a", both}, {2, common, both}, {3, "", nil}}, ""},
		"one is missing":     {1, []at{{1, "job.a", both}, {2, "", nil}, {3, common, both}, {4, "", nil}}, "missing on the chains of"},
		"not side by side":   {1, []at{{1, "job.a", both}, {3, common, both}, {4, "", nil}}, "missing on the chains of"},
		"another one":        {1, []at{{1, "job.b", own}}, "stands under [job:a rate:a/k]"},
		"before the range":   {5, []at{{5, common, both}, {6, "", nil}}, ""},
		"later in the range": {5, []at{{5, "", nil}, {6, common, both}, {7, "", nil}}, "missing on the chains of"},
		"the end":            {1, []at{{1, "", nil}, {2, "job.a", both}}, ""},
	} {
		v := verify.New(verify.Config{From: c.from, Rules: []verify.Rule{verify.Limits}})
		for _, r := range c.records {
			f := events.Fact{ID: fmt.Sprint("f", r.seq), At: noon, Type: events.LimitGranted, Scope: r.scope}
			kind := events.KindLimit
			if f.Event = (task.Granted{Grants: []task.Grant{{Task: "t", Turn: 7, Limits: r.limits}}}); r.scope == "" {
				kind, f = events.KindCopies, events.Fact{ID: f.ID, At: noon, Type: events.CopiesRestored, Event: definition.CopiesRestored{}}
			}
			if err := v.Add(&events.Record{Seq: r.seq, Stored: noon, Kind: kind, Fact: f}); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		for _, f := range v.Report(noon).Findings {
			got += f.What
		}
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: found %q, want %q", name, got, c.want)
		}
	}
}
