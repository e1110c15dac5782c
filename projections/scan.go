package projections

import (
	"fmt"

	"millrace/node"
	"millrace/task"
)

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

// scanInto reads a row into a blank task.
func scanInto(row scanner, form *rowForm, t *task.Task) error {
	var doc []byte
	if err := row.Scan(&t.ID, &t.State, &t.Job, &t.Node, &doc); err != nil {
		return err
	}
	if err := form.Read(doc, t); err != nil {
		return fmt.Errorf("row of task %s: %w", t.ID, err)
	}
	return nil
}

func scanNode(row scanner) (node.Node, error) {
	var n node.Node
	var doc []byte
	if err := row.Scan(&doc); err != nil {
		return n, err
	}
	if err := nodeForm.Read(doc, &n); err != nil {
		return node.Node{}, fmt.Errorf("row of a node: %w", err)
	}
	return n, nil
}
