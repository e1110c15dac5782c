package pages

import (
	"context"

	"millrace/jet"
	"millrace/task"
	"millrace/view"
)

var incidentsPage = page{name: "incidents", path: "/incidents", entry: "Incidents", verb: jet.EventList, show: showIncidents}

// showIncidents has the tasks that have failed last: files are most often about one of those.
func showIncidents(ctx context.Context, l *look) (any, error) {
	failed, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{States: []task.State{task.Error, task.Abnormal}, Limit: shownFailed}})
	d := &tasksPanel{Tasks: failed.Tasks}
	d.fail(err)
	return d, nil
}
