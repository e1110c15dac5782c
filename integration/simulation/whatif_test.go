package simulation

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/incident"
	"millrace/task/job"
	"millrace/verify"
	"millrace/whatif"
)

// Under its own settings every decision of a history comes out as it was, also if they are given as
// others.
func TestHistoriesComeOutTheSame(t *testing.T) {
	own := verify.Other{
		Bounds: *bounds.Bounds(),
		Spec:   func(_ string, spec *job.Spec) *job.Spec { c := *spec; return &c },
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

// A redacted incident file gives the same what-if differences as the log: nothing that decides
// about tasks is hidden.
func TestRedactedHistoriesComeOutTheSame(t *testing.T) {
	judge := func(seed, hidden uint64, other verify.Other, each func(*events.Record) *events.Record, records []events.Record) *whatif.Report {
		j := whatif.New(whatif.Config{Other: other, Settings: bounds, Margin: 10 * time.Second, Import: events.Import{Hidden: hidden}})
		for i := range records {
			if r := each(&records[i]); r.Fact.Actor != stranger {
				if err := j.Add(r); err != nil {
					t.Fatal(seed, err)
				}
			}
		}
		r := j.Report()
		// A limit with a key finds its tasks by that key, which is hidden: of limits the file says
		// less.
		r.Mistakes = slices.DeleteFunc(r.Mistakes, func(f verify.Finding) bool { return strings.Contains(f.What, "limit") })
		r.Changes = slices.DeleteFunc(r.Changes, func(c whatif.Change) bool { return c.Type == events.LimitGranted })
		r.Unknown, r.Tasks, r.Decisions = nil, whatif.Tasks{Differ: r.Tasks.Differ}, whatif.Decisions{}
		for i := range r.Changes {
			r.Changes[i] = whatif.Change{Kind: r.Changes[i].Kind, Seq: r.Changes[i].Seq, At: r.Changes[i].At, Type: r.Changes[i].Type, Task: r.Changes[i].Task, Node: r.Changes[i].Node, Follows: r.Changes[i].Follows}
		}
		return r
	}
	differ := 0
	for seed := range uint64(40) {
		h := play(t, seed, variant{crowded: seed%4 == 1, windowed: seed%4 == 2})
		h.report(t)
		h.importedVerifies(t)
		for _, sets := range [][]string{nil, {"retry.max=9"}, {"retry.max=0", "timeout.run=1s", "node_ttl=1m"}} {
			other, err := whatif.Parse(sets, whatif.Only{})
			if err != nil {
				t.Fatal(err)
			}
			redactor := incident.NewRedactor([]byte("of a test"))
			for i := range h.records {
				redactor.See(&h.records[i])
			}
			log := judge(seed, 0, other, func(r *events.Record) *events.Record { return r }, h.records)
			file := judge(seed, math.MaxUint64, other, func(r *events.Record) *events.Record {
				is, err := redactor.Fact(r)
				if err != nil {
					t.Fatal(err)
				}
				if r.Fact.Actor == stranger {
					is.Fact.Actor = stranger
				}
				return &is
			}, h.records)
			differ += len(log.Changes)
			if !reflect.DeepEqual(log, file) {
				t.Fatalf("seed %d, %v: the redacted file says %+v\nthe log says %+v", seed, sets, file, log)
			}
		}
	}
	if differ == 0 {
		t.Error("no setting changes anything")
	}
}

// importedVerifies checks that verify finds nothing in the log that is imported from a redacted file
// of the history, although it hides the words that decisions were explained by.
func (h *history) importedVerifies(t *testing.T) {
	t.Helper()
	redactor := incident.NewRedactor([]byte("of a test"))
	for i := range h.records {
		redactor.See(&h.records[i])
	}
	var imported []events.Record
	for i := range h.records {
		if r := &h.records[i]; r.Fact.Actor != stranger {
			is, err := redactor.Fact(r)
			if err != nil {
				t.Fatal(err)
			}
			imported = append(imported, is)
		}
	}
	for _, f := range verified(t, h, verify.Config{Import: events.Import{Hidden: math.MaxUint64}}, imported).Findings {
		t.Errorf("seed %d, imported: %v: task %s, %v: %s", h.seed, f.Rule, f.Task, f.Seqs, f.What)
	}
}

// In a log that was imported from a redacted file, verify finds what it finds in the original: also of
// the breakers, which the simulation does not have.
func TestRedactedLogs(t *testing.T) {
	for _, name := range []string{"session", "troubled", "limited"} {
		was, redacted := ofCorpus(t, name)
		found, had := places(t, redacted, math.MaxUint64), places(t, was, 0)
		if !slices.Equal(found, had) {
			t.Errorf("%s: found %v, and in the original %v", name, found, had)
		}
	}
}

// A value that only looks hidden is compared like any other: in a log that nobody has imported, and
// behind the end of an import.
func TestForgedHiddenValues(t *testing.T) {
	forged := 0
	for _, name := range []string{"session", "troubled", "limited"} {
		was, redacted := ofCorpus(t, name)
		had := places(t, was, 0)
		compared := map[uint64]bool{} // what is compared of these facts is hidden
		for _, f := range findings(t, redacted, 0) {
			if n := len(f.Seqs); n > 0 {
				compared[f.Seqs[n-1]] = true
			}
		}
		for i := range was {
			one := slices.Clone(was)
			if one[i] = redacted[i]; !compared[one[i].Seq] || one[i].Place != was[i].Place {
				continue // a key, and with it its subject, is no value
			}
			seq := one[i].Seq
			found, after, imported := places(t, one, 0), places(t, one, seq-1), places(t, one, seq)
			if !slices.Equal(found, after) {
				t.Errorf("%s: behind an import up to #%d it finds %v, without one %v", name, seq-1, after, found)
			}
			if !slices.Equal(found, had) && slices.Equal(imported, had) {
				forged++
			}
		}
	}
	// Each of these was a way to hide something before a log had to say that it hides values.
	if forged < 20 {
		t.Errorf("%d forged facts are found, want at least 20", forged)
	}
}

// ofCorpus returns a log of the corpus, and its redacted form.
func ofCorpus(t *testing.T, name string) (was, redacted []events.Record) {
	t.Helper()
	x := incident.NewRedactor([]byte("of a test"))
	text, err := os.Open("../../events/testdata/corpus/log/v1/" + name + ".jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	log, err := events.NewExportReader(text)
	for err == nil {
		var r, hidden events.Record
		if r, err = log.Next(); err != nil {
			break
		}
		hidden, err = x.Fact(&r)
		was, redacted = append(was, r), append(redacted, hidden)
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return was, redacted
}

// places returns where verify finds something in a log that hides values up to a sequence.
func places(t *testing.T, log []events.Record, hidden uint64) (all []string) {
	t.Helper()
	for _, f := range findings(t, log, hidden) {
		all = append(all, fmt.Sprint(f.Rule, f.Task, f.Node, f.Seqs))
	}
	return all
}

func findings(t *testing.T, log []events.Record, hidden uint64) []verify.Finding {
	t.Helper()
	v := verify.New(verify.Config{Import: events.Import{Hidden: hidden}})
	for i := range log {
		if err := v.Add(&log[i]); err != nil {
			t.Fatal(err)
		}
	}
	return v.Report(time.Time{}).Findings
}
