package pages

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
)

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
