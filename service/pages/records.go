package pages

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/service/httpapi"
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
	var all fieldNames
	for _, item := range items {
		all.add(item)
	}
	for _, item := range items {
		rows = append(rows, all.row(item))
	}
	return all.names, rows
}

// fieldNames are the fields of records, in the order in which they came.
type fieldNames struct {
	names []string
	at    map[string]int
}

func (f *fieldNames) add(item json.RawMessage) {
	if f.at == nil {
		f.at = map[string]int{}
	}
	for _, name := range keysOf(item) {
		if _, there := f.at[name]; !there {
			f.at[name] = len(f.names)
			f.names = append(f.names, name)
		}
	}
}

// row has the value of each field of a record: a text as it is, anything else as JSON.
func (f *fieldNames) row(item json.RawMessage) []string {
	row := make([]string, len(f.names))
	for name, value := range fieldsOf(item) {
		at, known := f.at[name]
		if !known {
			continue
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		row[at] = text
	}
	return row
}

// fieldsOf are the fields of a record. One that is no object is the value of a field without a name.
func fieldsOf(item json.RawMessage) (fields map[string]json.RawMessage) {
	if json.Unmarshal(item, &fields) != nil || fields == nil {
		return map[string]json.RawMessage{"": item}
	}
	return fields
}

// keysOf are the names of the fields of a record in the order in which they stand there.
func keysOf(item json.RawMessage) (keys []string) {
	d := json.NewDecoder(strings.NewReader(string(item)))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return []string{""}
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return keys
		}
		name, _ := key.(string) // keys are
		keys = append(keys, name)
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return keys
		}
	}
	return keys
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
	ctx := l.r.Context()
	var of task.Task
	if err := l.ask(ctx, rights.TaskGet, map[string]any{"id": id}, &of); err != nil {
		return err
	}
	var names fieldNames
	if kind == "csv" {
		err = l.eachRecord(ctx, &of, func(item json.RawMessage) error {
			if names.add(item); len(names.names) > mostFields {
				return client.Wrongf("the records have more than %d different fields, too many for a table: export lines of JSON", mostFields)
			}
			return nil
		})
	}
	if err != nil {
		return err
	}
	attach(w, string(id), kind)
	to := httpapi.Long(w)
	if kind == "csv" {
		err = l.recordTable(ctx, to, &of, &names)
	} else {
		err = l.recordLines(ctx, to, &of)
	}
	if err != nil {
		httpapi.Break() // who reads it must not take it for whole
	}
	return nil
}

func (l *look) recordLines(ctx context.Context, to io.Writer, of *task.Task) error {
	lines := bufio.NewWriter(to)
	err := l.eachRecord(ctx, of, func(item json.RawMessage) error {
		_, err := lines.Write(append(slices.Clone(item), '\n'))
		return err
	})
	if err != nil {
		return err
	}
	return lines.Flush()
}

func (l *look) recordTable(ctx context.Context, to io.Writer, of *task.Task, names *fieldNames) error {
	table := csv.NewWriter(to)
	head := slices.Clone(names.names)
	if at, whole := names.at[""]; whole {
		head[at] = "value"
	}
	_ = table.Write(plainCells(head)) // Flush tells
	err := l.eachRecord(ctx, of, func(item json.RawMessage) error { return table.Write(plainCells(names.row(item))) })
	if table.Flush(); err != nil {
		return err
	}
	return table.Error()
}

// eachRecord calls each with the records that the latest attempt of a task has produced.
func (l *look) eachRecord(ctx context.Context, of *task.Task, each func(json.RawMessage) error) error {
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
