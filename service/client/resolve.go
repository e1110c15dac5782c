package client

import (
	"context"
	"fmt"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
)

// Ambiguous is the error for a part of an ID that several tasks have.
type Ambiguous struct {
	Part string
	// Tasks are some of them, the newest first.
	Tasks []task.ID
	// More tells whether there are others.
	More bool
}

func (e *Ambiguous) Error() string {
	text := fmt.Sprintf("%s is part of the ids of %d tasks", e.Part, len(e.Tasks))
	if e.More {
		text = fmt.Sprintf("%s is part of the ids of more than %d tasks", e.Part, len(e.Tasks))
	}
	return fmt.Sprintf("%s, %s and %s among them", text, e.Tasks[0], e.Tasks[1])
}

// resolveLimit is how many tasks with the same part of an ID are looked up.
const resolveLimit = 10

// Resolve finds the task of a whole ID, or of a part: at least [task.MinPart] characters from its
// beginning or its end. The error wraps [task.ErrUnknown] if there is none, and is an [*Ambiguous]
// if several tasks have the part. A part needs a millrace server; if none answers, the error wraps
// [jet.ErrNoService].
func (c *Client) Resolve(ctx context.Context, arg string) (task.ID, error) {
	if id, err := task.ParseID(arg); err == nil {
		return id, nil
	}
	part, ok := task.Part(arg)
	if !ok {
		return "", Wrongf("%q is no task id: want the 26 characters, or at least %d from its beginning or end", arg, task.MinPart)
	}
	last, err := c.Last(ctx)
	if err != nil {
		return "", err
	}
	page, err := c.List(ctx, ListRequest{Filter: view.Filter{IDPart: part, Limit: resolveLimit}, AtLeast: last})
	switch {
	case err != nil:
		return "", err
	case len(page.Tasks) == 0:
		return "", fmt.Errorf("task %s: %w", arg, task.ErrUnknown)
	case len(page.Tasks) == 1:
		return page.Tasks[0].ID, nil
	}
	refusal := &Ambiguous{Part: arg, More: page.Next != ""}
	for i := range page.Tasks {
		refusal.Tasks = append(refusal.Tasks, page.Tasks[i].ID)
	}
	return "", refusal
}

// NewID makes an id for a task that is submitted later ([birth.Submission.ID]), as from an outbox: a
// ULID of this machine's time. Ids of one process increase. It needs no server.
func NewID() task.ID { return task.ID(events.NewID(time.Now())) }
