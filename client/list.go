package client

import (
	"context"
	"fmt"
	"strings"
	"time"

	"millrace/node"
	"millrace/task"
)

// Subjects of the service that answers from the read model. They are the same
// for programs in other languages; docs/nats-cli.md shows them in use.
const (
	SubmitSubject   = "mr.api.task.submit"
	GetSubject      = "mr.api.task.get"
	ListSubject     = "mr.api.task.list"
	CancelSubject   = "mr.api.task.cancel"
	ReleaseSubject  = "mr.api.task.release"
	SignalSubject   = "mr.api.task.signal"
	RetrySubject    = "mr.api.task.retry"
	CopySubject     = "mr.api.task.copy"
	PlanSubject     = "mr.api.task.plan"
	NodeListSubject = "mr.api.node.list"
	DeadListSubject = "mr.api.dead.list"
	// DeadDismissSubject takes a dead letter off the list: a task by its id, or a
	// message by its sequence.
	DeadDismissSubject = "mr.api.dead.dismiss"

	NodeGetSubject      = "mr.api.node.get"
	NodeWaitSubject     = "mr.api.node.wait"
	NodeDrainSubject    = "mr.api.node.drain"
	NodeUndrainSubject  = "mr.api.node.undrain"
	NodeCordonSubject   = "mr.api.node.cordon"
	NodeUncordonSubject = "mr.api.node.uncordon"
	NodeReleaseSubject  = "mr.api.node.release"
	NodeLabelSubject    = "mr.api.node.label"

	ScheduleListSubject   = "mr.api.schedule.list"
	ScheduleGetSubject    = "mr.api.schedule.get"
	SchedulePauseSubject  = "mr.api.schedule.pause"
	ScheduleResumeSubject = "mr.api.schedule.resume"
	ScheduleRunSubject    = "mr.api.schedule.run"
)

// ListRequest chooses tasks. All fields that are set must hold.
type ListRequest struct {
	States []task.State `json:"states,omitempty"`
	// Dead chooses dead letters: abnormal tasks that nobody has dismissed. States
	// has no meaning then.
	Dead bool `json:"dead,omitempty"`
	// Suspect chooses tasks of whose node nothing may be expected: those that run on one
	// that has vanished or is late with its heartbeat, or wait for such a one alone.
	Suspect bool   `json:"suspect,omitempty"`
	Job     string `json:"job,omitempty"`
	Node    string `json:"node,omitempty"`
	Queue   string `json:"queue,omitempty"`
	// Schedule is which one made the task.
	Schedule string `json:"schedule,omitempty"`
	// Roots leaves out the tasks that have a parent: steps, values of a list, and those on several nodes.
	Roots bool `json:"roots,omitempty"`
	// ID is a part of the task's: at least [task.MinPart] characters from its beginning or its end.
	ID string `json:"id,omitempty"`
	// Labels must all be there with these values.
	Labels map[string]string `json:"labels,omitempty"`
	// Priorities are those that it may have: the larger the more urgent. Default: any.
	Priorities []int `json:"priorities,omitempty"`
	// Batch is the bulk command that touched them last.
	Batch string `json:"batch,omitempty"`
	// Since and Until bound the time of submission.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Text must be part of the id, the job's name, the command or the message, in any case.
	Text string `json:"text,omitempty"`
	// Limit is how many tasks a page has: 1 to 1000, default 50. A page has fewer if
	// they would not go into one message; Next then leads on.
	Limit int `json:"limit,omitempty"`
	// Cursor is the Next of the page before.
	Cursor string `json:"cursor,omitempty"`
	// After is the last task of the page before; it does what Cursor does.
	After task.ID `json:"after,omitempty"`
	// OldestFirst turns the order round; by default the newest come first.
	OldestFirst bool `json:"oldest_first,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence, for
	// example that of the caller's own last write.
	AtLeast uint64 `json:"at_least,omitempty"`
	// NewerThan makes the answer wait until something has changed after this sequence, up to 20s.
	NewerThan uint64 `json:"newer_than,omitempty"`
	// Progress asks how far the tasks are that run: see [ListPage.Live] and [ListPage.Wholes].
	Progress bool `json:"progress,omitempty"`
	// Counts asks for the number of tasks by state, of the whole queue or of all.
	Counts bool `json:"counts,omitempty"`
}

// ListPage is a page of tasks.
type ListPage struct {
	Tasks []task.Task `json:"tasks"`
	// Next is the cursor of the next page; "" if this is the last.
	Next string `json:"next,omitempty"`
	// Seq is the sequence of the log that the page reflects.
	Seq uint64 `json:"seq"`
	// Counts is by state.
	Counts map[string]int `json:"counts,omitzero"`
	// Suspects are those of the tasks of whose node nothing may be expected, and why.
	Suspects map[task.ID]*node.Doubt `json:"suspects,omitempty"`
	// Live is what the programs of those that run say of themselves.
	Live map[task.ID]*task.Live `json:"live,omitempty"`
	// Wholes are how far those have come that run as children.
	Wholes map[task.ID]*Whole `json:"wholes,omitempty"`
}

// Whole is how far a task has come that runs as children.
type Whole struct {
	// Ended counts the children that have, Failed those of them that failed, and Total all.
	Ended  int `json:"ended"`
	Failed int `json:"failed,omitempty"`
	Total  int `json:"total"`
	// Running are the names of those that run, in order, at most ten.
	Running []string `json:"running,omitempty"`
}

// maxRunning is how many running children are named.
const maxRunning = 10

// WholeOf sums up how far the children of a parent have come.
func WholeOf(t *task.Task, ends map[task.ID]task.End) Whole {
	p := t.Progress(ends)
	w := Whole{Ended: p.Ended(), Total: p.Total(), Failed: p.States[task.Error] + p.States[task.Abnormal]}
	if t.Children == nil {
		return w
	}
	for _, name := range t.Children.Names {
		if s := ends[task.ChildID(t.ID, name)].State; (s == task.Running || s == task.Cancelling) && len(w.Running) < maxRunning {
			w.Running = append(w.Running, name)
		}
	}
	return w
}

// Text is that in one line: "3/8, 1 failed: transform, load".
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
	err := c.store.Ask(ctx, ListSubject, r, &page)
	return page, err
}

// Last is the sequence of the log's last message.
func (c *Client) Last(ctx context.Context) (uint64, error) { return c.store.Last(ctx) }
