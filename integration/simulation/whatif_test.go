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
	"millrace/history/incident"
	"millrace/history/verify"
	"millrace/history/whatif"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// Under its own settings every decision of a history comes out as it was, also if they are given as
// others.
func TestHistoriesComeOutTheSame(t *testing.T) {
	own := verify.Other{
		Bounds: *bounds.Bounds(),
		Spec:   func(_ string, spec *job.Spec) *job.Spec { c := *spec; return &c },
	}
	for seed := range uint64(120) {
		h := play(t, seed, variant{durable: seed%4 == 3})
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
		h := play(t, seed, variant{crowded: seed%4 == 1, windowed: seed%4 == 2, durable: seed%4 == 3})
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

// What happens first under other settings, the what-if and the simulation say alike: a stop by the run
// timeout, an end that another policy brings or puts off. So they do where a sweep has found the
// attempt lost later on.
func TestFirstDifferenceIsSimulated(t *testing.T) {
	agreed, lost := map[string]int{}, 0
	for seed := range max(*historiesFlag/4, 1) {
		h := play(t, *firstFlag+seed, variant{})
		h.report(t)
		honest := slices.DeleteFunc(slices.Clone(h.records), func(r events.Record) bool { return r.Fact.Actor == stranger })
		for _, set := range []string{"timeout.run=1s", "retry.max=0", "retry.max=9"} {
			other, err := whatif.Parse([]string{set}, whatif.Only{})
			if err != nil {
				t.Fatal(err)
			}
			j, p := whatif.New(whatif.Config{Other: other, Settings: bounds, Margin: margin}), whatif.Player{}
			for i := range honest {
				if err := errors.Join(j.Add(&honest[i]), p.Add(&honest[i])); err != nil {
					t.Fatal(err)
				}
			}
			all := j.Report().Changes
			if set == "timeout.run=1s" {
				lost += h.stoppedBeforeLost(t, all)
			}
			if len(all) == 0 {
				continue
			}
			first := slices.MinFunc(all, func(a, b whatif.Change) int { return a.At.Compare(b.At) })
			if first.Task == "" || first.Kind == whatif.AsSoon {
				continue
			}
			played, err := p.Simulate(1, bounds, other)
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(played.Tasks, func(f whatif.Fare) bool { return f.Task == first.Task })
			if i < 0 {
				continue // its model has come to something else before
			}
			was, is, k := played.Tasks[i].Was, played.Tasks[i].Is, h.fold.tasks[first.Task]
			near := func(a, b time.Time) bool { return a.Sub(b).Abs() < 100*time.Millisecond }
			if began := h.firstStart(first.Task); !near(is.Started, began) || !near(was.Started, began) || !near(was.Ended, k.EndedAt) || was.Attempts != k.Attempt || k.Life > 0 ||
				set == "retry.max=0" && (k.Losses > 0 || k.Spec.Timeout.Run > 0) {
				continue // its model plays another life than the recorded one
			}
			agreed[set]++
			wrong := false
			switch {
			case set == "retry.max=9":
				wrong = is.Attempts <= was.Attempts && is.State == was.State
			case k.Spec.Retry.Max == 0 || set == "retry.max=0":
				wrong = first.Kind == whatif.Never && is.Reason != value.Timeout || is.Ended.Sub(first.At).Abs() > time.Second
			}
			if wrong {
				t.Errorf("seed %d, %s: what-if says of %s at %v: %s; the simulation that it ends %s/%s at %v", h.seed, set, short(first.Task), first.At, first.What, is.State, is.Reason, is.Ended)
			}
		}
	}
	t.Logf("%v first differences; %d attempts that were lost would have been stopped", agreed, lost)
	if *historiesFlag >= many && agreed["timeout.run=1s"] == 0 {
		t.Error("no first difference was compared")
	}
}

// firstStart is when the first attempt of a task began.
func (h *history) firstStart(id task.ID) time.Time {
	for _, r := range h.stories[id] {
		if _, starts := r.Fact.Event.(task.AttemptStarted); starts {
			return r.Fact.At
		}
	}
	return time.Time{}
}

// stoppedBeforeLost counts the first attempts that sweeps found lost, of nodes that had a heartbeat
// after a run timeout of 1 s. The what-if must say that they would have been stopped.
func (h *history) stoppedBeforeLost(t *testing.T, all []whatif.Change) (count int) {
	t.Helper()
	for id, s := range h.stories {
		var began *events.Record
		for i := range s {
			switch e := s[i].Fact.Event.(type) {
			case task.AttemptStarted:
				began = &s[i]
				if e.Attempt > 1 {
					began = nil
				}
			case task.AttemptLost:
				by := s[i].Fact.By
				k := h.fold.tasks[id]
				if began == nil || e.Epoch != began.Seq || by == nil || by.Rule != task.RuleDuty || len(k.Rivals) > 0 || k.Spec.Timeout.Run != 0 {
					continue
				}
				on := began.Fact.Event.(task.AttemptStarted)
				if beat := h.lastHeard(on.Node, on.Session, s[i].Seq); !beat.After(began.Fact.At.Add(time.Second)) {
					continue
				}
				count++
				if !slices.ContainsFunc(all, func(c whatif.Change) bool { return c.Task == id && c.Seq < s[i].Seq }) {
					t.Errorf("seed %d: the attempt of %s at #%d was found lost at #%d, and what-if does not say that it would have been stopped", h.seed, short(id), began.Seq, s[i].Seq)
				}
			}
		}
	}
	return count
}

// lastHeard is the heartbeat by whose end a session was found lost before a sequence; zero if it was
// not.
func (h *history) lastHeard(id, session string, before uint64) (at time.Time) {
	for i := range h.records {
		r := &h.records[i]
		e, ok := r.Fact.Event.(node.WentOffline)
		if ok && string(r.Fact.Node) == id && e.Session == session && e.Lost && r.Fact.By.Lease != nil && r.Seq < before {
			if at = r.Fact.By.Lease.Beat; r.Fact.By.Lease.Session == "" {
				at = at.Add(-nodeTTL)
			}
		}
	}
	return at
}
