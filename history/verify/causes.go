package verify

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
)

// queued checks an offer (I-7): its turn has begun, and it names the attempt that was planned then.
// It may be stale, and there may be several. Whether it came before it was due is not judged,
// because clocks of hosts differ.
func (s *story) queued(v *Verifier, e task.Queued, r *events.Record) {
	v.book.Checked[CauseFirst]++
	if !s.born && len(s.limit) == 0 {
		s.limit = v.terms.Of(&e.Work)
	}
	s.offered(v, e.After, r)
	i := slices.IndexFunc(s.turns, func(t turn) bool { return t.since == e.After && t.due == findings.StampOf(e.Due) })
	if i < 0 {
		i = slices.IndexFunc(s.turns, func(t turn) bool { return t.since == e.After })
	}
	switch {
	case i < 0 && (v.before(e.After) || !s.born):
	case i < 0 && e.After == 0 && s.undue:
		s.planned(v, e, r, turn{attempt: 1})
	case i < 0:
		s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "an offer for the turn since %d, where no turn of the task had begun", e.After)
	case e.After == 0 && s.undue && e.Due.IsZero():
	default:
		s.planned(v, e, r, s.turns[i])
	}
}

// offered records an offer for a turn, from any component or timer.
func (s *story) offered(v *Verifier, after uint64, r *events.Record) {
	if s.cut {
		s.turn = max(s.turn, after)
	}
	first := !slices.ContainsFunc(s.offers, func(o offer) bool { return o.after == s.turn })
	if after == s.turn && first && s.byOthers && s.open == 0 && s.end == 0 && r.Fact.Actor == scheduler {
		v.repairs++
	}
	if s.end == 0 {
		s.offers = append(s.offers, offer{r.Seq, after})
	}
}

// due checks a timer's message (I-7): it refers to a turn that has begun, on the route where the
// task waits, at its due time. It may be stale, and there may be several. A client with the
// permission to set timers can set any, so a message that refers to nothing proves that a client
// did. It is not an offer, and a claim under it is found as well.
func (s *story) due(v *Verifier, e task.Due, r *events.Record) {
	v.book.Checked[CauseFirst]++
	i := slices.IndexFunc(s.turns, func(t turn) bool { return t.since == e.After })
	if i < 0 {
		if !v.before(e.After) && s.born && (e.After > 0 || !s.undue) {
			s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "a timer for the turn since %d, where no turn of the task had begun", e.After)
			return
		}
		s.offered(v, e.After, r)
		return
	}
	t := &s.turns[i]
	// In a part of a log, an earlier birth with another route and date may count.
	now := v.whole() && e.After == s.turn && s.end == 0 && !s.cut && len(s.rivals) == 0
	switch {
	case now && s.now.route != 0 && v.tasks.words.Number(string(e.Route)) != s.now.route:
		s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "a timer offers it on %s, where it does not wait", e.Route)
	case now && !s.dueAt(e.After, findings.StampOf(e.Due)):
		s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "a timer for %s, and what it refers to is due at %s", when(findings.StampOf(e.Due)), when(t.due))
	case now && t.due > findings.StampOf(r.Stored.Add(task.TimerError)):
		s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "a timer has fired at %s, and what it refers to is due at %s", when(findings.StampOf(r.Stored)), when(t.due))
		s.offered(v, e.After, r) // it may be claimed once the time has come
	default:
		s.offered(v, e.After, r)
	}
}

// dueAt tells whether a turn of the task was planned for a time. Births that differ only in that have
// a turn each.
func (s *story) dueAt(since uint64, due findings.Stamp) bool {
	return slices.ContainsFunc(s.turns, func(t turn) bool { return t.since == since && (t.due == due || t.due == anyDue) })
}

