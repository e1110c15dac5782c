package pages

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// column is a column of the list of tasks. The URL names the shown ones; a file has all of them.
type column struct {
	Name, Title, Class string
	// Usual tells whether it is shown by default.
	Usual bool
	text  func(r *taskRow) string
}

// columns are all columns. Those that templates draw in their own way have texts for files.
var columns = []column{
	{"state", "state", "c-state", true, func(r *taskRow) string { return r.State.String() }},
	{"id", "id", "c-id", true, func(r *taskRow) string { return string(r.ID) }},
	{"what", "what", "c-what", true, func(r *taskRow) string {
		if r.Spec != nil {
			return r.Spec.Text()
		}
		return r.Job
	}},
	{"job", "job", "c-node", false, func(r *taskRow) string { return r.Job }},
	{"step", "step", "c-node", false, func(r *taskRow) string { return r.Step }},
	{"why", "why", "wide", true, func(r *taskRow) string { return strings.TrimSpace(wording.Code(&r.Task) + " " + r.Says) }},
	{"attempt", "att.", "c-num", true, func(r *taskRow) string { return number(r.Attempt) }},
	{"node", "node", "c-node", true, func(r *taskRow) string { return r.Node }},
	{"queue", "queue", "c-node", false, func(r *taskRow) string { return r.QueueName() }},
	{"priority", "prio.", "c-num", false, func(r *taskRow) string { return strconv.Itoa(r.Route.Priority()) }},
	{"labels", "labels", "c-what", false, func(r *taskRow) string { return wording.Pairs(r.Labels) }},
	{"params", "parameters", "c-what", false, func(r *taskRow) string { return string(r.Params) }},
	{"schedule", "schedule", "c-node", false, func(r *taskRow) string { return r.Schedule }},
	{"parent", "parent", "c-what", false, func(r *taskRow) string { return string(r.Parent) }},
	{"batch", "batch", "c-what", false, func(r *taskRow) string { return r.Batch }},
	{"submitted", "submitted", "c-time", false, func(r *taskRow) string { return stamp(r.SubmittedAt) }},
	{"started", "started", "c-time", false, func(r *taskRow) string { return stamp(r.StartedAt) }},
	{"ended", "ended", "c-time", false, func(r *taskRow) string { return stamp(r.EndedAt) }},
	{"ran", "ran, s", "c-num", false, func(r *taskRow) string {
		if r.Ran == 0 {
			return ""
		}
		return strconv.FormatFloat(r.Ran.Std().Seconds(), 'f', 3, 64)
	}},
	{"exit", "exit", "c-num", false, func(r *taskRow) string {
		if r.Exit == nil {
			return ""
		}
		return strconv.Itoa(*r.Exit)
	}},
	{"result", "result", "c-what", false, func(r *taskRow) string { return string(r.Result) }},
	{"since", "since", "c-time", true, func(r *taskRow) string { return stamp(r.Since) }},
}

// Text returns a task's text in a column.
func (c column) Text(r taskRow) string { return c.text(&r) }

// At returns a task's time in a column of times, whose text is a stamp.
func (c column) At(r taskRow) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, c.text(&r)) // none is the zero time
	return at
}

