package verify_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/limit"
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

// A log without admissions shows that nobody asked the limits, by the offers of the tasks; without
// the offers as well, by their starts.
func TestOfferedPastLimits(t *testing.T) {
	for name, lacks := range map[string][]events.Type{
		"offered past its limits":             {events.LimitGranted},
		"it starts while it is held by limit": {events.LimitGranted, events.TaskQueued},
	} {
		for _, settled := range []bool{false, true} {
			v := verify.New(verify.Config{Settled: settled})
			read(t, "good.limit", func(r *events.Record) {
				if slices.Contains(lacks, r.Fact.Type) {
					return
				}
				if err := v.Add(r); err != nil {
					t.Fatal(err)
				}
			})
			found := v.Report(time.Time{}).Findings
			if !slices.ContainsFunc(found, func(f verify.Finding) bool { return f.Rule == verify.Limits && strings.Contains(f.What, name) }) {
				t.Errorf("%s: found %+v", name, found)
			}
		}
	}
}

// Times of the log that go back by more than the margin are counted, and break no promise.
func TestBackwards(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := verify.New(verify.Config{Margin: 10 * time.Second})
	for i, after := range []time.Duration{0, time.Minute, 51 * time.Second, 49 * time.Second, time.Minute} {
		if err := v.Add(&events.Record{Seq: uint64(i + 1), Stored: noon.Add(after), Kind: events.KindProbe}); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Add(&events.Record{Seq: 6, Kind: events.KindProbe}); err != nil { // its time was taken out
		t.Fatal(err)
	}
	if r := v.Report(time.Time{}); r.Backwards != 2 || !slices.Equal(r.BackwardsSeqs, []uint64{4, 6}) || r.Violations > 0 {
		t.Errorf("%d at %v go back, %d violations", r.Backwards, r.BackwardsSeqs, r.Violations)
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
		"another one":        {1, []at{{1, "job.b", own}}, "stands under job:a, rate:a/k"},
		"before the range":   {5, []at{{5, common, both}, {6, "", nil}}, ""},
		"later in the range": {5, []at{{5, "", nil}, {6, common, both}, {7, "", nil}}, "missing on the chains of"},
		"the end":            {1, []at{{1, "", nil}, {2, "job.a", both}}, ""},
	} {
		v := verify.New(verify.Config{From: c.from, Rules: []verify.Rule{verify.Limits}})
		for _, r := range c.records {
			f := events.Fact{ID: fmt.Sprint("f", r.seq), At: noon, Type: events.LimitGranted, Scope: r.scope}
			kind := events.KindLimit
			if f.Event = (task.Granted{Grants: []task.Grant{{Task: "t", Turn: 7, Limits: r.limits}}}); r.scope == "" {
				kind, f = events.KindCopies, events.Fact{ID: f.ID, At: noon, Type: events.CopiesRestored, Event: task.CopiesRestored{}}
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
