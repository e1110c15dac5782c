package client

import (
	"time"

	"millrace/events"
	"millrace/task"
)

// NewID draws an id for a task that is submitted later ([task.Submission.ID]), as from an outbox: a
// ULID of this machine's time. Ids of one process grow. It needs no server.
func NewID() task.ID { return task.ID(events.NewID(time.Now())) }
