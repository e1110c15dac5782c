package verify_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// read passes all records of an export to a function.
func read(t testing.TB, name string, each func(*events.Record)) {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := events.NewExportReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if record.Err != nil {
			t.Fatalf("%s: sequence %d: %v", name, record.Seq, record.Err)
		}
		each(&record)
	}
}

// check verifies an export with the files beside it: rows of a read model, and acknowledged tasks.
// Without rows, it uses those of the fold.
func check(t testing.TB, name string, cfg verify.Config) *verify.Report {
	t.Helper()
	if text, err := os.ReadFile(filepath.Join("testdata", name+".acknowledged")); err == nil {
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
				cfg.Acknowledged = append(cfg.Acknowledged, task.ID(line))
			}
		}
	}
	v := verify.New(cfg)
	folded := map[task.ID]task.Task{}
	read(t, name, func(r *events.Record) {
		if err := v.Add(r); err != nil {
			t.Fatal(err)
		}
		if id := r.Fact.Task; id != "" {
			k := folded[id]
			k.ID = id
			folded[id] = task.Evolve(k, r.Task())
		}
	})
	if f, err := os.Open(filepath.Join("testdata", name+".rows.jsonl")); err == nil {
		defer f.Close()
		clear(folded)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var k task.Task
			if err := json.Unmarshal(lines.Bytes(), &k); err != nil {
				t.Fatal(err)
			}
			folded[k.ID] = k
		}
	}
	for _, k := range folded {
		v.Row(&k)
	}
	v.RowsEnd()
	return v.Report(time.Time{})
}

// Each broken log is found by its rule and by no other.
func TestBrokenLogs(t *testing.T) {
	for _, rule := range verify.Rules() {
		t.Run(rule.String(), func(t *testing.T) {
			r := check(t, rule.String(), verify.Config{})
			if r.Violations == 0 {
				t.Error("nothing was found")
			}
			for _, f := range r.Findings {
				if f.Rule != rule || f.What == "" || f.Look == "" || f.Task == "" && f.Node == "" {
					t.Errorf("found %+v", f)
				}
			}
			others := slices.DeleteFunc(verify.Rules(), func(other verify.Rule) bool { return other == rule })
			if r := check(t, rule.String(), verify.Config{Rules: others}); r.Violations > 0 {
				t.Errorf("without the rule, found %+v", r.Findings)
			}
		})
	}
}

func TestGoodLog(t *testing.T) {
	cfg := verify.Config{Settled: true, Acknowledged: []task.ID{"01JNAT00000000000000000001"}}
	r := check(t, "good", cfg)
	for _, f := range r.Findings {
		t.Errorf("found %+v", f)
	}
	if r.Tasks != 3 || r.Open != 0 || r.Poison != 0 || r.UnknownFacts() != 0 || r.First != 1 || r.Last != uint64(r.Facts) {
		t.Errorf("the report is %+v", r)
	}
	for _, rule := range r.Rules {
		want := verify.StatusOK
		if rule.Rule == verify.Deadlines || rule.Rule == verify.OneTask {
			want = verify.StatusNothing
		}
		if rule.Status != want || (rule.Checked > 0) != (want == verify.StatusOK) {
			t.Errorf("%v: %s, %d %s checked, want %s", rule.Rule, rule.Status, rule.Checked, rule.Things, want)
		}
	}
}

// Every part of a good log is good.
func TestPartsOfAGoodLog(t *testing.T) {
	var records []events.Record
	read(t, "good", func(r *events.Record) { records = append(records, *r) })
	for from := range records {
		for to := from + 1; to <= len(records); to++ {
			v := verify.New(verify.Config{From: records[from].Seq})
			for i := range records[from:to] {
				if err := v.Add(&records[from+i]); err != nil {
					t.Fatal(err)
				}
			}
			if r := v.Report(time.Time{}); r.Violations > 0 {
				t.Fatalf("from %d to %d: found %+v", from+1, to, r.Findings)
			}
		}
	}
}

// With --settled, an open task at the end is a fault.
func TestSettled(t *testing.T) {
	v := verify.New(verify.Config{Settled: true})
	read(t, "good", func(r *events.Record) {
		if r.Seq <= 4 || r.Kind != events.KindChain {
			_ = v.Add(r)
		}
	})
	r := v.Report(time.Time{})
	if r.Violations == 0 || r.Open == 0 {
		t.Errorf("%d tasks are open, and %d violations were found", r.Open, r.Violations)
	}
}