func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func stamp(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// shownColumns returns the columns that a query names, or the usual ones, in the order of the
// table.
func shownColumns(names []string) (shown []column) {
	for _, c := range columns {
		if slices.Contains(names, c.Name) {
			shown = append(shown, c)
		}
	}
	if shown != nil {
		return shown
	}
	for _, c := range columns {
		if c.Usual {
			shown = append(shown, c)
		}
	}
	return shown
}

// mostExported bounds the number of tasks in a file.
const mostExported = 100_000

// export sends the tasks that a query chooses as a file, page by page: as CSV, or each as a line of
// JSON.
func (l *look) export(w http.ResponseWriter) error {
	kind, err := l.kind()
	if err != nil {
		return err
	}
	to := attach(w, "tasks", kind)
	to.later.Set("Trailer", exportEnd)
	write := linesTo(to)
	if kind == "csv" {
		write = tableTo(to)
	}
	n := 0
	for cursor := ""; ; {
		var rows []taskRow
		err := l.see(l.r.Context(), func(ctx context.Context) error {
			page, err := l.tasks(ctx, client.ListRequest{Query: l.Asked("q"), Filter: view.Filter{Cursor: cursor, Limit: 1000}})
			rows, cursor = taskRows(&page), page.Next
			return err
		})
		rows = rows[:min(len(rows), mostExported-n)]
		n += len(rows)
		if err == nil {
			err = write(rows)
		}
		end := "whole"
		switch {
		case err != nil:
			end = "failed"
		case cursor != "" && n < mostExported:
			continue
		case cursor != "":
			end = "cut"
		}
		if to.begun {
			to.header.Set(exportEnd, end)
		}
		return to.end(err)
	}
}

// kind is that of the file that the request asks for.
func (l *look) kind() (string, error) {
	kind := l.Asked("as")
	if kind != "csv" && kind != "jsonl" {
		return "", client.Wrongf("as is %q, want csv or jsonl", kind)
	}
	return kind, nil
}

// attached is an answer that is a file. It begins with what is written first.
type attached struct {
	io.Writer
	header, later http.Header // what the answer has by now, and gets when it begins
	begun         bool
}

// attach makes an answer a file, of one of the exportTypes.
func attach(w http.ResponseWriter, name, kind string) *attached {
	return &attached{Writer: httpapi.Long(w), header: w.Header(), later: http.Header{
		"Content-Type": {exportTypes[kind]}, "Content-Disposition": {`attachment; filename="` + url.PathEscape(name) + `.` + kind + `"`},
	}}
}

func (a *attached) begin() {
	if !a.begun {
		a.begun = true
		maps.Copy(a.header, a.later)
	}
}

// Write implements [io.Writer].
func (a *attached) Write(b []byte) (int, error) {
	a.begin()
	return a.Writer.Write(b)
}

// end ends the file: the reader must not mistake one that has failed for a whole one. If nothing was
// written, the error is left to say why.
func (a *attached) end(err error) error {
	if err != nil && a.begun {
		httpapi.Break()
	}
	if err == nil {
		a.begin()
	}
	return err
}

// exportEnd is a trailer that says whether the file is complete.
const exportEnd = "Millrace-Export"

// linesTo writes tasks as lines of JSON.
func linesTo(w io.Writer) func([]taskRow) error {
	return func(rows []taskRow) error {
		var text []byte
		for i := range rows {
			line, err := value.JSON(&rows[i].Task)
			if err != nil {
				return err
			}
			text = append(append(text, line...), '\n')
		}
		_, err := w.Write(text)
		return err
	}
}

// exportTypes are the kinds of files that pages send.
var exportTypes = map[string]string{"csv": "text/csv; charset=utf-8; header=present", "jsonl": "application/jsonl; charset=utf-8", "log": "text/plain; charset=utf-8"}

// plainCells puts an apostrophe before each cell that a spreadsheet would take for a formula, but not before numbers.
func plainCells(cells []string) []string {
	for i, text := range cells {
		if strings.IndexAny(text, "=+-@\t\r") == 0 && !json.Valid([]byte(text)) {
			cells[i] = "'" + text
		}
	}
	return cells
}

// tableTo writes tasks as CSV.
func tableTo(w io.Writer) func([]taskRow) error {
	table, begun := csv.NewWriter(w), false
	return func(rows []taskRow) error {
		cells := make([]string, len(columns))
		if !begun {
			begun = true
			for i := range columns {
				cells[i] = columns[i].Name
			}
			_ = table.Write(cells) // Flush returns the error
		}
		for i := range rows {
			for j := range columns {
				cells[j] = columns[j].text(&rows[i])
			}
			_ = table.Write(plainCells(cells)) // Flush returns the error
		}
		table.Flush()
		return table.Error()
	}
}

// Bounds of files of records.
const (
	recordsAtOnce = 1000 // batches of a page of them
	mostFields    = 1000 // columns of a table
)

// recordsPanel shows the first records of the latest attempt of a task as a table.
type recordsPanel struct {
	panel
	Columns []string
	Rows    [][]string
	More    bool
}

func (p *recordsPanel) find(ctx context.Context, l *look, of *task.Task) {
	if l.Past || !l.May(string(rights.TaskRecords)) {
		return // when each was produced is not recorded
	}
	items, more, err := l.Kept(ctx, of.ID, of.Epoch, shownRecords)
	p.fail(err)
	p.More = more || len(items) > shownRecords
	p.Columns, p.Rows = tableOf(items[:min(len(items), shownRecords)])
}

// tableOf lays records out: a column for each field of those that are objects, in the order in which they come.
func tableOf(items []json.RawMessage) (columns []string, rows [][]string) {
	for _, item := range items {
		columns = term.AddFields(columns, item)
	}
	for _, item := range items {
		rows = append(rows, term.Cells(columns, item))
	}
	return columns, rows
}

// records sends the records of a task as a file: as CSV, or each as a line of JSON. It has those of the latest attempt, page by page.
func (l *look) records(w http.ResponseWriter) error {
	id, err := taskIn(l.r)
	if err != nil {
		return err
	}
	kind, err := l.kind()
	if err != nil {
		return err
	}
	var of task.Task
	if err := l.ask(l.r.Context(), rights.TaskGet, map[string]any{"id": id}, &of); err != nil {
		return err
	}
	to := attach(w, string(id), kind)
	_, err = term.Write(to, term.KindOf(kind, ""), term.Source{Most: mostFields, Cells: plainCells, Records: func(each func([]byte) error) error {
		return l.eachRecord(l.r.Context(), &of, each)
	}}, func(int) {})
	if errors.Is(err, term.ErrWide) {
		err = client.Wrong(err)
	}
	return to.end(err)
}

// eachRecord calls each with the records that the latest attempt of a task has produced.
func (l *look) eachRecord(ctx context.Context, of *task.Task, each func([]byte) error) error {
	for after := uint64(0); ; {
		var page struct {
			Batches []struct{ Of output.Records }
			Next    uint64
		}
		if err := l.ask(ctx, rights.TaskRecords, map[string]any{"id": of.ID, "after": after, "limit": recordsAtOnce}, &page); err != nil {
			return err
		}
		for i := range page.Batches {
			if b := &page.Batches[i].Of; b.Epoch == of.Epoch {
				for _, item := range b.Items {
					if err := each(item); err != nil {
						return err
					}
				}
			}
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}
