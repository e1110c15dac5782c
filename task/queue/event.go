package queue

import (
	"fmt"
	"reflect"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
)

// Event is a fact about a queue. The set is closed.
type Event interface{ isQueueEvent() }

// Paused records that no task of the queue is to start.
type Paused struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
	// Until is when the pause ends by itself; zero for never.
	Until time.Time `json:"until,omitzero"`
}

// Resumed ends a pause.
type Resumed struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
}

// Limited sets all bounds of a queue, and who is told of its tasks; 0 means no bound.
type Limited struct {
	// Running is how many of its tasks may run at once. Waiting is how many may wait.
	Running int `json:"running,omitzero"`
	Waiting int `json:"waiting,omitzero"`
	// Rate is how often its tasks may start.
	Rate limit.Rate `json:"rate,omitzero"`
	Valve
	// Notify are who is told of what becomes of its tasks.
	Notify []job.Notify `json:"notify,omitempty"`
	Reason string       `json:"reason,omitzero" redact:"hide"`
}

// Unserved is what people can be told of a queue, beside [job.NoticeKinds]: tasks wait in it, and no worker takes
// them.
const Unserved = "queue"

// Same tells whether two say the same.
func (e Limited) Same(as Limited) bool { return reflect.DeepEqual(e, as) }

// Words describes the bounds.
func (e Limited) Words() string {
	text := most(e.Running, "run at once") + "; " + most(e.Waiting, "wait")
	if e.Rate.Limit > 0 {
		text += "; " + e.Rate.Words() + " may start"
	}
	if !e.Always() {
		text += "; in " + e.Valve.Words()
	}
	for i := range e.Notify {
		text += "; tells " + e.Notify[i].Words()
	}
	return text
}

func most(n int, may string) string {
	if n == 0 {
		return "any number may " + may
	}
	return fmt.Sprintf("at most %d may %s", n, may)
}

// Purged records that waiting tasks of the queue were cancelled; each has a fact of its own.
type Purged struct {
	Reason string `json:"reason,omitzero" redact:"hide"`
	// Ended is how many tasks it cancelled.
	Ended int `json:"ended,omitzero"`
}

// Carried is all that the facts about a queue say, up to the one at its Head. It is written when the
// log is about to forget some of them.
type Carried struct {
	Fold Queue `json:"fold"`
}

func (Carried) isQueueEvent() {}
func (Paused) isQueueEvent()  {}
func (Resumed) isQueueEvent() {}
func (Limited) isQueueEvent() {}
func (Purged) isQueueEvent()  {}

// Evolve adds one recorded event to a queue. It is total, like that of a task.
func Evolve(q Queue, seq uint64, at time.Time, actor string, e Event) Queue {
	if seq <= q.Head {
		return q
	}
	q.Head = seq
	switch e := e.(type) {
	case Carried:
		if e.Fold.Name == q.Name {
			q = e.Fold
			q.Head = seq
		}
	case Paused:
		q.Paused = &Pause{Since: at, By: actor, Reason: e.Reason, Until: e.Until}
	case Resumed:
		if q.Paused != nil {
			q.Paused, q.Resumed = nil, at
		}
	case Limited:
		q.Limit, q.MaxWaiting = max(e.Running, 0), max(e.Waiting, 0)
		q.rated(e.Rate, seq)
		q.Valve = e.Valve.valid()
		if q.Notify = e.Notify; len(e.Notify) == 0 || job.ValidNotify(e.Notify, Unserved) != nil {
			q.Notify = nil
		}
	}
	return q
}
