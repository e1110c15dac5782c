package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/history/verify/findings"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
)

// The promises about ids and keys. All births of one id ask for the same; otherwise the log holds a
// submission that never ends by itself (I-2). The work that ran is that of the first birth. A
// derived id is born from its schedule or parent, and after it (I-7). Of tasks with one unique key,
// one blocks all others (I-4).

// births is the verifier's memory of ids and keys.
type births struct {
	// expected are the children of expanded parents that are not born yet.
	expected map[ulid.ULID]struct{}
	holders  map[findings.Word][]holder // by the number of the key
	// claimed are the claims of unique keys whose tasks are not born yet.
	claimed map[ulid.ULID]findings.Word
}

// holder is a task with a unique key.
type holder struct {
	id     task.ID
	seq    uint64
	born   time.Time
	unique *job.Unique
}

func newBirths() births {
	return births{expected: map[ulid.ULID]struct{}{}, holders: map[findings.Word][]holder{}, claimed: map[ulid.ULID]findings.Word{}}
}

// wish is the content of a birth, as digests.
type wish struct {
	work         findings.Digest
	route, holds findings.Word
}

// wish distinguishes births that ask for different things. Dates and authors do not matter.
func (t *tasks) wish(e *task.Submitted) wish {
	return wish{t.digests.Work(&task.Task{Work: e.Work, RetryOf: e.RetryOf}), t.words.Number(string(e.Route)), t.words.Number(strings.Join(e.Holds, ","))}
}

// firstWish is [tasks.wish] of a birth that its task's fold has read a moment ago. If the task had
// no state before, the fold has the digest of the work.
func (s *story) firstWish(t *tasks, e *task.Submitted, r *events.Record) wish {
	if t.firstAt != r.Seq {
		return t.wish(e)
	}
	return wish{s.now.work, t.words.Number(string(e.Route)), t.words.Number(strings.Join(e.Holds, ","))}
}

// forgive removes a rival that asks for the same as the task's birth. The fold compares the births
// themselves; here there are only digests of them.
func (t *tasks) forgive(k *task.Task, was *folded) {
	n := len(k.Rivals)
	if n == 0 || was.rivals != nil && len(*was.rivals) == n {
		return
	}
	other := &k.Rivals[n-1]
	same := t.wish(&task.Submitted{Work: other.Work, RetryOf: other.RetryOf})
	if same == (wish{was.work, was.route, was.holds}) && other.Due.Equal(was.due.Time()) {
		k.Rivals = k.Rivals[:n-1]
	}
}

// again checks a second birth of the task.
func (s *story) again(v *Verifier, e *task.Submitted, r *events.Record) {
	s.repeated = r.Seq
	if s.turn == 0 && s.end == 0 {
		if s.reborn == nil {
			s.reborn = &[]rebirth{}
		}
		*s.reborn = append(*s.reborn, rebirth{r.Seq, e.StartBy, e.EndBy})
	}
	if s.birth != (wish{}) && v.tasks.wish(e) != s.birth {
		s.rivals = append(s.rivals, r.Seq)
		s.found(v, OneEnd, []uint64{s.bornAt, r.Seq}, "submitted again at %d with another specification: one id has one birth", r.Seq)
	}
}

// bound checks that the first claim is of the birth that counts, or of one that asks for the same: then
// that one does.
func (s *story) bound(v *Verifier, e *task.AttemptStarted, r *events.Record) {
	if s.turn == 0 && s.attempt == 0 && s.reborn != nil && slices.ContainsFunc(*s.reborn, func(b rebirth) bool { return b.seq == e.Offer }) {
		s.kin.claimed = e.Offer
	}
	if len(s.rivals) == 0 || s.attempt > 0 || !slices.Contains(s.rivals, e.Offer) {
		return
	}
	v.book.Find(OneEnd, Finding{Task: s.id, Seqs: []uint64{s.bornAt, e.Offer, r.Seq},
		What: fmt.Sprintf("what ran is the work of the birth at %d, and the first birth is at %d", e.Offer, s.bornAt),
		Look: "`millrace task events " + string(s.id) + "`"})
}

