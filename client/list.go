package client

import (
	"context"
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
	// OldestFirst turns the order round; by default the newest come first.
	OldestFirst bool `json:"oldest_first,omitempty"`
	// AtLeast makes the answer wait until it reflects this sequence, for
	// example that of the caller's own last write.
	AtLeast uint64 `json:"at_least,omitempty"`
	// NewerThan makes the answer wait until something has changed after this sequence, up to 20s.
	NewerThan uint64 `json:"newer_than,omitempty"`
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
