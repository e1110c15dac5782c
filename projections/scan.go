package projections

import (
	"fmt"

	"millrace/node"
	"millrace/task"
)

// scanner is a row of the answer to a query.
type scanner interface{ Scan(into ...any) error }

// scanTask reads the [rowColumns] of a task.
func scanTask(row scanner, form *rowForm) (task.Task, error) {
	var t task.Task
	var doc []byte
	if err := row.Scan(&t.ID, &t.State, &t.Job, &t.Node, &doc); err != nil {
		return task.Task{}, err
	}
	if err := form.Read(doc, &t); err != nil {
		return task.Task{}, fmt.Errorf("row of task %s: %w", t.ID, err)
	}
	return t, nil
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
