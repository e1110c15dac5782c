package client

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/form"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/node"
	"millrace/task/output"
)

// ListRequest chooses tasks. All fields that are set must hold.
type ListRequest struct {
	view.Filter
	// AtLeast makes the answer wait until it reflects this sequence, for example the caller's own
	// last write.
	AtLeast uint64 `json:"at_least,omitempty"`
	// NewerThan makes the answer wait until something has changed after this sequence, up to 20s.
	NewerThan uint64 `json:"newer_than,omitempty"`
	// Progress asks for the progress of running tasks: see [ListPage.Live] and [ListPage.Wholes].
	Progress bool `json:"progress,omitempty"`
	// Counts asks for the number of tasks by state, of the whole queue or of all.
	Counts bool `json:"counts,omitempty"`
	// Query adds a query as people type it: terms such as state:error since:2h, and text. A term
	// must not repeat another field.
	Query string `json:"query,omitempty"`
	// At is a moment of the past: a sequence of the log, or a time; "" is now. For the past,
	// Progress fills only Wholes, and `suspect`, NewerThan, `text` and `records` are refused.
	At string `json:"at,omitempty"`
}

// Unchoosing are the fields, by their names in JSON, that choose no tasks but say how a list is
// answered and as of when. A command for many tasks refuses them: they would have no effect on it.
var Unchoosing = []string{"limit", "cursor", "after", "at_least", "newer_than", "progress", "counts", "at"}

// Choosing returns the fields that choose tasks, and the names of the others that are set.
func (r *ListRequest) Choosing() (only ListRequest, others []string) {
	only = *r
	is := reflect.ValueOf(&only).Elem()
	for _, f := range reflect.VisibleFields(is.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if field := is.FieldByIndex(f.Index); slices.Contains(Unchoosing, name) && !field.IsZero() {
			others = append(others, name)
			field.SetZero()
		}
	}
	return only, others
}

// Read adds the query to the other fields. The error wraps [ErrInvalid].
func (r *ListRequest) Read(now time.Time) error {
	if r.Query == "" {
		return nil
	}
	q, err := view.ParseFilter(r.Query, now)
	if err != nil {
		return Wrongf("the query has %w", err)
	}
	r.Query = ""
	if both := r.Filter.Join(&q); both != "" {
		return Wrongf("%s is said by the query and beside it; choose one", both)
	}
	return nil
}

// ErrPastText refuses to search a text in the past.
var ErrPastText = Wrongf("texts are searched in the present only: choose tasks of the past by job, label, parameter, state or time")

// ErrPastRecords refuses to search records where no server reads them.
var ErrPastRecords = Wrongf("records are searched in the present only, and in no file: they are not in the log")

