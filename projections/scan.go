package projections

import (
	"encoding/json"
	"fmt"

	"millrace/node"
	"millrace/task"
)

// scanner is a row of the answer to a query.
type scanner interface{ Scan(into ...any) error }

// rawTask is a row of table tasks, not yet decoded.
type rawTask struct {
	id, job, node string
	state         task.State
	doc           []byte
}

func (r *rawTask) scan(row scanner) error {
	var queue string
	var waits, deadline any
	return row.Scan(&r.id, &r.state, &queue, &r.job, &r.node, &waits, &deadline, &r.doc)
}

func (r *rawTask) decode(specs *specCache) (task.Task, error) {
	t := task.Task{ID: task.ID(r.id), State: r.state, Node: r.node}
	t.Job = r.job
	err := specs.decode(&t, r.doc)
	return t, err
}

func scanTask(row scanner, specs *specCache) (task.Task, error) {
	var r rawTask
	if err := r.scan(row); err != nil {
		return task.Task{}, err
	}
	return r.decode(specs)
}

func scanNode(row scanner) (node.Node, error) {
	var n node.Node
	var doc []byte
	if err := row.Scan(&doc); err != nil {
		return n, err
	}
	if err := json.Unmarshal(doc, &n); err != nil {
		return node.Node{}, fmt.Errorf("row of a node: %w", err)
	}
	return n, nil
}