// derived checks that the birth of a derived id comes from its origin.
func (s *story) derived(v *Verifier, e *task.Submitted, r *events.Record) {
	if !s.id.Derived() {
		return
	}
	v.book.Checked[CauseFirst]++
	switch {
	case e.Schedule != "":
		if schedule.TaskID(e.Schedule, e.Tick) != s.id {
			s.found(v, CauseFirst, []uint64{r.Seq}, "born as the task of the planned run %s of schedule %s, which has another id", when(findings.StampOf(e.Tick)), e.Schedule)
		} else if v.whole() && e.Trigger != task.TriggerBackfill && !v.ticks.Admitted(e.Schedule, e.Tick) {
			s.found(v, CauseFirst, []uint64{r.Seq}, "born as the task of the planned run %s of schedule %s before that was given one", when(findings.StampOf(e.Tick)), e.Schedule)
		}
	case e.Trigger == task.TriggerEnd:
		if schedule.FollowingID(e.Job, &e.Origin) != s.id || e.Ended >= r.Seq || v.whole() && v.tasks.state(e.After) == task.Unknown {
			s.found(v, CauseFirst, []uint64{e.Ended, r.Seq}, "born as what follows from the end of task %s, and has another id, or there was no such end", e.After)
		}
	case e.MadeBy != "":
		if schedule.FollowingID(e.Job, &e.Origin) != s.id {
			s.found(v, CauseFirst, []uint64{r.Seq}, "born of %s, and has another id", e.MadeBy)
		}
	case e.Parent == "" && r.Fact.Actor == events.PartServer: // a notice, which follows from what it tells
	case e.Parent == "":
		s.found(v, CauseFirst, []uint64{r.Seq}, "its id is of the form that planned runs and children have, and it names neither a schedule nor a parent")
	case !v.whole():
	default:
		if key, ok := keyOf(s.id); ok {
			if _, ok := v.births.expected[key]; ok {
				delete(v.births.expected, key)
				return
			}
		}
		if !v.tasks.ran(e.Parent) || s.id[:10] != e.Parent[:min(10, len(e.Parent))] {
			s.found(v, CauseFirst, []uint64{r.Seq}, "born as a child of task %s, which has not made it", e.Parent)
		}
	}
}

// expects records the children that a parent is about to have.
func (b *births) expects(parent task.ID, names []string) {
	for _, name := range names {
		if key, ok := keyOf(birth.ChildID(parent, name)); ok {
			b.expected[key] = struct{}{}
		}
	}
}

// ran tells whether a task has ever had an attempt, so that its program may have spawned children.
func (t *tasks) ran(id task.ID) bool {
	if s, ok := t.open[id]; ok {
		return len(s.attempts) > 0
	}
	key, ok := keyOf(id)
	if !ok {
		return false
	}
	e := t.packed.get(key)
	return e != nil && e.epoch > 0
}

// state is the progress of a task.
func (t *tasks) state(id task.ID) task.State {
	if s, ok := t.open[id]; ok {
		return s.now.state
	}
	if key, ok := keyOf(id); ok {
		if e := t.packed.get(key); e != nil {
			return e.state
		}
	}
	return task.Unknown
}

// holds checks that no other live task has the unique key of a task that is born or reopened.
func (s *story) holds(v *Verifier, w *task.Work, r *events.Record) {
	if w.Spec == nil || w.Spec.Lock().Key == "" {
		return
	}
	key, err := w.UniqueKey()
	if err != nil {
		return
	}
	s.key = v.tasks.words.Number(key)
	unique := *w.Spec.Lock() // a copy, because the record's memory is reused
	unique.Key, unique.While = "", slices.Clone(unique.While)
	for i := range unique.While {
		unique.While[i] = strings.Clone(unique.While[i])
	}
	if w.Spec.Collapse == nil { // two tasks that might have been one do no harm
		v.hold(s, holder{s.id, r.Seq, r.Fact.At, &unique}, r)
	}
	id, ok := keyOf(s.id)
	if !ok || !v.whole() {
		return
	}
	v.book.Checked[CauseFirst]++
	claimed, there := v.births.claimed[id]
	if !there || claimed != s.key && !v.book.HidesText(w.Spec.Lock().Key) {
		s.found(v, CauseFirst, []uint64{r.Seq}, "born with the unique key %q, which it had not claimed", key)
	}
	delete(v.births.claimed, id)
}

// livesAgain is holds for a reopened task.
func (s *story) livesAgain(v *Verifier, r *events.Record) {
	if s.key == 0 {
		return
	}
	all := v.births.holders[s.key]
	if i := slices.IndexFunc(all, func(h holder) bool { return h.id == s.id }); i >= 0 {
		v.hold(s, all[i], r)
	}
}

func (v *Verifier) hold(s *story, h holder, r *events.Record) {
	v.book.Checked[Limits]++
	all := v.births.holders[s.key]
	kept := all[:0]
	for _, other := range all {
		if other.id == s.id {
			continue
		}
		t := task.Task{State: v.tasks.state(other.id), SubmittedAt: other.born}
		if birth.Locks(&t, h.unique, r.Fact.At) {
			s.found(v, Limits, []uint64{other.seq, r.Seq}, "it and task %s live with the unique key %q at once", other.id, v.tasks.words.Text(s.key))
		}
		kept = append(kept, other)
	}
	v.births.holders[s.key] = append(kept, h)
}