// ListPage is a page of tasks.
type ListPage struct {
	// Tasks are in the order of their ids, the newest first.
	Tasks []task.Task `json:"tasks"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
	// Seq is the sequence of the log that the page reflects.
	Seq uint64 `json:"seq"`
	// Searched is how many tasks match all else of a search for records, and had theirs read for this
	// page: at most 500; Next goes on.
	Searched int `json:"searched,omitempty"`
	// Counts is by state, 0 included; nil if it was not asked for.
	Counts map[string]int `json:"counts,omitzero"`
	// Suspects are the tasks on doubtful nodes, and why the nodes are in doubt.
	Suspects map[task.ID]*node.Doubt `json:"suspects,omitempty"`
	// Unserved are pending tasks that no node takes, and why; those for one node alone are suspects.
	Unserved map[task.ID]string `json:"unserved,omitempty"`
	// Live is the progress that the programs of running tasks report.
	Live map[task.ID]*output.Live `json:"live,omitempty"`
	// Wholes is the progress of parents by their children.
	Wholes map[task.ID]*Whole `json:"wholes,omitempty"`
}

// pageForm encodes a page: as encoding/json does, at a fraction of its cost. Many rows share one
// spec.
var pageForm = form.Of[ListPage](events.NewSpecCache().Field())

// AppendJSON appends the page as JSON. The error says which part cannot be encoded. It is not a
// [json.Marshaler], for types that embed a page would then lose their other fields.
func (p *ListPage) AppendJSON(dst []byte) ([]byte, error) { return pageForm.Append(dst, p) }

// ReadJSON decodes what AppendJSON has encoded. Texts share the memory of data, and tasks of one
// specification share it, so the caller must modify neither. The error says what cannot be decoded.
func (p *ListPage) ReadJSON(data []byte) error {
	*p = ListPage{}
	err := pageForm.Read(data, p)
	if p.Tasks == nil {
		p.Tasks = []task.Task{}
	}
	return err
}

// Whole is the progress of a parent.
type Whole struct {
	// Ended counts the children that have ended, Failed those of them that failed, and Total all.
	Ended  int `json:"ended"`
	Failed int `json:"failed,omitempty"`
	Total  int `json:"total"`
	// Running are the names of running children, in order, at most ten.
	Running []string `json:"running,omitempty"`
}

// maxRunning is how many running children are named.
const maxRunning = 10

// WholeOf counts how the children of a parent stand.
func WholeOf(t *task.Task, ends map[task.ID]task.End) Whole {
	p := birth.ProgressOf(t, ends)
	w := Whole{Ended: p.Ended(), Total: p.Total(), Failed: p.States[task.Error] + p.States[task.Abnormal]}
	if t.Children == nil {
		return w
	}
	for _, name := range t.Children.Names {
		if s := ends[birth.ChildID(t.ID, name)].State; (s == task.Running || s == task.Cancelling) && len(w.Running) < maxRunning {
			w.Running = append(w.Running, name)
		}
	}
	return w
}

// WholesOf returns the progress of the running parents among tasks in a view; nil if the view
// cannot answer for many at once.
func WholesOf(ctx context.Context, v view.View, tasks []task.Task) (map[task.ID]*Whole, error) {
	staged, ok := v.(view.Whole)
	if !ok {
		return nil, nil
	}
	wholes := map[task.ID]*Whole{}
	for i := range tasks {
		t := &tasks[i]
		if !t.Live() || t.Children == nil {
			continue
		}
		states, err := staged.States(ctx, slices.Collect(maps.Values(birth.ChildIDs(t))))
		if err != nil {
			return nil, err
		}
		ends := make(map[task.ID]task.End, len(states))
		for id, state := range states {
			ends[id] = task.End{State: state}
		}
		whole := WholeOf(t, ends)
		wholes[t.ID] = &whole
	}
	return wholes, nil
}

// PastPageOf returns a page of tasks from a view of the past, with the progress and counts that a
// request asks for.
func PastPageOf(ctx context.Context, v view.View, f view.Filter, r *ListRequest) (page ListPage, err error) {
	f.Doubted = false // who was in doubt is not known
	if len(f.Records) > 0 {
		return page, ErrPastRecords
	}
	if page, err = PageOf(ctx, v, f, r.Counts); err == nil && r.Progress {
		page.Wholes, err = WholesOf(ctx, v, page.Tasks)
	}
	return page, err
}

// Text is the progress in one line: "3/8, 1 failed: transform, load".
func (w *Whole) Text() string {
	text := fmt.Sprintf("%d/%d", w.Ended, w.Total)
	if w.Failed > 0 {
		text += fmt.Sprintf(", %d failed", w.Failed)
	}
	if len(w.Running) > 0 {
		text += ": " + strings.Join(w.Running, ", ")
	}
	return text
}

// List asks the read model for tasks. The error wraps [jet.ErrNoService] if no
// server answers.
func (c *Client) List(ctx context.Context, r ListRequest) (ListPage, error) {
	var page ListPage
	err := c.ask(ctx, rights.TaskList, r, &page)
	return page, err
}

// RowsRequest asks for the rows of the read model, in the order of their ids.
type RowsRequest struct {
	// Limit is how many rows a page has: 1 to 1000, default 50. A page has fewer if they are large;
	// then Next continues.
	Limit int `json:"limit,omitempty"`
	// After is the Next of the previous page.
	After task.ID `json:"after,omitempty"`
	// OldestFirst reverses the order; by default the newest come first.
	OldestFirst bool `json:"oldest_first,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence.
	AtLeast uint64 `json:"at_least,omitempty"`
}

// RowPage is a page of rows, read: see [view.Rows].
type RowPage struct {
	Tasks []task.Task `json:"rows"`
	Next  task.ID     `json:"next,omitempty"`
	Seq   uint64      `json:"seq"`
}

// rowsForm reads what a read model stores. Many rows share one spec.
var rowsForm = form.Of[RowPage](form.Own(), events.NewSpecCache().Field())

// ReadJSON decodes the JSON of a [view.Rows]. Texts share the memory of data, and tasks of one
// specification share it, so the caller must modify neither.
func (p *RowPage) ReadJSON(data []byte) error {
	*p = RowPage{}
	return rowsForm.Read(data, p)
}

// Rows asks the read model for rows as it stores them. For all tasks that costs the server a fraction of
// [Client.List], which makes values of them and JSON again. The error wraps
// [millrace/jet.ErrNoService] if no server answers.
func (c *Client) Rows(ctx context.Context, r RowsRequest) (RowPage, error) {
	var page RowPage
	err := c.ask(ctx, rights.RowList, r, &page)
	return page, err
}

// PageOf returns the page that a filter chooses from a view. With counts it adds the number of
// tasks by state, of the filter's queue or of all. It leaves out what only the present knows.
func PageOf(ctx context.Context, v view.View, f view.Filter, counts bool) (ListPage, error) {
	found, err := v.List(ctx, view.Query{Kind: view.Tasks, Filter: f})
	if err != nil {
		return ListPage{}, err
	}
	page := ListPage{Tasks: found.Tasks, Next: found.Next, Seq: found.Point.Seq}
	if page.Tasks == nil {
		page.Tasks = []task.Task{}
	}
	if !counts {
		return page, nil
	}
	page.Counts = map[string]int{} // every state, 0 included
	for _, state := range task.States() {
		page.Counts[state.String()] = 0
	}
	all, err := v.Count(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{Queue: f.Queue}})
	for state, n := range all.States() {
		page.Counts[state.String()] += n
	}
	return page, err
}

// Last returns the sequence of the log's last message.
func (c *Client) Last(ctx context.Context) (uint64, error) {
	if c.role != "" {
		return asked{c}.end(ctx)
	}
	return c.store.Last(ctx)
}