func (s *story) planned(v *Verifier, e task.Queued, r *events.Record, t turn) {
	switch {
	case t.attempt != unknown && int32(e.Attempt) != t.attempt:
		s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "attempt %d is offered, and attempt %d was planned at %d", e.Attempt, t.attempt, e.After)
	case t.since == 0 && !v.whole(): // another birth, with another time, may lie before the range
	case t.due != anyDue && findings.StampOf(e.Due) != t.due:
		s.found(v, CauseFirst, []uint64{e.After, r.Seq}, "offered for %s, and planned for %s at %d", when(findings.StampOf(e.Due)), when(t.due), e.After)
	}
}

// causes checks the field cause of facts: the fact that it names comes before.
type causes struct {
	seed    maphash.Seed
	seen    findings.Set      // hashes of the ids of facts
	missing map[string]effect // causes that were named and not read yet
}

// effect is a fact that names its cause.
type effect struct {
	seq  uint64
	task task.ID
}

func (c *causes) visit(v *Verifier, r *events.Record) {
	if !v.book.Asked(CauseFirst) {
		return
	}
	f := &r.Fact
	c.seen.Add(maphash.String(c.seed, f.ID))
	if len(c.missing) > 0 {
		if e, ok := c.missing[f.ID]; ok && r.Fact.Repeats > 0 {
			delete(c.missing, f.ID)
		} else if ok {
			delete(c.missing, f.ID)
			v.book.Find(CauseFirst, Finding{Task: e.task, Seqs: []uint64{r.Seq, e.seq},
				What: fmt.Sprintf("the event at %d names as its cause one that comes after it, at %d", e.seq, r.Seq),
				Look: findings.Show(e.seq) + " and " + findings.Show(r.Seq)})
		}
	}
	if f.Cause == "" {
		return
	}
	v.book.Checked[CauseFirst]++
	if !c.seen.Has(maphash.String(c.seed, f.Cause)) || f.Cause == f.ID {
		c.missing[strings.Clone(f.Cause)] = effect{r.Seq, task.ID(strings.Clone(string(f.Task)))}
	}
}

// end reports missing causes. In a part of a log they may lie before it.
func (c *causes) end(v *Verifier) {
	if !v.whole() {
		return
	}
	for cause, e := range findings.Sorted(c.missing) {
		v.book.Find(CauseFirst, Finding{Task: e.task, Seqs: []uint64{e.seq},
			What: fmt.Sprintf("the event at %d names as its cause %s, which the log does not hold before it", e.seq, cause),
			Look: findings.Show(e.seq)})
	}
}

// dismissed takes an unreadable message off the list. The dismissed message comes before the
// dismissal (I-7); this version may be able to read it.
func (v *Verifier) dismissed(r *events.Record) {
	if _, ok := r.Fact.Event.(task.MessageDismissed); !ok {
		return
	}
	v.book.Checked[CauseFirst]++
	if seq := r.Fact.Message; seq >= r.Seq {
		v.book.Find(CauseFirst, Finding{Seqs: []uint64{seq, r.Seq},
			What: fmt.Sprintf("the event at %d dismisses a message that comes after it, at %d", r.Seq, seq),
			Look: findings.Show(r.Seq)})
		return
	}
	delete(v.poison, r.Fact.Message)
}

// dismissed checks that the task ended abnormal: only such a task is a dead letter (I-7).
func (s *story) dismissed(v *Verifier, r *events.Record) {
	v.book.Checked[CauseFirst]++
	switch {
	case s.end == 0 && !s.cut:
		s.found(v, CauseFirst, []uint64{r.Seq}, "dismissed as a dead letter, and it has not ended")
	case s.result:
		s.found(v, CauseFirst, []uint64{s.end, r.Seq}, "dismissed as a dead letter, and its result was accepted at %d", s.end)
	}
}

// maxPoisonSeqs is how many sequences of unreadable messages a report names, and of those that were
// stored before an earlier one.
const maxPoisonSeqs = 20

// poisonSeqs returns the first unreadable messages.
func (v *Verifier) poisonSeqs() []uint64 {
	seqs := slices.Sorted(maps.Keys(v.poison))
	return seqs[:min(len(seqs), maxPoisonSeqs)]
}
