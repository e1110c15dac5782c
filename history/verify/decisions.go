package verify

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/value"
)

// I-11. A fact that records a decision names its inputs ([task.By]), beside the history of its
// subject. Here each decision is repeated, from the state before the fact, with the function that
// made it: the result must be the fact. Decisions before the range, or with inputs before it, are
// not judged.

// Decided repeats every decision of a whole log and returns those with another result.
func Decided(log []events.Record) []Finding {
	v := New(Config{Rules: []Rule{Decisions}})
	for i := range log {
		if err := v.Add(&log[i]); err != nil {
			return []Finding{{Rule: Decisions, What: err.Error()}}
		}
	}
	return v.Report(time.Time{}).Findings
}

// Doubted tells whether [Decided] returns any, and reads a log no further than to the first of them.
func Doubted(log []events.Record) bool {
	v := New(Config{Rules: []Rule{Decisions}})
	for i := range log {
		if v.Add(&log[i]) != nil || v.Found() {
			return true
		}
	}
	return len(v.Report(time.Time{}).Findings) > 0
}

// timely checks that a decision follows from what came before it, and was made before the log stored
// it. Else it returns the record with the time at which the log stored it: no rule of a schedule
// can be followed to a time that is made up.
func (v *Verifier) timely(r *events.Record) *events.Record {
	if r.Err != nil || r.Fact.By == nil || !v.book.Asked(Decisions) {
		return r
	}
	wrong := func(seqs []uint64, what string) {
		v.book.Find(Decisions, Finding{Task: task.ID(strings.Clone(string(r.Fact.Task))), Seqs: seqs,
			What: string(r.Fact.Type) + " was decided by what came later, " + what, Look: findings.Show(r.Seq)})
		v.book.Spoilt()
	}
	if latest := r.Fact.By.Latest(); latest >= r.Seq {
		wrong([]uint64{latest, r.Seq}, fmt.Sprintf("at %d", latest))
	}
	if v.stored.IsZero() {
		return r
	}
	if l, latest := r.Fact.By.Lease, v.stored.Add(v.cfg.Margin); l != nil && (l.At.After(latest) || l.Beat.After(latest)) {
		wrong([]uint64{r.Seq}, fmt.Sprintf("a heartbeat as of %s, and the log stored it at %s", l.At.UTC().Format(time.RFC3339Nano), when(findings.StampOf(v.stored))))
	}
	if !r.Fact.At.After(v.stored.Add(v.cfg.Margin)) {
		return r
	}
	wrong([]uint64{r.Seq}, fmt.Sprintf("at %s, and the log stored it at %s", when(findings.StampOf(r.Fact.At)), when(findings.StampOf(v.stored))))
	is := *r
	is.Fact.At = v.stored
	return &is
}

// decided repeats the decision of a fact on a task's chain, if it is one. K is the task before it.
func (s *story) decided(v *Verifier, k *task.Task, r *events.Record) {
	if s.old || s.cut || !s.born || r.Err != nil {
		return // its state is unknown
	}
	if e, offer := r.Fact.Event.(task.Queued); offer && r.Kind != events.KindChain {
		s.freed(v, k, e, r)
	}
	if r.Kind != events.KindChain || s.end != 0 {
		return // I-2 reports that
	}
	if r.Fact.By != nil && r.Fact.By.Rule == task.RuleDuty {
		s.owed(v, k, r)
		return
	}
	switch e := r.Fact.Event.(type) {
	case task.AttemptFailed:
		s.retried(v, k, &e, r)
	case task.AttemptStarted:
		if e.TookOver != nil {
			s.tookOver(v, k, e, r)
		} else {
			s.flows(v, k, r)
		}
	case task.AttemptLost:
		s.lost(v, k, &e, r)
	case task.GivenUp:
		s.gaveUp(v, k, &e, r)
	case task.Throttled:
		s.throttled(v, k, &e, r)
	case task.Postponed:
		if e.Reason == "" && r.Fact.By == nil && r.Fact.Actor != scheduler { // an operator has asked for it
			s.remade(v, k, task.Postpone{Asked: true, Due: e.Due, Detail: e.Detail}, r)
			return
		}
		s.ruledOut(v, k, r)
	case task.Collapsed:
		s.remade(v, k, task.Collapse{Params: e.Params, Of: e.Of}, r)
	case task.Reassigned:
		s.leftTo(v, k, r)
	case task.CancelRequested:
		if r.Fact.By != nil && r.Fact.By.Rule != task.RuleLimit {
			s.unruled(v, r)
			return
		}
		s.remade(v, k, task.Judged{Command: task.Cancel{Reason: e.Reason}, By: findings.By(r)}, r)
		v.lines.Stopped(s.id, r, e.Reason)
	case task.CancelConfirmed:
		switch e.Code {
		case value.Limit:
			s.refused(v, k, e.Reason, r)
		case value.Skipped:
			s.ofNeeds(v, k, r)
		default:
			if r.Fact.By != nil && r.Fact.By.Rule != task.RuleLimit {
				s.unruled(v, r)
				return
			}
			v.lines.Stopped(s.id, r, e.Reason)
		}
	case task.Expanded:
		s.expanded(v, k, e, r)
	case task.Concluded:
		s.concluded(v, k, e, r)
	case task.Unheld:
		switch {
		case e.Hold != task.HoldSignal:
			s.ofNeeds(v, k, r)
		case r.Fact.By != nil || r.Fact.Actor == scheduler: // else a person has given it
			s.unruled(v, r)
		case !v.book.Hides(e.Inputs):
			if wrong := k.Awaiting().Forged(r.Fact.Actor, e.Inputs); wrong != nil {
				v.book.Checked[Decisions]++
				s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s opens an approval, and %v", r.Fact.Type, wrong)
			}
		}
	}
}

