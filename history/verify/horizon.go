package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/node"
)

// A log that forgets has carried all that lived in front of its horizon. What is carried says what the
// facts before it say (I-11), counts with the fact behind it (I-7), and nothing else is left of a task that
// had not ended (I-2). A log that begins at its horizon is judged from what was carried on.

// carries takes a carried task.
func (v *Verifier) carries(s *story, c task.Carried, r *events.Record) {
	v.carried = &task.Carriage{Seq: r.Seq, After: s.now.seq, Carried: *findings.Own(&c)}
	v.carried.Fold.ID = s.id
}

// uncarried reports a carried task that the record behind it does not make count.
func (v *Verifier) uncarried(r *events.Record) {
	c := v.carried
	if c == nil {
		return
	}
	v.book.Checked[CauseFirst]++
	if r != nil && r.Kind == events.KindChain && r.Fact.Task == c.Fold.ID && r.Seq == c.Seq+1 {
		if _, kept := r.Fact.Event.(task.Kept); kept {
			return
		}
	}
	v.carried = nil
	v.book.Find(CauseFirst, Finding{Task: c.Fold.ID, Seqs: []uint64{c.Seq}, What: "it is carried, and no event on its chain says so directly behind", Look: findings.Show(c.Seq)})
}

// keeps returns the carried task that a fact makes count, and compares it with the facts before, if the
// range has them all.
func (s *story) keeps(v *Verifier, k *task.Task, r *events.Record) *task.Carriage {
	c := v.carried
	if v.carried = nil; c == nil {
		if !v.before(r.Seq - 1) {
			s.found(v, CauseFirst, []uint64{r.Seq}, "%s, and nothing is carried directly before it", r.Fact.Type)
		}
		return nil
	}
	v.book.Checked[Decisions]++
	if !s.born || s.old || s.cut || c.After > c.Fold.Seq {
		return c // what was before is not known, or an offer has come since it was read
	}
	have, want := v.tasks.thin(&c.Fold, &folded{}), s.now
	if have.seq, want.seq = c.After, c.After; len(v.tasks.differences(have, want)) > 0 {
		s.found(v, Decisions, []uint64{c.Seq, r.Seq}, "what is carried differs from the events before: %s", strings.Join(v.tasks.differences(have, want), ", "))
	}
	return c
}

// keptNode compares a carried node with the facts before.
func (v *Verifier) keptNode(was node.Node, r *events.Record) {
	c, ok := r.Fact.Event.(node.Carried)
	if !ok || !v.whole() || was.Head == 0 {
		return
	}
	v.book.Checked[Decisions]++
	c.Fold.Head = was.Head
	have, _ := json.Marshal(&c.Fold) // both came from JSON
	want, _ := json.Marshal(&was)
	if !bytes.Equal(have, want) {
		v.book.Find(Decisions, Finding{Node: was.ID, Seqs: []uint64{was.Head, r.Seq}, What: "what is carried of the node differs from the events before", Look: findings.Show(r.Seq)})
	}
}

// resumes makes what was carried the story of a task whose beginning the log has forgotten.
func (s *story) resumes(v *Verifier, c *task.Carriage) {
	is, birth := &c.Fold, c.Birth()
	offers, seen := s.offers, s.seen
	open, on := s.open, s.openOn
	*s = story{id: s.id, spot: s.spot, now: s.now, kept: s.kept, offers: offers, turns: s.turns, attempts: s.attempts} // late words are of those in the range, too
	s.born, s.seen, s.child, s.bornAt = true, seen, is.Parent != "", c.Born.Seq
	s.birth, s.kin.needs = v.tasks.wish(&birth), v.tasks.wants(is.Needs)
	s.kin.copied = v.tasks.digests.Text(string(is.RetryOf))
	if birth.Spec.Guarded() {
		s.job = v.tasks.words.Number(birth.Job)
	}
	s.limit, s.kin.onNode = v.terms.Of(s.work(v, &birth.Work)), v.terms.OnNode(&birth.Work)
	s.undue = birth.Offers() && !c.Born.Chain
	s.carriedSteps(v, is)
	s.attempt, s.turn, s.asked = int32(is.Attempt), is.Turn, is.CancelAsked != nil
	if is.Epoch > 0 && s.attemptAt(is.Epoch) == nil {
		s.attempts = append(s.attempts, attempt{epoch: is.Epoch, number: int32(is.Attempt), on: v.tasks.words.Number(is.Node)})
	}
	switch {
	case is.State.Terminal():
		s.end, s.result, s.offers = is.Head, is.State == task.Finished, nil
		if is.EndSeq > 0 {
			s.end = is.EndSeq
		}
	case is.Waiting():
		s.turns = append(s.turns, turn{since: is.Turn, due: anyDue, attempt: int32(is.Attempt) + 1})
	case is.Epoch > 0:
		s.open, s.openOffer, s.openOn, s.held = is.Epoch, is.Offer, v.session(is.Node, is.Session), nanoseconds(is.StartedAt)
		if open == is.Epoch { // it began in the range
			s.openOn = on
			return
		}
		v.running.Enter(s.openOn, s.kin.onNode, is.Epoch, v.tasks.specs.spec(s.now.spec).Cost())
		v.running.Occupy(s.id, s.limit, is.Epoch)
	}
}

