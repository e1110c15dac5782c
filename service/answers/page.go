package answers

import (
	"encoding/json"
	"fmt"

	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/task/value"
)

// validPage checks the page that a request chooses, and sets the default.
func validPage(r *client.PageRequest) error {
	if r.Limit == 0 {
		r.Limit = view.MaxLimit
	}
	if err := validLimit(&r.Limit); err != nil {
		return badRequest{err}
	}
	return nil
}

// halves holds a function for each kind of answer that can be cut short. It returns the first half
// of an answer of its kind; false for an answer of another kind, or of one row.
var halves = []func(answer any) (half any, ok bool){
	halfTasks,
	halfSteps,
	halving(func(p *client.UnreadablePage) (*[]client.Unreadable, *uint64) { return &p.Messages, &p.Next }, func(last, _ *client.Unreadable) uint64 { return last.Seq }),
	halving(func(p *factPage) (*[]client.ShownFact, *uint64) { return &p.Facts, &p.Next }, func(_, next *client.ShownFact) uint64 { return next.Seq }),
	halving(func(p *saidPage[output.Lines]) (*[]batch[output.Lines], *uint64) { return &p.Batches, &p.Next }, lastBatch[output.Lines]),
	halving(func(p *saidPage[output.Records]) (*[]batch[output.Records], *uint64) { return &p.Batches, &p.Next }, lastBatch[output.Records]),
	halving(func(p *bundleVersion) (*[]bundleEntry, *string) { return &p.Entries, &p.Next }, func(last, _ *bundleEntry) string { return last.Path }),
	halving(func(p *bundleDiff) (*[]files.Change, *nothing) { return &p.Changes, new(nothing) }, func(_, _ *files.Change) nothing { return nothing{} }),
	halving(func(p *view.Rows) (*[]json.RawMessage, *task.ID) { return &p.Rows, &p.Next }, rowID),
	halving(func(p *client.JobList) (*[]client.JobRow, *string) { return &p.Jobs, &p.Next }, behind((*client.JobRow).Key)),
	halving(func(p *client.ScheduleList) (*[]client.ScheduleRow, *string) { return &p.Schedules, &p.Next }, behind((*client.ScheduleRow).Key)),
	halving(func(p *client.Grid) (*[]client.GridRow, *string) { return &p.Rows, &p.Next }, behind((*client.GridRow).Key)),
	halving(func(p *calendarList) (*[]schedule.StoredCalendar, *string) { return &p.Calendars, &p.Next }, behind(calendarKey)),
	halving(func(p *client.NodePage) (*[]client.NodeView, *string) { return &p.Nodes, &p.Next }, behind((*client.NodeView).Key)),
	halving(func(p *pingPage) (*[]client.Pinged, *string) { return &p.Nodes, &p.Next }, behind((*client.Pinged).Key)),
	halving(func(p *client.QueuePage) (*[]client.QueueView, *string) { return &p.Queues, &p.Next }, behind((*client.QueueView).Key)),
	halving(func(p *client.LimitPage) (*[]quota.CounterState, *string) { return &p.Counters, &p.Next }, behind((*quota.CounterState).Key)),
}

// halving returns the function that cuts answers of type A. parts returns the rows of an answer and
// where it says how to go on; after says how to do so from the last row that is kept and the next.
func halving[A, T, N any](parts func(*A) (*[]T, *N), after func(last, next *T) N) func(any) (any, bool) {
	return func(answer any) (any, bool) {
		a, ok := answer.(A)
		if !ok {
			return nil, false
		}
		rows, next := parts(&a)
		n := len(*rows) / 2
		if n == 0 {
			return nil, false
		}
		*next = after(&(*rows)[n-1], &(*rows)[n])
		*rows = (*rows)[:n]
		return a, true
	}
}

// behind returns the cursor of what follows a row with this key.
func behind[T any](key func(*T) string) func(last, _ *T) string {
	return func(last, _ *T) string { return view.CursorAfter(key(last)) }
}

func lastBatch[T any](last, _ *batch[T]) uint64 { return last.Seq }

// halved returns the first half of an answer; false if it cannot be cut.
func halved(answer any) (half any, ok bool) {
	for _, of := range halves {
		if half, ok = of(answer); ok {
			return half, true
		}
	}
	return nil, false
}

// fit encodes an answer in at most limit bytes. It shortens a page until it fits; the caller gets
// the rest with the next page.
func fit(answer any, limit int) ([]byte, error) {
	for {
		body, err := Encode(answer)
		if err != nil || len(body) <= limit {
			return body, err
		}
		if half, ok := halved(answer); ok {
			answer = half
			continue
		}
		return nil, tooLarge{fmt.Errorf("the answer has %d bytes, the server takes %d: raise its max_payload", len(body), limit)}
	}
}

// Encode returns an answer as JSON: facts in it as they were written, with the signs <, > and & as they
// are. Long and frequent answers have a faster way than package json.
func Encode(answer any) ([]byte, error) {
	switch p := answer.(type) {
	case taskPage:
		return p.AppendJSON(make([]byte, 0, taskBytes*len(p.Tasks)))
	case view.Rows:
		return appendRows(&p)
	}
	return value.JSON(answer)
}

// taskBytes is about how long a task is as JSON.
const taskBytes = 768

// appendRows encodes rows. Package json would check their texts once more.
func appendRows(p *view.Rows) ([]byte, error) {
	rest, err := json.Marshal(struct {
		Next task.ID `json:"next,omitempty"`
		Seq  uint64  `json:"seq"`
	}{p.Next, p.Seq})
	if err != nil {
		return nil, err
	}
	size := len(rest) + len(`{"rows":[`)
	for _, row := range p.Rows {
		size += len(row) + len("],")
	}
	body := append(make([]byte, 0, size+len("],")), `{"rows":[`...)
	for i, row := range p.Rows {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, row...)
	}
	return append(append(body, "],"...), rest[1:]...), nil
}

// rowID is the id of a row of the read model, which begins with it.
func rowID(row, _ *json.RawMessage) task.ID {
	var head struct {
		ID task.ID `json:"id"`
	}
	_ = json.Unmarshal(*row, &head) // we have written it
	return head.ID
}

// tooLarge is the error of an answer that does not fit into a message.
type tooLarge struct{ error }

// taskPage is a page of tasks, with the filter that makes its cursor.
type taskPage struct {
	client.ListPage
	filter *view.Filter
}

// halfTasks cuts a page of tasks.
func halfTasks(answer any) (any, bool) {
	p, ok := answer.(taskPage)
	n := len(p.Tasks) / 2
	if !ok || n == 0 {
		return nil, false
	}
	p.Tasks, p.Next = p.Tasks[:n], p.filter.CursorAfter(p.Tasks[n-1].ID)
	p.Live, p.Wholes = only(p.Tasks, p.Live), only(p.Tasks, p.Wholes)
	p.Suspects, p.Unserved = only(p.Tasks, p.Suspects), only(p.Tasks, p.Unserved)
	return p, true
}

// only returns the entries of said for these tasks.
func only[T any](tasks []task.Task, said map[task.ID]T) map[task.ID]T {
	kept := map[task.ID]T{}
	for i := range tasks {
		if of, ok := said[tasks[i].ID]; ok {
			kept[tasks[i].ID] = of
		}
	}
	return kept
}
