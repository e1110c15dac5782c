package pages

import (
	"context"
	"errors"
	"slices"
	"strings"

	"millrace/client"
	"millrace/cmd/millrace/told"
	"millrace/jet"
	"millrace/query"
	"millrace/task"
	"millrace/view"
)

var tasksPage = page{name: "tasks", path: "/tasks", entry: "Tasks", verb: jet.TaskList, show: showTasks}

// taskTabs are the states by which tasks are shown, and what stands in a query for each.
var taskTabs = []struct {
	Name, State string
	of          []task.State
}{
	{"all", "", task.States()},
	{"scheduled", "scheduled", []task.State{task.Scheduled}},
	{"held", "held", []task.State{task.Held}},
	{"pending", "pending", []task.State{task.Pending}},
	{"running", "running,cancelling", []task.State{task.Running, task.Cancelling}},
	{"retrying", "retrying", []task.State{task.Retrying}},
	{"finished", "finished", []task.State{task.Finished}},
	{"error", "error", []task.State{task.Error}},
	{"abnormal", "abnormal", []task.State{task.Abnormal}},
	{"cancelled", "cancelled", []task.State{task.Cancelled}},
}

type tasksData struct {
	panel
	// Query is what was asked for, and WrongQuery what is wrong with that.
	Query      string
	WrongQuery string
	Keys       []struct{ Name, Example string }
	Tabs       []tab
	Rows       []taskRow
	Next       string
	First      bool
	// Nothing is whether there are no tasks at all.
	Nothing bool
}

// tab leads to the tasks of a state. Its number is that of all tasks, whatever else the query asks for.
type tab struct {
	Name, Link string
	N          int
	Here       bool
}

// taskRow is a task in a list.
type taskRow struct {
	task.Task
	// Says is what there is to say of it: how far it is, why it has ended, what it waits for.
	Says    string
	Suspect bool
}

func showTasks(ctx context.Context, l *look) (any, error) {
	d := &tasksData{Query: l.Asked("q"), Keys: query.Keys, First: l.Asked("cursor") == ""}
	if id, ok := jump(d.Query); ok {
		return nil, elsewhere("/tasks/" + id)
	}
	page, err := l.tasks(ctx, client.ListRequest{Query: d.Query, Cursor: l.Asked("cursor"), Progress: true})
	var wrong *query.Wrong
	if errors.As(err, &wrong) {
		d.WrongQuery, err = wrong.Error(), nil
	}
	d.fail(err)
	counts, failed := l.Count(ctx, view.Query{Kind: view.Tasks})
	if err == nil {
		d.fail(failed)
	}
	states := counts.States()
	asked, _ := query.Parse(d.Query, l.Now)
	for _, t := range taskTabs {
		n := 0
		for _, s := range t.of {
			n += states[s]
		}
		q := query.With(d.Query, "state", t.State)
		here := slices.Equal(asked.States, t.of) || t.State == "" && asked.States == nil
		d.Tabs = append(d.Tabs, tab{t.Name, l.Here("q", q, "cursor", ""), n, here && d.WrongQuery == ""})
	}
	d.Nothing, d.Next = counts.All() == 0, page.Next
	for i := range page.Tasks {
		t := page.Tasks[i]
		row := taskRow{Task: t, Says: t.Message}
		switch live, whole, suspect := page.Live[t.ID], page.Wholes[t.ID], page.Suspects[t.ID]; {
		case suspect != nil:
			row.Says, row.Suspect = suspect.String(), true
		case live != nil && t.Live():
			row.Says = live.Text()
		case whole != nil:
			row.Says = whole.Text()
		case !t.State.Terminal() && t.Message == "" && !t.Live():
			row.Says = told.Brief(&t)
		}
		d.Rows = append(d.Rows, row)
	}
	return d, nil
}

// jump is the task that a query names by its whole id alone.
func jump(text string) (id string, ok bool) {
	is, err := task.ParseID(strings.ToUpper(strings.TrimSpace(text)))
	return string(is), err == nil
}
