package projections

import (
	"encoding/json"
	"fmt"
	"time"

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

const nodeColumns = "id, state, reason, session, host, pid, version, labels, slots, queues, head, since, started"

func scanNode(row scanner) (node.Node, error) {
	var n node.Node
	var labels, queues []byte
	var since, started string
	err := row.Scan(&n.ID, &n.State, &n.Reason, &n.Session, &n.Host, &n.PID, &n.Version, &labels, &n.Slots, &queues,
		&n.Head, &since, &started)
	if err != nil {
		return node.Node{}, err
	}
	for _, part := range []func() error{
		func() error { return json.Unmarshal(labels, &n.Labels) },
		func() error { return json.Unmarshal(queues, &n.Queues) },
		func() (err error) { n.Since, err = parseTime(since); return err },
		func() (err error) { n.Started, err = parseTime(started); return err },
	} {
		if err := part(); err != nil {
			return node.Node{}, fmt.Errorf("row of node %s: %w", n.ID, err)
		}
	}
	return n, nil
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(appendTime(nil, t))
}
