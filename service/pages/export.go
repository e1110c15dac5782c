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

// usualColumns are those of the list of tasks by default, and parameters if one has some. A URL names others; a file
// has all of them.
var usualColumns = []string{"state", "id", "what", "why", "attempt", "ran", "node", "since"}

// columnsOf are all columns of tasks, for pages and files.
func columnsOf(now time.Time) []term.Column[wording.TaskRow] {
	return wording.TaskColumns(now, task.ID.Short)
}

// shownColumns returns the names that a query has, in the order of files; nil for none.
func shownColumns(names []string) (shown []string) {
	for _, c := range columnsOf(time.Time{}) {
		if slices.Contains(names, c.Called()) {
			shown = append(shown, c.Called())
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
		var rows []wording.TaskRow
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
func linesTo(w io.Writer) func([]wording.TaskRow) error {
	return func(rows []wording.TaskRow) error {
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
func tableTo(w io.Writer) func([]wording.TaskRow) error {
	table, begun, columns := csv.NewWriter(w), false, columnsOf(time.Time{})
	return func(rows []wording.TaskRow) error {
		cells := make([]string, len(columns))
		if !begun {
			begun = true
			for i := range columns {
				cells[i] = columns[i].Called()
			}
			_ = table.Write(cells) // Flush returns the error
		}
		for i := range rows {
			for j := range columns {
				cells[j] = columns[j].Filed(&rows[i])
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
