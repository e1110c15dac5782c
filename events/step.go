package events

import (
	"time"

	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
)

// Step is a record with its effect, for readers that count and do not keep tasks themselves. A
// record without effect (a stale offer, a result of an older epoch) has the same State and Epoch
// before and after.
type Step struct {
	// Record is valid only as long as its batch.
	Record *Record
	// Was and Is are the task before and after; both are zero if the record is not about a task.
	Was, Is Glance
	// Task is the task after the batch, which may be further than Is; nil if the record is not
	// about a task. It is valid as long as the record, and must not be modified.
	Task *task.Task
}

// Retold tells whether the record says again what earlier ones have said, for the log forgets those.
func (r *Record) Retold() bool {
	switch r.Fact.Event.(type) {
	case task.Carried, task.Kept, node.Carried, queue.Carried, task.DefinitionCarried:
		return true
	}
	return r.Fact.Repeats > 0
}

// Glance is the part of a task that figures use.
type Glance struct {
	task.Course
	// Reason is the code beside the state.
	Reason string
	// Queue is [task.Work.QueueName]: never the internal name of a selector's route.
	Queue string
	// Job is the task's job, and Breaker that job's breaker in the task's spec; nil for none.
	Job     string
	Breaker *limit.Breaker
	// Node and Session name the worker that runs it or ran it last.
	Node, Session string
	// Parent is the parent of a child task.
	Parent task.ID
	// Since is when the state began.
	Since time.Time
}

// GlanceAt returns the Glance of a task.
func GlanceAt(t *task.Task) Glance {
	var breaker *limit.Breaker
	if t.Spec != nil {
		breaker = t.Spec.Breaker
	}
	return Glance{
		Job: t.Job, Breaker: breaker,
		Course: t.Course(), Reason: t.Reason, Queue: t.QueueName(), Node: t.Node, Session: t.Session,
		Parent: t.Parent, Since: t.Since,
	}
}
