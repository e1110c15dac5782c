package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/queue"
	"millrace/task/value"
)

// ErrWrongState: the command is impossible for every task in that state.
var ErrWrongState = errors.New("that can be done to no task in this state")

// wrongState is an [ErrWrongState] with a reason.
type wrongState string

func (w wrongState) Error() string { return string(w) }
func (w wrongState) Unwrap() error { return ErrWrongState }

// StatesFor returns the states of the tasks that a command changes: those asked for, else the usual
// ones. The error wraps [ErrWrongState].
func StatesFor(asked, usual []task.State) ([]task.State, error) {
	for _, s := range asked {
		switch {
		case s.Terminal() == usual[0].Terminal():
		case s.Terminal():
			return nil, wrongState(fmt.Sprintf("tasks that are %s have ended, and this is for those that have not", s))
		default:
			return nil, wrongState(fmt.Sprintf("tasks that are %s have not ended, and this is for those that have", s))
		}
	}
	if len(asked) == 0 {
		asked = usual
	}
	return asked, nil
}

// BulkReport is the result of a command for many tasks.
type BulkReport struct {
	// Batch is recorded in each fact that the command wrote.
	Batch string `json:"batch,omitempty"`
	// Chosen is how many tasks the filters chose, as of Seq; Done is how many were changed.
	Chosen int    `json:"chosen"`
	Seq    uint64 `json:"seq"`
	Done   int    `json:"done"`
	// DryRun tells that nothing was changed.
	DryRun bool `json:"dry_run,omitempty"`
	// Interrupted tells that not all were tried.
	Interrupted bool `json:"interrupted,omitempty"`
	// States counts the changed tasks by their new state; for a dry run, the chosen ones.
	States map[string]int `json:"states,omitzero"`
	// Tasks are the first of the tasks that were changed or, for a dry run, chosen.
	Tasks []task.ID `json:"tasks"`
	// Refused are the tasks that could not be changed.
	Refused []Refusal `json:"refused"`
}

// Refusal is a task that could not be changed, and why.
type Refusal struct {
	// Task is its id. Error says why it could not be changed.
	Task  task.ID `json:"task"`
	Error string  `json:"error"`
}

// Bulk performs a command on all tasks of a list.
type Bulk struct {
	// Request chooses the tasks, and List lists them page by page, in the order of ids, so that
	// changes move nothing between pages.
	Request ListRequest
	List    func(context.Context, ListRequest) (ListPage, error)
	// Most is how many tasks are changed at most; 0 for all.
	Most int
	// Leave tells which listed tasks are left out; nil for none.
	Leave func(*task.Task) bool
	// Do changes one task and returns it; nil if there was nothing to do. Several calls run
	// concurrently.
	Do func(context.Context, task.Task) (*task.Task, error)
	// Each, if not nil, is called with each changed task, one call at a time.
	Each func(*task.Task)
}

// bulkAtOnce is how many tasks are changed concurrently, and BulkPage how many are listed per page.
const bulkAtOnce, BulkPage = 16, view.MaxLimit

// Choose passes the chosen tasks to each, page by page.
func (b *Bulk) Choose(ctx context.Context, report *BulkReport, each func([]task.Task) error) error {
	r := b.Request
	r.Limit = BulkPage
	for {
		page, err := b.List(ctx, r)
		if err != nil {
			return err
		}
		report.Seq = page.Seq
		meant := page.Tasks[:0]
		for i := range page.Tasks {
			if b.Leave == nil || !b.Leave(&page.Tasks[i]) {
				meant = append(meant, page.Tasks[i])
			}
		}
		if left := b.Most - report.Chosen; b.Most > 0 && len(meant) > left {
			meant = meant[:left]
		}
		report.Chosen += len(meant)
		if err := each(meant); err != nil {
			return err
		}
		if r.Cursor = page.Next; r.Cursor == "" || b.Most > 0 && report.Chosen == b.Most {
			return nil
		}
	}
}

// newBulkReport returns an empty report.
func newBulkReport() BulkReport {
	return BulkReport{States: map[string]int{}, Tasks: []task.ID{}, Refused: []Refusal{}}
}