// reads return, by rule of job.Rules, what was read by the decision that postponed a task, and what
// is true if the rule lets the task start. False says that it cannot be told, or was found wrong.
var reads = map[string]func(*story, *Verifier, *task.Task, *task.By, *events.Record) (read duties.Read, free string, ok bool){
	value.Breaker: (*story).heldBack,
	value.Window:  (*story).shutOut,
	value.PerNode: (*story).crowdedOut,
}

// ruledOut repeats the decision that a rule replaced a start ([duties.Ask]).
func (s *story) ruledOut(v *Verifier, k *task.Task, r *events.Record) {
	by := findings.By(r)
	rule, postpones := job.Postpones(by.Rule)
	switch {
	case postpones && !v.whole() && by.Rule != value.PerNode:
		return
	case !postpones || k.Spec == nil || !rule.Has(k.Spec):
		s.unruled(v, r)
		return
	}
	asked, read, free, ok := *k, duties.Read{}, "the rule lets it start", true
	if of := reads[by.Rule]; of != nil {
		read, free, ok = of(s, v, &asked, &by, r)
	}
	if !ok {
		return
	}
	ruling, err := duties.Ask(&asked, by, read)
	if err != nil || ruling.Command == nil {
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{by.Circuit, r.Seq}, "%s, and %s", r.Fact.Type, free)
		return
	}
	s.remade(v, k, task.Judged{Command: ruling.Command, By: ruling.By}, r)
}

// edition returns what a decision read, of the latest editions by their numbers. False says that it
// is no longer remembered, or was not there.
func edition[T any](s *story, v *Verifier, r *events.Record, latest findings.Latest[T], number uint64, of func(*T) uint64, absent string) (none T, _ bool) {
	is, forgotten := latest.At(number, of)
	switch {
	case forgotten:
		v.book.Forgotten++
	case is == nil:
		v.book.Checked[Decisions]++
		s.found(v, Decisions, []uint64{findings.By(r).Circuit, r.Seq}, "%s was decided by %s", r.Fact.Type, absent)
	default:
		return *is, true
	}
	return none, false
}

// remade repeats the decision of a fact: it must follow from the command, with exactly its inputs.
func (s *story) remade(v *Verifier, k *task.Task, c task.Command, r *events.Record) {
	v.book.Checked[Decisions]++
	event, err := k.Decide(c, r.Fact.At)
	if err != nil {
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s was decided, and decided again it is refused: %v", r.Fact.Type, err)
		return
	}
	if e, opens := event.(task.Unheld); opens && string(e.Inputs) == unchanged {
		// It is told what it was told before, of which only the digest is kept.
		if was, _ := r.Fact.Event.(task.Unheld); v.book.Hides(was.Inputs) || v.tasks.digests.Raw(was.Inputs) == s.now.inputs {
			e.Inputs = was.Inputs
		} else {
			e.Inputs = json.RawMessage(`"what it was told before"`)
		}
		event = e
	}
	is := r.Fact
	is.Event, is.Type, is.By = event, events.TypeOf(event), k.DecidedBy(c, event)
	if is.By != nil && r.Fact.By == nil && reflect.ValueOf(*is.By).IsZero() {
		is.By = nil
	}
	if !v.cfg.Other.None() {
		is.By = r.Fact.By // under other settings the inputs are not compared
	}
	if differ := v.book.Differ(&r.Fact, &is); differ != "" {
		s.found(v, Decisions, []uint64{k.Head, r.Seq}, "%s, decided again from what it names, is another one: %s", r.Fact.Type, differ)
	}
}

// retried repeats the decision whether another attempt follows a failure, and when
// ([job.Retry.Plan]), from the fact's class and exit code, the delay that the task asked for, the
// random number, and whether the task called the failure final.
func (s *story) retried(v *Verifier, k *task.Task, e *task.AttemptFailed, r *events.Record) {
	if !k.Live() || k.Epoch != e.Epoch {
		return // I-3 reports that
	}
	if was := v.tasks.task(s.id, &s.now); e.Class == value.Timeout && stops(&was, r.Fact.At) && !stops(k, r.Fact.At) {
		s.found(v, Decisions, []uint64{r.Seq}, "the attempt would not have been stopped for its run timeout")
		return
	}
	by := findings.By(r)
	s.remade(v, k, task.Fail{
		Epoch: e.Epoch, Class: e.Class, Exit: e.Exit, Message: e.Message, Usage: e.Usage,
		RetryAfter: e.RetryAfter.Std(), Final: by.Final, Chance: by.Drawn, Drawn: e.Drawn,
	}, r)
}
