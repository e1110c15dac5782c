package pages

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"millrace/events/jet/rights"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
)

var bulkPage = page{name: "bulk", path: "/bulk/{do}", verb: rights.TaskList, do: doBulk, show: showBulk}

// bulkAct is a command for many tasks.
type bulkAct struct {
	*answers.Endpoint
	Do, Label string
}

// bulkActs are the commands for many tasks on the pages of a noun, by their entries.
func bulkActs(noun string) (all []bulkAct) {
	for i := range offered() {
		if e := &offered()[i]; e.Of == "" && slices.Contains(e.Button.On, noun) {
			_, do, _ := strings.Cut(string(e.Verb), ".")
			all = append(all, bulkAct{e, do, e.Button.Label})
		}
	}
	return all
}

// typedAbove is from how many tasks on the user must type the number.
const typedAbove = 100

// bulkData describes a command for many tasks, before or after it ran.
type bulkData struct {
	bulkAct
	Why string
	// Query chooses the tasks if there are no IDs.
	Query string
	IDs   []string
	// Would is the dry run.
	Would client.BulkReport
	First []wording.TaskRow
	// Done is the result; nil before.
	Done *client.BulkReport
	// Typed tells whether the number must be typed, and Wrong why nothing was done.
	Typed  bool
	Wrong  string
	Reason string
}

// bulkOf returns the command of the page, for those that may give it.
func bulkOf(l *look) (*bulkData, error) {
	for _, act := range slices.Concat(bulkActs("tasks"), bulkActs("dead"), bulkActs("dismissed")) {
		switch {
		case act.Do != l.r.PathValue("do"):
			continue
		case !l.caller.Role.May(act.Verb):
			return nil, answers.ErrRole
		}
		l.Title = act.Label + " tasks"
		return &bulkData{bulkAct: act, Why: act.Button.Why, Query: l.r.Form.Get("q"), IDs: l.r.Form["task"]}, nil
	}
	return nil, answers.ErrNothing
}

// showBulk shows what would happen to the tasks that a query or a list of ids chooses, or what has
// happened to them.
func showBulk(ctx context.Context, l *look) (any, error) {
	d, done := l.Data.(*bulkData)
	if !done {
		var err error
		if d, err = bulkOf(l); err != nil {
			return nil, err
		}
	}
	switch {
	case d.Done != nil:
		return d, nil
	case l.Past:
		d.Wrong = "The past is read-only."
		return d, nil
	case l.Asked("of") == "chosen" && len(d.IDs) == 0:
		d.Wrong = "No task is selected."
		return d, nil
	}
	return d, d.foresee(ctx, l)
}

// Undo is the command that takes this one back; "" for none.
func (d *bulkData) Undo() string {
	if d.Verb == rights.TasksDismiss && d.Done.Done > 0 {
		return bulkActs("dismissed")[0].Do
	}
	return ""
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
	if err := l.ask(ctx, d.Verb, d.request(map[string]any{"dry_run": true, "limit": shownRuns}), &d.Would); err != nil {
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

// doBulk gives the command, as one batch, if it is still what was confirmed.
func doBulk(ctx context.Context, l *look) error {
	d, err := bulkOf(l)
	if err != nil {
		return err
	}
	l.Data, d.Reason = d, l.typed.Get("reason")
	if l.typed.Get("batch") == "" { // else it continues
		if err := l.ask(ctx, d.Verb, d.request(map[string]any{"dry_run": true, "limit": 1}), &d.Would); err != nil {
			return err
		}
		if d.Wrong = d.differs(l.typed.Get("count"), l.typed.Get("typed")); d.Wrong != "" {
			return nil
		}
	}
	if err := d.do(ctx, l, l.typed.Get("batch")); err != nil {
		return err
	}
	l.site.settle(ctx)
	return nil
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
		if err := l.ask(ctx, d.Verb, d.request(more), &is); err != nil {
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
