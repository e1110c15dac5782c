package pages

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/param"
	"millrace/task/value"
)

// runPage is the form for running a job, or for copying a task with changes.
var runPage = page{name: "run", path: "/run/{of}/{name}", verb: rights.TaskGet, do: doRun, show: showRun}

type runData struct {
	*Form
	// Of is job or task, and Name which one; Verb is the verb to perform.
	Of, Name string
	Verb     rights.Verb
	// Queue, Priority, Delay and More were typed beside the parameters; More is JSON.
	Queue, Priority, Delay, More string
	// WrongMore says what is wrong with More, and Wrong why no task was made.
	WrongMore, Wrong string
}

// runForm finds out what can be typed.
func runForm(ctx context.Context, l *look) (*runData, error) {
	d := &runData{Of: l.r.PathValue("of"), Name: l.r.PathValue("name")}
	var params param.Params
	var now map[string]json.RawMessage
	switch d.Of {
	case "job":
		if err := value.ValidName("job", d.Name); err != nil {
			return nil, client.Wrong(err)
		}
		is, err := l.job(ctx, d.Name)
		if err != nil {
			return nil, err
		}
		params, d.Verb, l.Title = is.Params, rights.TaskSubmit, "Run job "+d.Name
	case "task":
		id, err := task.ParseID(d.Name)
		if err != nil {
			return nil, client.Wrong(err)
		}
		t, err := view.GetTask(ctx, l.View, id)
		if err != nil {
			return nil, err
		}
		d.Verb, l.Title = rights.TaskCopy, "Copy task "+id.Short()
		if len(t.Params) > 0 {
			if err := json.Unmarshal(t.Params, &now); err != nil {
				return nil, value.Plainly(err)
			}
		}
		// The parameters that the job declared then; none if that revision cannot be read.
		if t.Job != "" && l.May(string(rights.JobGet)) {
			var stored definitions.StoredJob
			if l.ask(ctx, rights.JobGet, map[string]any{"name": t.Job, "revision": t.Revision}, &stored) == nil {
				params = stored.Params
			}
		}
	default:
		return nil, answers.ErrNothing
	}
	if !l.caller.Role.May(d.Verb) {
		return nil, answers.ErrRole
	}
	d.Form = newForm(params, now)
	return d, nil
}

// Typed returns the name of a parameter's field in the form.
func (d *runData) Typed(name string) string { return "param." + name }

// showRun shows what can be typed, or was typed and makes no task.
func showRun(ctx context.Context, l *look) (any, error) {
	if l.Data != nil {
		return l.Data, nil
	}
	return runForm(ctx, l)
}

// doRun makes the task of a form, and leads to it.
func doRun(ctx context.Context, l *look) (err error) {
	var d *runData
	if err = l.see(ctx, func(ctx context.Context) error { d, err = runForm(ctx, l); return err }); err != nil {
		return err
	}
	l.Data = d
	request, fine := d.read(l)
	if !fine {
		return nil
	}
	var made struct{ ID string }
	if err := l.ask(ctx, d.Verb, request, &made); err != nil {
		if d.Wrong = err.Error(); answers.ProblemOf(err).Status >= http.StatusInternalServerError {
			return err
		}
		return nil
	}
	l.site.settle(ctx)
	return elsewhere("/tasks/" + made.ID)
}

// read turns what was typed into the request of the verb; fine tells whether nothing is wrong with
// it.
func (d *runData) read(l *look) (request map[string]any, fine bool) {
	typed := l.typed.Get
	d.Queue, d.Priority, d.Delay, d.More = typed("queue"), typed("priority"), typed("delay"), typed("more")
	texts, fine := d.Read(func(name string) string { return typed(d.Typed(name)) })
	work := map[string]any{}
	if d.More != "" {
		var more map[string]json.RawMessage
		if err := json.Unmarshal([]byte(d.More), &more); err != nil {
			d.WrongMore, fine = "want a JSON object of names and values", false
		}
		if len(more) > 0 {
			work["params"] = more
		}
	}
	if len(texts) > 0 {
		work["texts"] = texts
	}
	if d.Queue != "" {
		work["queue"] = d.Queue
	}
	if n, err := strconv.Atoi(d.Priority); err == nil {
		work["priority"] = n
	}
	if d.Delay != "" {
		work["delay"] = d.Delay
	}
	if d.Of == "job" {
		work["job"] = d.Name
		return work, fine
	}
	return map[string]any{"id": d.Name, "task": work}, fine
}