// retold takes a fact that says again what an earlier one in the range has said: only the end of its
// chain has moved.
func (v *Verifier) retold(r *events.Record) {
	switch r.Kind {
	case events.KindDefinition:
		if d := v.definitions[r.Fact.Def]; d != nil {
			d.is.Head = r.Seq
		}
	case events.KindLimit:
		v.grants(r)
	}
}

// horizonFact takes a step of the horizon.
func (v *Verifier) horizonFact(r *events.Record) {
	e, ok := r.Fact.Event.(task.HorizonEvent)
	if r.Err != nil || !ok {
		return
	}
	was := v.horizon
	v.horizon = task.EvolveHorizon(was, r.Seq, r.Fact.At, e)
	switch e := e.(type) {
	case task.HorizonCarried:
		if !v.whole() && e.Below == v.cfg.From { // an earlier horizon has left what a later one carries
			v.complete = r.Seq
		}
	case task.HorizonPurged:
		v.book.Checked[CauseFirst]++
		if was.Head > 0 && (was.Step != task.HorizonClosed || was.Below != e.Below) {
			v.book.Find(CauseFirst, Finding{Seqs: []uint64{was.Head, r.Seq}, Look: findings.Show(r.Seq),
				What: fmt.Sprintf("the log has forgotten what lay below %d before all was carried that lived there", e.Below)})
		}
		v.forgets(e.Below, r)
	}
}

// forgets drops the tasks that the log has forgotten, and reports those that had not ended.
func (v *Verifier) forgets(below uint64, r *events.Record) {
	for _, s := range v.tasks.unended() {
		if s.now.seq < below && s.born && s.end == 0 && !s.lone {
			s.found(v, OneEnd, []uint64{s.now.seq, r.Seq}, "the log has forgotten it, all below %d, and it had not ended: it was %s", below, s.now.state)
			v.tasks.put(s)
		}
	}
	v.drop(below)
}

// drop forgets the ended tasks whose last message lies below a sequence.
func (v *Verifier) drop(below uint64) {
	maps.DeleteFunc(v.tasks.open, func(_ task.ID, s *story) bool {
		gone := s.now.seq < below && (s.end != 0 || s.lone)
		if gone && s.born && s.spot.fits && !s.spot.taken {
			v.tasks.packed.assign(s.spot.key) // that it was there, is known
		}
		return gone
	})
	v.tasks.packed.forget(below)
}

// forget drops the ended tasks whose last message lies below a sequence.
func (t *packedTasks) forget(below uint64) {
	for place := range t.places {
		if e := t.at(place); !e.away && e.end != 0 && e.seq < below {
			delete(t.odd, e.id)
			*e = packed{id: e.id, away: true}
			t.size--
		}
	}
}

// forgotten tells whether the task was in the range, and the log has forgotten it.
func (s *story) forgotten() bool { return !s.born && !s.kept && s.spot.taken }

// strange reports a fact of a task of which the log has neither a birth nor what was carried, though all
// that lived was.
func (s *story) strange(v *Verifier, r *events.Record) {
	if s.born || s.lone || v.complete == 0 || r.Seq <= v.complete || r.Kind != events.KindChain {
		return
	}
	v.book.Checked[OneEnd]++
	s.found(v, OneEnd, []uint64{v.complete, r.Seq}, "%s of a task that the log has forgotten: by %d all was carried that lived", r.Fact.Type, v.complete)
}

// outlived checks that a task that a worker has ended because the log had forgotten it was born before
// the horizon.
func (s *story) outlived(v *Verifier, r *events.Record) {
	v.book.Checked[Decisions]++
	if born := s.now.submitted.Time(); v.horizon.Head > 0 && !v.horizon.Older(born) {
		s.found(v, Decisions, []uint64{v.horizon.Head, r.Seq}, "it ended as older than what the log keeps, and its birth of %s is not older than %s",
			born.UTC().Format(time.RFC3339Nano), v.horizon.Before.UTC().Format(time.RFC3339Nano))
	}
}

// horizonNotes are the notes of a log that has forgotten something.
func (v *Verifier) horizonNotes() {
	switch {
	case v.horizon.Head == 0:
	case v.whole():
		v.book.Note(OneEnd, "the log forgets what ended before #%d", v.horizon.Below)
	default:
		v.book.Note(OneEnd, "the log begins at its horizon: tasks from before %d are judged from what was carried", v.cfg.From)
	}
}
