package queue

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// ErrFull refuses a task whose queue already holds as many waiting tasks as it may.
var ErrFull = errors.New("the queue is full")

// Queue is the sum of the facts about a queue, which operators write. A queue needs no fact: it
// exists as soon as a task, job or worker names it.
type Queue struct {
	// Name is what tasks, jobs and workers call it.
	Name string `json:"name" redact:"keep"`
	// Paused is set while none of its tasks starts.
	Paused *Pause `json:"paused,omitempty"`
	// Resumed is when an operator last ended a pause; zero for never. [Queue.OpenSince] also knows
	// of pauses that ended by themselves.
	Resumed time.Time `json:"resumed,omitzero"`
	// Limit is how many of its tasks may run at once, MaxWaiting how many may wait; 0 for no bound.
	Limit      int `json:"limit,omitempty"`
	MaxWaiting int `json:"max_waiting,omitempty"`
	// Rate is how often its tasks may start, beside the rates of their jobs; zero for no bound.
	// RateSince is the sequence of the fact that set it, 0 if there is none.
	Rate      limit.Rate `json:"rate,omitzero"`
	RateSince uint64     `json:"rate_since,omitempty"`
	Valve
	// Notify are who is told of what becomes of its tasks, beside whom their jobs and the servers name.
	Notify []job.Notify `json:"notify,omitempty"`
	// Head is the sequence of the last fact about it, 0 for none.
	Head uint64 `json:"head,omitempty"`
}

// Pause says since when and why a queue is paused, and which operator paused it.
type Pause struct {
	// Since is when it was paused, and By the operator. Reason is what the operator said.
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty" redact:"actor"`
	Reason string    `json:"reason,omitempty" redact:"hide"`
	// Until is when the pause ends by itself; zero for never.
	Until time.Time `json:"until,omitzero"`
	// Consumer names the paused consumer, if only the NATS server was told to pause and Millrace
	// was not.
	Consumer string `json:"consumer,omitempty" redact:"keep"`
}

// Words describes the pause and how to end it.
func (p *Pause) Words(queue string) string {
	if p.Consumer != "" {
		return fmt.Sprintf("resume the consumer of queue %q (`nats consumer resume %s`): somebody has paused it on the NATS server until %s", queue, p.Consumer, value.Clock(p.Until))
	}
	text := fmt.Sprintf("resume queue %q (`millrace queue resume %s`): it is paused", queue, queue)
	if p.By != "" {
		text += " by " + p.By
	}
	text += " since " + value.Clock(p.Since)
	if !p.Until.IsZero() {
		text += " until " + value.Clock(p.Until)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// Bounds returns what bounds the queue.
func (q *Queue) Bounds() Limited {
	return Limited{Running: q.Limit, Waiting: q.MaxWaiting, Rate: q.Rate, Valve: q.Valve, Notify: q.Notify}
}

// PausedAt returns the pause in force at a time; nil if there is none.
func (q *Queue) PausedAt(now time.Time) *Pause {
	if p := q.Paused; p != nil && (p.Until.IsZero() || now.Before(p.Until)) {
		return p
	}
	return nil
}

// OpenSince returns when the last pause ended, by an operator or by itself; zero if there was none.
// It says nothing about a pause that is in force ([Queue.PausedAt]).
func (q *Queue) OpenSince(now time.Time) time.Time {
	if p := q.Paused; p != nil && !p.Until.IsZero() && !now.Before(p.Until) {
		return p.Until
	}
	return q.Resumed
}