// Unreadable messages are counted, and never a fault.
func TestPoisonAndUnknownTypes(t *testing.T) {
	v := verify.New(verify.Config{})
	about := events.Fact{Task: "01JNAT00000000000000000009"}
	later := about
	later.Type = "task.paused"
	for i, r := range []events.Record{
		{Kind: events.KindChain, Fact: about, Err: errors.New("garbage")},
		{Kind: events.KindOffer, Fact: about, Err: errors.New("garbage")},
		{Kind: events.KindNode, Fact: events.Fact{Node: "x"}, Err: errors.New("garbage")},
		{Kind: events.KindChain, Err: errors.New("of nobody")},
		{Kind: events.KindChain, Fact: later},
		{Kind: events.KindOther},
	} {
		r.Seq = uint64(i + 1)
		if err := v.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Add(&events.Record{Seq: 3}); err == nil {
		t.Error("the log went backwards, and nothing is said")
	}
	r := v.Report(time.Time{})
	if r.Poison != 4 || r.Unknown["task.paused"] != 1 || r.Probes != 1 || r.Facts != 0 || r.Violations != 0 {
		t.Errorf("the report is %+v", r)
	}
}

// A dismissed message is off the list, and must have been on it.
func TestDismissed(t *testing.T) {
	id := task.ID("01JNAT00000000000000000009")
	work := task.Work{Spec: &job.Spec{Handler: "work"}, Route: "default.5"}
	fact := func(e any) events.Record {
		r := events.Record{Kind: events.KindChain, Fact: events.Fact{Type: events.TypeOf(e), Task: id, Event: e}}
		switch e.(type) {
		case task.Submitted:
			r.Kind = events.KindOffer
		case task.MessageEvent:
			r.Kind, r.Fact.Task, r.Fact.Message = events.KindDead, "", 1
		}
		return r
	}
	garbage := events.Record{Kind: events.KindOffer, Fact: events.Fact{Task: "x"}, Err: errors.New("garbage")}
	born, dead, dismissed, message := fact(task.Submitted{Work: work}), fact(task.GivenUp{Reason: value.Expired}), fact(task.Dismissed{}), fact(task.MessageDismissed{})
	later := message
	later.Fact.Message = 2
	for name, c := range map[string]struct {
		log            []events.Record
		poison, broken int
	}{
		"a message":           {[]events.Record{garbage, message}, 0, 0},
		"a message, twice":    {[]events.Record{garbage, message, message}, 0, 0},
		"one of two messages": {[]events.Record{garbage, message, garbage}, 1, 0},
		"one to come":         {[]events.Record{garbage, later}, 1, 1},
		"a task":              {[]events.Record{born, dead, dismissed}, 0, 0},
		"a task, reopened":    {[]events.Record{born, dead, dismissed, fact(task.Reopened{}), dead, dismissed}, 0, 0},
		"one that waits":      {[]events.Record{born, dismissed}, 0, 1},
		"one that finished": {[]events.Record{born, fact(task.AttemptStarted{Attempt: 1, Node: "n", Session: "s", Offer: 1}),
			fact(task.AttemptFinished{Attempt: 1, Epoch: 2}), dismissed}, 0, 1},
	} {
		v := verify.New(verify.Config{Rules: chains})
		for i, r := range c.log {
			r.Seq = uint64(i + 1)
			r.Fact.ID = string(rune('a' + i))
			if err := v.Add(&r); err != nil {
				t.Fatal(err)
			}
		}
		r := v.Report(time.Time{})
		if r.Poison != c.poison || r.Violations != c.broken || c.broken > 0 && r.Findings[0].Rule != verify.CauseFirst {
			t.Errorf("%s: %d not understood, found %+v", name, r.Poison, r.Findings)
		}
	}
}

// A cause comes first, and exists.
func TestCauses(t *testing.T) {
	fact := func(seq uint64, id, cause string) *events.Record {
		return &events.Record{Seq: seq, Kind: events.KindChain, Fact: events.Fact{ID: id, Cause: cause, Type: "later", Task: "01JNAT00000000000000000001"}}
	}
	for name, c := range map[string]struct {
		facts []*events.Record
		from  uint64
		want  int
	}{
		"before":              {[]*events.Record{fact(1, "a", ""), fact(2, "b", "a")}, 1, 0},
		"after":               {[]*events.Record{fact(1, "b", "a"), fact(2, "a", "")}, 1, 1},
		"itself":              {[]*events.Record{fact(1, "a", "a")}, 1, 1},
		"nowhere":             {[]*events.Record{fact(1, "b", "a")}, 1, 1},
		"before the range":    {[]*events.Record{fact(7, "b", "a")}, 7, 0},
		"after, in the range": {[]*events.Record{fact(7, "b", "a"), fact(8, "a", "")}, 7, 1},
	} {
		v := verify.New(verify.Config{From: c.from})
		for _, f := range c.facts {
			if err := v.Add(f); err != nil {
				t.Fatal(err)
			}
		}
		if r := v.Report(time.Time{}); r.Violations != c.want {
			t.Errorf("%s: found %+v, want %d", name, r.Findings, c.want)
		}
	}
}

func TestSurvivalNeedsTheWholeLog(t *testing.T) {
	v := verify.New(verify.Config{From: 50, Acknowledged: []task.ID{"01JNAT00000000000000000001"}, Rules: []verify.Rule{verify.Survival}})
	r := v.Report(time.Time{})
	if got := r.Rules[verify.Survival-1]; got.Status != verify.StatusUnknown || r.Violations != 0 {
		t.Errorf("it is %+v", got)
	}
}

func TestParseRule(t *testing.T) {
	for _, rule := range verify.Rules() {
		if got, err := verify.ParseRule(strings.ToLower(rule.String())); got != rule || err != nil {
			t.Errorf("%v is read as %v, %v", rule, got, err)
		}
	}
	for _, s := range []string{"", "I-0", "I-12", "3", "I-3 "} {
		if got, err := verify.ParseRule(s); err == nil {
			t.Errorf("%q is read as %v", s, got)
		}
	}
}
