package verify

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// Claims of unique keys are repeated from the claim before, and from the known states of earlier
// claimants: whether one of them blocks the key, and which of them the next claim must check. The
// log does not show whether a claimant waited for one that was not born yet.

// keyClaim is the last claim of a key.
type keyClaim struct {
	seq    uint64
	holder task.ID
	before []task.ID
}

// claimFact repeats a claim of a unique key and records it.
func (v *Verifier) claimFact(r *events.Record) {
	if birth.IsRoomKey(r.Fact.Key) {
		return // it announces births, and locks nothing
	}
	e, ok := r.Fact.Event.(birth.KeyClaimed)
	if r.Err != nil || !ok {
		v.claims[v.tasks.words.Number(r.Fact.Key)] = keyClaim{seq: r.Original()} // an unreadable claim claims nothing
		return
	}
	key := v.tasks.words.Number(r.Fact.Key)
	if last := v.claims[key]; v.book.Asked(Decisions) && v.whole() {
		v.claimAgain(&last, key, &e, r)
	}
	c := keyClaim{seq: r.Original(), holder: task.ID(strings.Clone(string(e.Holder))), before: slices.Clone(e.Before)}
	for i := range c.before {
		c.before[i] = task.ID(strings.Clone(string(c.before[i])))
	}
	v.claims[key] = c
	if id, ok := keyOf(c.holder); ok {
		v.births.claimed[id] = key
	}
}

func (v *Verifier) claimAgain(last *keyClaim, key findings.Word, e *birth.KeyClaimed, r *events.Record) {
	by, lapsed := findings.By(r), false
	wrong := func(what string) {
		v.book.Find(Decisions, Finding{Task: task.ID(strings.Clone(string(e.Holder))), Seqs: []uint64{last.seq, r.Seq},
			What: string(r.Fact.Type) + " of key " + strings.Clone(r.Fact.Key) + ", decided again from what it names, is another one: " + what,
			Look: findings.Show(r.Seq)})
	}
	if len(by.Ends) == 0 && last.seq < v.horizon.Below {
		last = &keyClaim{} // the log has forgotten it, for it locked nothing
	}
	var ids []task.ID
	if last.holder != "" {
		ids = []task.ID{last.holder}
		if lapsed = by.Rule == task.RuleLapsed; lapsed {
			ids = append(ids, last.before...)
		}
	}
	v.book.Checked[Decisions]++
	if len(by.Ends) != len(ids) {
		wrong("it does not name the claimants before")
		return
	}
	known := make([]birth.Claimant, len(ids))
	for i, id := range ids {
		c, overtaken, there := v.claimant(id, by.Ends[i], key, r.Fact.Key)
		if !there {
			wrong(fmt.Sprintf("there is no message of task %s at %d", id, by.Ends[i]))
			return
		}
		if overtaken {
			v.book.Checked[Decisions]--
			v.book.Overtaken++
			return
		}
		known[i] = c
	}
	terms := by.Unique
	if terms == nil {
		terms = &job.Unique{}
	}
	next, taken, more := birth.NextClaim(terms, e.Holder, r.Fact.Key, last.seq, known, lapsed, r.Fact.At)
	switch {
	case taken != nil:
		wrong("task " + string(taken.ID) + " had it and was " + taken.State.String())
	case more:
		wrong("task " + string(last.holder) + ", which had claimed it, was to be waited for")
	default:
		is := r.Fact
		is.Event = next
		if what := v.book.Differ(&r.Fact, &is); what != "" {
			wrong(what)
		}
	}
}

// claimant is a task as of its message at a sequence, 0 for none; whether it has moved on since,
// and whether it has such a message.
func (v *Verifier) claimant(id task.ID, seq uint64, key findings.Word, name string) (c birth.Claimant, overtaken, there bool) {
	o := v.tasks.known(id)
	switch {
	case o == nil || o.now.seq == 0:
		return birth.Claimant{ID: id}, false, seq == 0
	case seq > o.now.seq:
		return c, false, false
	case seq < o.now.seq:
		return c, true, true
	}
	c = birth.Claimant{ID: id, State: o.now.state, Submitted: o.now.submitted.Time(), Born: cmp.Or(o.kin.claimed, o.bornAt), Seq: seq}
	if k := v.tasks.task(id, &o.now); k.Spec != nil && k.Spec.Collapse != nil {
		c.Takes = k.Takes()
	}
	if o.key == key {
		c.Key = name
	}
	return c, false, true
}