// Foresee has a server count the tasks that a command would change, by state: cancel, retry, signal, dismiss or
// undismiss. The report names the first [BulkPage] of them. The report says that it was interrupted if counting took more than 15 s.
// Of the request only the fields that choose tasks count. The error wraps [jet.ErrNoService] if no
// server answers.
func (c *Client) Foresee(ctx context.Context, act string, of ListRequest) (report BulkReport, err error) {
	of, _ = of.Choosing()
	err = c.ask(ctx, rights.TasksCount, struct {
		For    string      `json:"for"`
		Filter ListRequest `json:"filter"`
	}{act, of}, &report)
	return report, err
}

// Look reports which tasks would be changed.
func (b *Bulk) Look(ctx context.Context, each func([]task.Task) error) (BulkReport, error) {
	r := newBulkReport()
	r.DryRun = true
	err := b.Choose(ctx, &r, func(tasks []task.Task) error {
		for i := range tasks {
			r.States[tasks[i].State.String()]++
		}
		return each(tasks)
	})
	return r, err
}

// Run changes each task, until ctx ends: then the report says that it was interrupted. It waits for
// changes in progress.
func (b *Bulk) Run(ctx context.Context, batch string) (BulkReport, error) {
	r := newBulkReport()
	r.Batch = batch
	var mu sync.Mutex // guards r, except what Choose writes
	one := func(k task.Task) {
		is, err := b.Do(ctx, k)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil && ctx.Err() != nil: // it may be done; a repetition will say so
		case err != nil:
			r.Refused = append(r.Refused, Refusal{k.ID, err.Error()})
		case is != nil:
			r.Done++
			r.States[is.State.String()]++
			r.Tasks = append(r.Tasks, is.ID)
			if b.Each != nil {
				b.Each(is)
			}
		}
	}
	err := b.Choose(ctx, &r, func(tasks []task.Task) error {
		var g errgroup.Group
		g.SetLimit(bulkAtOnce)
		for _, k := range tasks {
			if ctx.Err() != nil {
				break
			}
			g.Go(func() error { one(k); return nil })
		}
		_ = g.Wait() // the functions return no errors
		return ctx.Err()
	})
	if r.Interrupted = ctx.Err() != nil; r.Interrupted {
		err = nil
	}
	return r, err
}

// Purge chooses waiting tasks of a queue.
type Purge struct {
	// Queue is its name.
	Queue string `json:"queue"`
	// States are the states of the tasks to cancel; none may be a running one. Default: pending,
	// and those held tasks that the queue's rate holds.
	States []task.State `json:"states,omitempty"`
	// Until is the latest time of submission. Default: any time.
	Until time.Time `json:"until,omitzero"`
	// Reason says why, for the log. DryRun counts the tasks and changes nothing.
	Reason string `json:"reason,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"`
}

// Validate returns an error that says what is wrong with a purge. It wraps [ErrInvalid].
func (p *Purge) Validate() error {
	if err := value.ValidName("queue", p.Queue); err != nil {
		return Wrong(err)
	}
	for _, s := range p.States {
		if t := (task.Task{State: s}); !t.Waiting() {
			return Wrongf("%s tasks do not wait", s)
		}
	}
	return nil
}

// PurgeQueue cancels the waiting tasks of a queue, as a list has them now; tasks that have started
// or ended since are left alone.
func (c *Client) PurgeQueue(ctx context.Context, p *Purge, list func(context.Context, ListRequest) (ListPage, error)) (BulkReport, error) {
	if err := p.Validate(); err != nil {
		return BulkReport{}, err
	}
	last, err := c.Last(ctx)
	if err != nil {
		return BulkReport{}, err
	}
	b := Bulk{List: list, Request: ListRequest{Filter: view.Filter{States: p.States, Queue: p.Queue, OldestFirst: true, Until: p.Until}, AtLeast: last}}
	if len(p.States) == 0 {
		b.Request.States = []task.State{task.Pending, task.Held}
		b.Leave = func(t *task.Task) bool { return t.State == task.Held && !t.Throttled }
	}
	if p.DryRun {
		return b.Look(ctx, func([]task.Task) error { return nil })
	}
	b.Do = func(ctx context.Context, t task.Task) (*task.Task, error) {
		done, err := c.CancelWaiting(ctx, t.ID, p.Reason)
		if err != nil || !done {
			return nil, err
		}
		t.State = task.Cancelled
		return &t, nil
	}
	r, err := b.Run(ctx, "")
	if r.Done > 0 {
		telling, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_, _, said := c.rec.DoQueue(telling, p.Queue, queue.Purge{Ended: r.Done, Reason: p.Reason})
		err = errors.Join(err, said)
	}
	return r, err
}
