package verify

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
)

// I-7 for definitions: the revisions count up one by one, and a revision named by a task or a
// decision on a tick existed before. I-8: the copies that people see equal the log.

// remembered is the verifier's memory of a definition.
type remembered struct {
	is      task.Definition // its Text only says that there is one
	digest  string          // of the text
	stored  time.Time
	removed []uint64 // revisions that were removals
	seen    bool     // its copy was added
}

// someText stands for a text that is not kept.
var someText = json.RawMessage("{}")

// defined checks a change of a definition.
func (v *Verifier) defined(r *events.Record, e task.DefinitionEvent) {
	key := r.Fact.Def
	d, known := v.definitions[key]
	if !known {
		d = &remembered{}
		key = task.Def(strings.Clone(string(key))) // the record's memory is reused
		v.definitions[key] = d
	}
	if known || v.whole() {
		v.book.Checked[CauseFirst]++
		if err := d.is.Follows(e); err != nil {
			v.book.Find(CauseFirst, Finding{
				Seqs: []uint64{d.is.Head, r.Seq},
				What: fmt.Sprintf("a change of %s %s: %v", key.Kind(), key.Name(), err),
				Look: fmt.Sprintf("`millrace events show %d`", r.Seq),
			})
		}
	}
	v.calendar(key, r.Fact.At, e)
	d.is = task.EvolveDefinition(d.is, r.Seq, r.Fact.At, "", e)
	d.stored, d.digest = r.Stored, ""
	if d.is.Exists() {
		d.digest = task.DigestOf(d.is.Text)
		d.is.Text, d.is.Digest = someText, ""
	} else {
		d.removed = append(d.removed, d.is.Revision)
	}
}

// revisionsOf checks the revisions that a fact names.
func (v *Verifier) revisionsOf(r *events.Record) {
	switch e := r.Fact.Event.(type) {
	case task.DefinitionEvent:
		v.defined(r, e)
	case task.Submitted:
		if e.Job != "" {
			v.names(r, task.Named(task.DefJob, e.Job), e.Revision)
		}
	case task.ScheduleAdmitted:
		v.names(r, task.Named(task.DefSchedule, r.Fact.Schedule), e.Revision)
	case task.ScheduleSkipped:
		v.names(r, task.Named(task.DefSchedule, r.Fact.Schedule), e.Revision)
	case task.ScheduleQueued:
		v.names(r, task.Named(task.DefSchedule, r.Fact.Schedule), e.Revision)
	}
}

// names checks that a named revision existed before; 0 names none.
func (v *Verifier) names(r *events.Record, key task.Def, revision uint64) {
	d := v.definitions[key]
	if revision == 0 || !v.whole() && (d == nil || d.is.Revision < revision) {
		return // it may lie before the range
	}
	v.book.Checked[CauseFirst]++
	if d != nil && revision <= d.is.Revision && !slices.Contains(d.removed, revision) {
		return
	}
	v.book.Find(CauseFirst, Finding{Task: task.ID(strings.Clone(string(r.Fact.Task))), Seqs: []uint64{r.Seq},
		What: fmt.Sprintf("it names revision %d of %s %s, which is not there before it", revision, key.Kind(), key.Name()),
		Look: fmt.Sprintf("`millrace events show %d`", r.Seq)})
}

// Copy compares a copy of a definition with the log (I-8), under its key, such as job.hello. All
// records must have been added. A copy of a later revision has moved on, and one of a definition
// that was changed within the margin may be late: these are only counted. A server's copy of a
// definition that the log does not know is the remainder of a lost log, which a note says.
func (v *Verifier) Copy(key task.Def, c task.Copied) {
	d := v.definitions[key]
	if d != nil {
		d.seen = true
	}
	switch {
	case d == nil && !v.whole():
		return
	case d == nil && len(c.Text) == 0:
		return
	case d == nil && c.Revision > 0:
		v.book.Note(ReadModel, "the copy %.200s is left of a log that was lost", key)
		return
	case d != nil && c.Revision > d.is.Revision, d != nil && c.Revision < d.is.Revision && v.fresh(d):
		v.rowsOpen++
		return
	}
	v.book.Checked[ReadModel]++
	switch {
	case d == nil:
		v.copied(key, 0, "is of no definition in the log")
	case len(c.Text) == 0 && d.is.Exists():
		v.copied(key, d.is.Head, "was removed")
	case len(c.Text) > 0 && task.DigestOf(c.Text) != d.digest:
		v.copied(key, d.is.Head, "differs from the log")
	}
}

// CopiesEnd says that all copies were added: definitions without one lack it.
func (v *Verifier) CopiesEnd() {
	for key, d := range v.definitions {
		if d.is.Exists() && !d.seen && !v.fresh(d) {
			v.book.Checked[ReadModel]++
			v.copied(key, d.is.Head, "is missing")
		}
	}
}

// fresh tells whether a definition was changed so recently that its copy may be missing.
func (v *Verifier) fresh(d *remembered) bool { return v.stored.Sub(d.stored) < v.cfg.Margin }

func (v *Verifier) copied(key task.Def, seq uint64, what string) {
	f := Finding{What: fmt.Sprintf("the copy of a definition, %.200s, %s", key, what),
		Look: "`nats kv get MR_DEFS` beside `millrace job show` or `millrace schedule show` (from the log); a server sets copies back"}
	if seq > 0 {
		f.Seqs = []uint64{seq}
	}
	v.book.Find(ReadModel, f)
}
