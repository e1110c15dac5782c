package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"millrace/history/verify/findings"
	"millrace/task"
)

// Row compares a row of a read model with the fold (I-8), in every field; times to the microsecond.
// The read model must reflect at least [Verifier.Last], and every record of the range must have
// been added. A row that reflects a later fact has moved on and is only counted.
//
// In a part of a log, only tasks that were born in it are compared. The row's spec must not be
// modified while rows are added: it is known by its address.
func (v *Verifier) Row(row *task.Task) {
	v.rowsCame = true
	want, cut, ok := v.compared(row.ID)
	if row.Seq > v.last {
		v.rowsOpen++
		return
	}
	if cut || !ok && (!v.whole() || row.State == task.Unknown) { // a late timer of a task that is forgotten leaves a row that says nothing
		return
	}
	v.book.Checked[ReadModel]++
	find := func(format string, args ...any) {
		id := task.ID(strings.Clone(string(row.ID)))
		v.book.Find(ReadModel, Finding{Task: id, Seqs: []uint64{row.Seq}, What: fmt.Sprintf(format, args...),
			Look: "`millrace task show " + string(id) + "` (from the log) beside `millrace task ls`; the read model is made anew if its file is removed"})
	}
	if !ok {
		find("the read model has a row of a task that is not in the log to sequence %d", v.last)
		return
	}
	have := v.tasks.thin(row, &folded{})
	differ := v.tasks.differences(have, want)
	if len(differ) > 0 {
		find("the read model differs from the fold: %s", strings.Join(differ, ", "))
	}
}

// Begins says where the log begins by now: what has ended before may have no row any more.
func (v *Verifier) Begins(seq uint64) { v.drop(seq) }

// RowsEnd says that all rows were added: tasks without one lack it.
func (v *Verifier) RowsEnd() {
	v.rowsCame = true
	missing := func(id task.ID, seq uint64) {
		v.book.Checked[ReadModel]++
		v.book.Find(ReadModel, Finding{Task: id, Seqs: []uint64{seq}, What: "the read model has no row of it",
			Look: "`millrace task show " + string(id) + "` (from the log); the read model is made anew if its file is removed"})
	}
	for id, s := range findings.Sorted(v.tasks.open) {
		if !s.seen && s.now.state != task.Unknown {
			missing(id, s.now.seq)
		}
	}
	for key, e := range v.tasks.packed.all() {
		if !e.seen {
			missing(task.ID(key.String()), e.seq)
		}
	}
}

// differences names the fields in which a row differs from the fold.
func (t *tasks) differences(row, fold folded) (list []string) {
	list = moreDiffers(row.more, fold.more)
	for _, f := range []*folded{&row, &fold} {
		f.spec, f.whole, f.rivals, f.more = 0, nil, nil, "" // the digests cover these, and more was reported
	}
	if row == fold {
		return list
	}
	for _, part := range [][2]reflect.Value{
		{reflect.ValueOf(row.core), reflect.ValueOf(fold.core)},
		{reflect.ValueOf(row.rest), reflect.ValueOf(fold.rest)},
	} {
		for i := range part[0].NumField() {
			if r, f := part[0].Field(i), part[1].Field(i); !r.Equal(f) {
				list = append(list, t.difference(part[0].Type().Field(i).Name, r, f))
			}
		}
	}
	return list
}

// moreDiffers names the differing fields in the output of [moreForm].
func moreDiffers(row, fold string) (list []string) {
	if row == fold {
		return nil
	}
	all := [2]map[string]json.RawMessage{}
	for i, text := range []string{row, fold} {
		if text != "" {
			_ = json.Unmarshal([]byte(text), &all[i]) // we have written it
		}
	}
	for _, name := range moreForm.Names() {
		r, f := all[0][name], all[1][name]
		switch {
		case bytes.Equal(findings.AppendCanonical(nil, r), findings.AppendCanonical(nil, f)):
		case r == nil:
			list = append(list, name+" is missing in the row")
		case f == nil:
			list = append(list, name+" is in the row and not in the log")
		default:
			list = append(list, fmt.Sprintf("%s is %s in the row and %s in the log", name, r, f))
		}
	}
	return list
}

// difference describes how a field of a row differs from the fold.
func (t *tasks) difference(name string, row, fold reflect.Value) string {
	switch {
	case row.Type() != reflect.TypeFor[findings.Digest]():
		return fmt.Sprintf("%s is %s in the row and %s in the log", name, t.shown(row), t.shown(fold))
	case row.IsZero():
		return name + " is missing in the row"
	case fold.IsZero():
		return name + " is in the row and not in the log"
	}
	return name + " is another one in the row than in the log"
}

// shown is a field of [folded] for display.
func (t *tasks) shown(v reflect.Value) string {
	switch v.Type() {
	case reflect.TypeFor[findings.Word]():
		return strconv.Quote(t.words.Text(findings.Word(v.Uint())))
	case reflect.TypeFor[findings.Stamp]():
		if v.Int() == 0 {
			return "none"
		}
		return findings.Stamp(v.Int()).Time().Format(time.RFC3339Nano)
	case reflect.TypeFor[task.State]():
		return task.State(v.Uint()).String()
	}
	return fmt.Sprint(v)
}

// compared returns the fold of a task that has a row, as far as it is kept, and remembers that it
// has one. Cut says that the fold may lack earlier facts.
func (v *Verifier) compared(id task.ID) (f folded, cut, ok bool) {
	if s, ok := v.tasks.open[id]; ok {
		s.seen = true
		return s.now, s.old, s.now.state != task.Unknown
	}
	key, ok := keyOf(id)
	if !ok {
		return f, false, false
	}
	e := v.tasks.packed.get(key)
	if e == nil {
		return f, false, false
	}
	e.seen = true
	return v.tasks.packed.folded(key, e), e.old, true
}
