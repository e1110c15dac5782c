package verify

import (
	"fmt"
	"strings"
	"time"

	"millrace/task"
)

// Row compares a row of a read model with the fold (I-8). The read model must
// reflect at least [Verifier.Last], and every record of the range must have been
// added. A row that reflects a later fact has moved on and is only counted.
//
// In a part of a log only tasks that were born in it are compared.
func (v *Verifier) Row(row *task.Task) {
	v.rowsCame = true
	if row.Seq > v.last {
		v.rowsOpen++
		v.markSeen(row.ID)
		return
	}
	want, cut, ok := v.folded(row.ID)
	if ok {
		v.markSeen(row.ID)
	}
	if cut || !ok && !v.whole() {
		return
	}
	v.checked[ReadModel]++
	find := func(format string, args ...any) {
		id := task.ID(strings.Clone(string(row.ID)))
		v.find(ReadModel, Finding{Task: id, Seqs: []uint64{row.Seq}, What: fmt.Sprintf(format, args...),
			Look: "`millrace task show " + string(id) + "` (from the log) beside `millrace task ls`; the read model is made anew if its file is removed"})
	}
	if !ok {
		find("the read model has a row of a task that is not in the log to sequence %d", v.last)
		return
	}
	var differ []string
	compare := func(name string, same bool, row, fold any) {
		if !same {
			differ = append(differ, fmt.Sprintf("%s is %v in the row and %v in the log", name, row, fold))
		}
	}
	compare("seq", row.Seq == want.Seq, row.Seq, want.Seq)
	compare("state", row.State == want.State, row.State, want.State)
	compare("attempt", row.Attempt == want.Attempt, row.Attempt, want.Attempt)
	compare("epoch", row.Epoch == want.Epoch, row.Epoch, want.Epoch)
	compare("node", row.Node == want.Node, row.Node, want.Node)
	compare("ended_at", stampOf(row.EndedAt) == stampOf(want.EndedAt), row.EndedAt.UTC().Format(time.RFC3339Nano), want.EndedAt.Format(time.RFC3339Nano))
	compare("dismissed", (row.Dismissed != nil) == (want.Dismissed != nil), row.Dismissed != nil, want.Dismissed != nil)
	if len(differ) > 0 {
		find("the read model differs from the fold: %s", strings.Join(differ, ", "))
	}
}

// RowsEnd says that all rows have come: whatever has none is missing.
func (v *Verifier) RowsEnd() {
	v.rowsCame = true
	missing := func(id task.ID, seq uint64) {
		v.checked[ReadModel]++
		v.find(ReadModel, Finding{Task: id, Seqs: []uint64{seq}, What: "the read model has no row of it",
			Look: "`millrace task show " + string(id) + "` (from the log); the read model is made anew if its file is removed"})
	}
	for id, s := range sorted(v.tasks.open) {
		if !s.seen && s.now.state != task.Unknown {
			missing(id, s.now.seq)
		}
	}
	for key, e := range v.tasks.ended {
		if !e.seen {
			missing(task.ID(key.String()), e.seq)
		}
	}
}

// folded is the fold of a task, as far as it is kept. Cut tells that it is not
// the whole fold.
func (v *Verifier) folded(id task.ID) (t task.Task, cut, ok bool) {
	if s, ok := v.tasks.open[id]; ok && s.now.state != task.Unknown {
		return v.tasks.task(id, &s.now), s.old, true
	}
	key, ok := keyOf(id)
	if !ok {
		return t, false, false
	}
	e, ok := v.tasks.ended[key]
	if !ok {
		return t, false, false
	}
	s := e.story(id)
	return v.tasks.task(id, &s.now), s.old, true
}

func (v *Verifier) markSeen(id task.ID) {
	if s, ok := v.tasks.open[id]; ok {
		s.seen = true
		return
	}
	if key, ok := keyOf(id); ok {
		if e, ok := v.tasks.ended[key]; ok {
			e.seen = true
			v.tasks.ended[key] = e
		}
	}
}
