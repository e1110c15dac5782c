package projections

import (
	"fmt"
	"time"

	"millrace/events"
	"millrace/internal/form"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
)

// column is a column of table tasks.
type column struct {
	name, kind string
	of         func(t *task.Task) any
}

// columns are the columns of a task besides its document: the values that filters use. Queries
// never search in the document.
var columns = []column{
	{"id", "TEXT NOT NULL PRIMARY KEY", func(t *task.Task) any { return string(t.ID) }},
	{"state", "INTEGER", func(t *task.Task) any { return int64(t.State) }},
	{"queue", "TEXT", func(t *task.Task) any { return t.Route.Queue() }},
	{"job", "TEXT", func(t *task.Task) any { return t.Job }},
	{"node", "TEXT", func(t *task.Task) any { return t.Node }},
	// The last message applied, which the document has as well: its form lies on disks.
	{"seq", "INTEGER", func(t *task.Task) any { return int64(t.Seq) }},
	// Since when the task is pending, NULL if it is not.
	{"waits", "INTEGER", func(t *task.Task) any { return micros(t.Since, t.State == task.Pending) }},
	// When busy nodes must have taken it, NULL if its job does not say.
	{"assign", "INTEGER", func(t *task.Task) any { by := t.AssignBy(); return micros(by, !by.IsZero()) }},
	// The task's own deadline, NULL if it has none.
	{"deadline", "INTEGER", func(t *task.Task) any { by := deadlineOf(t); return micros(by, !by.IsZero()) }},
	// 1 if the task is a dead letter, else NULL.
	{"dead", "INTEGER", func(t *task.Task) any {
		if t.Dead() {
			return int64(1)
		}
		return nil
	}},
	// 1 if the task waits for an approval, else NULL.
	{"approval", "INTEGER", func(t *task.Task) any {
		if t.AwaitsSignal() {
			return int64(1)
		}
		return nil
	}},
	// The searchable texts besides the id and the job, and marks; NULL if there are none.
	{"words", "TEXT", func(t *task.Task) any {
		if w := wordsOf(t); w != "" {
			return w
		}
		return nil
	}},
}

// micros is an instant as a column value, NULL if there is none.
func micros(t time.Time, is bool) any {
	if !is {
		return nil
	}
	return t.UnixMicro()
}

// columnNames are all columns, then the document and the task's number in the index of the past.
var columnNames = func() (names []string) {
	for i := range columns {
		names = append(names, columns[i].name)
	}
	return append(names, "doc", "number")
}()

// appendRow appends the columns of a task to the arguments of a statement.
func appendRow(args []any, c *change, doc string) []any {
	for i := range columns {
		args = append(args, columns[i].of(&c.task))
	}
	return append(args, doc, int64(c.has.Number))
}

// inDoc leaves out of a task's document the fields that have columns.
var inDoc = form.Without("id", "state", "job", "node")

// rowColumns are the columns from which [scanTask] reads a task.
const rowColumns = "id, state, job, node, doc"

// rowForm is the form of a task's document. It has its own cache of specs: the text of a spec in a
// row is always our own writing, in a fact it may be foreign.
type rowForm = form.Form[task.Task]

func newRowForm() *rowForm {
	return form.Of[task.Task](form.Own(), inDoc, events.NewSpecCache().Field())
}

// These are the forms of what is stored as a document alone.
var (
	nodeForm       = form.Of[node.Node](form.Own())
	queueForm      = form.Of[queue.Queue](form.Own())
	definitionForm = form.Of[task.Definition](form.Own())
	tallyForm      = form.Of[limit.Tally](form.Own())
	forgottenForm  = form.Of[task.JobTallied](form.Own())
)

// deadlineOf is the task's own deadline, independent of its surroundings: [duties.Owes] with no slack
// and a served queue. Zero means none.
func deadlineOf(t *task.Task) time.Time {
	by := ownDeadline(t)
	whole := !t.EndBy.IsZero() && (t.Waiting() || t.State == task.Running && t.Epoch == 0)
	if whole && (by.IsZero() || t.EndBy.Before(by)) {
		return t.EndBy
	}
	return by
}

func ownDeadline(t *task.Task) time.Time {
	if len(t.Holds) > 0 && t.Waiting() {
		if by := duties.SignalBy(t); !by.IsZero() {
			return by
		}
		return t.StartBy
	}
	switch t.State {
	case task.Scheduled, task.Retrying:
		return t.Due
	case task.Pending:
		if !t.Offered {
			return t.Since
		}
		if until := t.PreferredUntil(); !until.IsZero() && (t.StartBy.IsZero() || until.Before(t.StartBy)) {
			return until
		}
		return t.StartBy
	case task.Running:
		if until := t.RunUntil(); t.Spec != nil && !until.IsZero() && t.Epoch > 0 {
			return until.Add(t.Spec.Timeout.Grace() + task.StopMargin)
		}
	case task.Cancelling:
		if t.Epoch > 0 { // a parent's children have their own deadlines
			return t.CancelBy
		}
	}
	return time.Time{}
}

// scanner is a row of the answer to a query.
type scanner interface{ Scan(into ...any) error }

// led is a row with another column before those of a task.
type led[T any] struct {
	row  scanner
	into *T
}

func (l led[T]) Scan(into ...any) error { return l.row.Scan(append([]any{l.into}, into...)...) }

// scanTask reads the [rowColumns] of a task.
func scanTask(row scanner, form *rowForm) (t task.Task, err error) {
	err = scanInto(row, form, &t)
	return t, err
}

// storedRow are the [rowColumns] of a task.
type storedRow struct {
	id        task.ID
	state     task.State
	job, node string
	doc       string
}

// scan reads a row. It reads into plain types, for which package database/sql has the fastest way.
func (r *storedRow) scan(row scanner) error {
	var id string
	var state int64
	if err := row.Scan(&id, &state, &r.job, &r.node, &r.doc); err != nil {
		return err
	}
	r.id, r.state = task.ID(id), task.State(state) // we have written it
	return nil
}

// append appends the task as one object, in the form of its document.
func (r *storedRow) append(b []byte) ([]byte, error) {
	w := form.Begin(b)
	w.Text("id", string(r.id))
	w.Text("state", r.state.String())
	w.Text("job", r.job)
	w.Text("node", r.node)
	b, err := w.End()
	if len(r.doc) <= len("{}") {
		return b, err
	}
	b[len(b)-1] = ','
	return append(b, r.doc[1:]...), err
}

// read reads the task into a blank one.
func (r *storedRow) read(form *rowForm, t *task.Task) error {
	t.ID, t.State, t.Job, t.Node = r.id, r.state, r.job, r.node
	if err := form.ReadText(r.doc, t); err != nil {
		return fmt.Errorf("row of task %s: %w", t.ID, err)
	}
	return nil
}

// scanInto reads a row into a blank task.
func scanInto(row scanner, form *rowForm, t *task.Task) error {
	var r storedRow
	if err := r.scan(row); err != nil {
		return err
	}
	return r.read(form, t)
}
