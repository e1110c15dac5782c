package pages

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/task"
)

var bulkPage = page{name: "bulk", path: "/bulk/{do}", verb: rights.TaskList, show: showBulk}

// bulkActs are the commands for many tasks.
var bulkActs = map[string]struct {
	verb       rights.Verb
	Label, Why string
}{
	"cancel": {rights.TasksCancel, "Cancel", "They are stopped politely, then by force, and do not start again by themselves. What has ended is left out."},
	"retry":  {rights.TasksRetry, "Retry", "They get another life and start again, under the same ids. What has not ended, or has finished, is left out."},
}

// typedAbove is from how many tasks on the user must type the number.
const typedAbove = 100

// bulkData describes a command for many tasks, before or after it ran.
type bulkData struct {
	Do, Label, Why string
	Verb           string
	// Query chooses the tasks if there are no IDs.
	Query string
	IDs   []string
	// Would is the dry run.
	Would client.BulkReport
	First []taskRow
	// Done is the result; nil before.
	Done *client.BulkReport
	// Typed tells whether the number must be typed, and Wrong why nothing was done.
	Typed  bool
	Wrong  string
	Reason string
}

// showBulk shows what would happen to the tasks that a query or a list of ids chooses. It changes
// nothing.
func showBulk(ctx context.Context, l *look) (any, error) {
	act, ok := bulkActs[l.r.PathValue("do")]
	if !ok {
		return nil, answers.ErrNothing
	}
	if !l.caller.Role.May(act.verb) {
		return nil, answers.ErrRole
	}
	d := &bulkData{Do: l.r.PathValue("do"), Label: act.Label, Why: act.Why, Verb: string(act.verb), Query: l.Asked("q"), IDs: l.query["task"]}
	l.Title = act.Label + " tasks"
	switch {
	case l.Past:
		d.Wrong = "The past is read-only."
		return d, nil
	case l.Asked("of") == "chosen" && len(d.IDs) == 0:
		d.Wrong = "No task is selected."
		return d, nil
	}
	return d, d.foresee(ctx, l)
}

// request returns the request of the verb.
func (d *bulkData) request(more map[string]any) map[string]any {
	request := map[string]any{"all": true, "filter": map[string]any{"query": d.Query}}
	if len(d.IDs) > 0 {
		request = map[string]any{"tasks": d.IDs}
	}
	for name, value := range more {
		request[name] = value
	}
	return request
}

func (d *bulkData) foresee(ctx context.Context, l *look) error {
	if err := l.ask(ctx, rights.Verb(d.Verb), d.request(map[string]any{"dry_run": true, "limit": shownRuns}), &d.Would); err != nil {
		// Such as for tasks in a state in which it is impossible.
		if answers.ProblemOf(err).Status == http.StatusBadRequest {
			d.Wrong = err.Error()
			return nil
		}
		return err
	}
	d.Typed = d.Would.Chosen > typedAbove
	for _, id := range d.Would.Tasks[:min(len(d.Would.Tasks), shownRuns)] {
		page, err := l.tasks(ctx, client.ListRequest{Filter: view.Filter{IDPart: string(id)}})
		if err != nil {
			return err
		}
		d.First = append(d.First, taskRows(&page)...)
	}
	return nil
}

// bulkRounds is how often the verb is requested while the user waits: each time it takes a thousand
// tasks.
const bulkRounds = 5

// bulk runs the command, as one batch, and shows the result.
func (s *Site) bulk(w http.ResponseWriter, r *http.Request, c httpapi.Caller) {
	act, ok := bulkActs[r.PathValue("do")]
	switch {
	case !ok:
		s.refuse(w, r, c, answers.ErrNothing)
		return
	case !c.Role.May(act.verb):
		s.refuse(w, r, c, answers.ErrRole)
		return
	case r.ParseForm() != nil:
		s.refuse(w, r, c, client.Wrongf("the form cannot be read"))
		return
	}
	d := &bulkData{Do: r.PathValue("do"), Label: act.Label, Why: act.Why, Verb: string(act.verb), Query: r.PostForm.Get("q"), IDs: r.PostForm["task"], Reason: r.PostForm.Get("reason")}
	l := s.newLook(r, c, &bulkPage, r.URL.Query())
	l.Title = act.Label + " tasks"
	if r.PostForm.Get("batch") == "" { // else it continues
		if err := l.ask(r.Context(), act.verb, d.request(map[string]any{"dry_run": true, "limit": 1}), &d.Would); err != nil {
			s.refuse(w, r, c, err)
			return
		}
		d.Wrong = d.differs(r.PostForm.Get("count"), r.PostForm.Get("typed"))
	}
	if d.Wrong == "" {
		if err := d.do(r.Context(), l, r.PostForm.Get("batch")); err != nil {
			s.refuse(w, r, c, err)
			return
		}
		s.settle(r.Context())
	}
	var body []byte
	err := s.server.Desk.See(r.Context(), c.Name, "", func(ctx context.Context, sight *answers.Sight) (err error) {
		l.Sight, l.Data = sight, d
		if d.Wrong != "" {
			err = d.foresee(ctx, l)
		}
		if err == nil {
			body, err = s.shapes()["bulk"].whole(l)
		}
		return err
	})
	if err != nil {
		s.refuse(w, r, c, err)
		return
	}
	s.server.Send(w, r, "text/html; charset=utf-8", body)
}

// differs says why the confirmed command differs from what would be done now: it may be fewer
// tasks, but not more.
func (d *bulkData) differs(count, typed string) string {
	n, err := strconv.Atoi(count)
	switch {
	case err != nil || d.Would.Chosen > n:
		return fmt.Sprintf("By now it is %s.", tasksOf(d.Would.Chosen))
	case n > typedAbove && strings.ReplaceAll(strings.TrimSpace(typed), ",", "") != strconv.Itoa(n):
		return fmt.Sprintf("Type %d to say that all of them are meant.", n)
	}
	return ""
}

func tasksOf(n int) string {
	if n == 1 {
		return "1 task"
	}
	return count(n) + " tasks"
}

// do repeats the verb until nothing is left, or the user has waited long enough.
func (d *bulkData) do(ctx context.Context, l *look, batch string) error {
	sum := client.BulkReport{Batch: batch, States: map[string]int{}}
	refused := map[task.ID]bool{}
	for range bulkRounds {
		more := map[string]any{"reason": d.Reason}
		if sum.Batch != "" {
			more["batch"] = sum.Batch
		}
		var is client.BulkReport
		if err := l.ask(ctx, rights.Verb(d.Verb), d.request(more), &is); err != nil {
			if sum.Done == 0 {
				return err
			}
			sum.Interrupted, d.Wrong = true, err.Error()
			break
		}
		sum.Batch, sum.Done, sum.Chosen = is.Batch, sum.Done+is.Done, sum.Chosen+is.Chosen
		for state, n := range is.States {
			sum.States[state] += n
		}
		for _, f := range is.Refused {
			if !refused[f.Task] {
				refused[f.Task] = true
				sum.Refused = append(sum.Refused, f)
			}
		}
		sum.Interrupted = is.Interrupted || is.Chosen == 1000 && is.Done > 0
		if !sum.Interrupted || is.Interrupted {
			break
		}
	}
	d.Done = &sum
	return nil
}
