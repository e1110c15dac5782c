package task

import (
	"errors"
	"fmt"
	"time"

	"millrace/task/limit"
	"millrace/task/value"
)

// ErrQueueFull refuses a task whose queue holds as many waiting tasks as it may.
var ErrQueueFull = errors.New("the queue is full")

// Queue is what operators have said about a queue, as the facts about it add up.
// Nobody has to have said anything: a queue exists when somebody names it.
type Queue struct {
	Name string `json:"name"`
	// Paused is set while nothing of it is started.
	Paused *Pause `json:"paused,omitempty"`
	// Limit is how many of its tasks may run at once, and MaxWaiting how many may wait; 0 for no bound.
	Limit      int `json:"limit,omitempty"`
	MaxWaiting int `json:"max_waiting,omitempty"`
	// Rate is how often its tasks may start, whatever their jobs say; zero for no bound. RateSince is
	// the sequence of the fact that said so, 0 if nobody ever has.
	Rate      limit.Rate `json:"rate,omitzero"`
	RateSince uint64     `json:"rate_since,omitempty"`
	// Window names the calendar in whose hours its tasks start; "" if they start at any time.
	Window string `json:"window,omitempty"`
	// Head is the sequence of the last fact about it, 0 for none.
	Head uint64 `json:"head,omitempty"`
}

// Pause says since when, by whom and why a queue is paused.
type Pause struct {
	Since  time.Time `json:"since"`
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	// Until is when it ends by itself; zero for never.
	Until time.Time `json:"until,omitzero"`
	// Consumer names the consumer that is paused, if the NATS server alone has been told so and Millrace has not.
	Consumer string `json:"consumer,omitempty"`
}

// words says who must do what about a pause.
func (p *Pause) words(queue string) string {
	if p.Consumer != "" {
		return fmt.Sprintf("resume the consumer of queue %q (`nats consumer resume %s`): somebody has paused it on the NATS server until %s", queue, p.Consumer, clock(p.Until))
	}
	text := fmt.Sprintf("resume queue %q (`millrace queue resume %s`): it is paused", queue, queue)
	if p.By != "" {
		text += " by " + p.By
	}
	text += " since " + clock(p.Since)
	if !p.Until.IsZero() {
		text += " until " + clock(p.Until)
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// PausedAt is the pause that is in force at a time, nil if there is none.
func (q *Queue) PausedAt(now time.Time) *Pause {
	if p := q.Paused; p != nil && (p.Until.IsZero() || now.Before(p.Until)) {
		return p
	}
	return nil
}

// QueueEvent is a fact about a queue. The set is closed.
type QueueEvent interface{ isQueueEvent() }

// QueuePaused says that nothing of the queue is to be started.
type QueuePaused struct {
	Reason string `json:"reason,omitzero"`
	// Until is when that ends by itself; zero for never.
	Until time.Time `json:"until,omitzero"`
}

// QueueResumed ends a pause.
type QueueResumed struct {
	Reason string `json:"reason,omitzero"`
}

// QueueLimited sets all bounds of a queue; 0 is none.
type QueueLimited struct {
	// Running is how many of its tasks may run at once, Waiting how many may wait.
	Running int `json:"running,omitzero"`
	Waiting int `json:"waiting,omitzero"`
	// Rate is how often they may start.
	Rate limit.Rate `json:"rate,omitzero"`
	// Window names the calendar in whose hours they start.
	Window string `json:"window,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// QueuePurged says that waiting tasks of the queue were cancelled; each has a fact of its own.
type QueuePurged struct {
	Reason string `json:"reason,omitzero"`
	// Ended is how many.
	Ended int `json:"ended,omitzero"`
}

func (QueuePaused) isQueueEvent()  {}
func (QueueResumed) isQueueEvent() {}
func (QueueLimited) isQueueEvent() {}
func (QueuePurged) isQueueEvent()  {}

// EvolveQueue adds one recorded event to a queue. It is total, like [Evolve].
func EvolveQueue(q Queue, seq uint64, at time.Time, actor string, e QueueEvent) Queue {
	if seq <= q.Head {
		return q
	}
	q.Head = seq
	switch e := e.(type) {
	case QueuePaused:
		q.Paused = &Pause{Since: at, By: actor, Reason: e.Reason, Until: e.Until}
	case QueueResumed:
		q.Paused = nil
	case QueueLimited:
		q.Limit, q.MaxWaiting = max(e.Running, 0), max(e.Waiting, 0)
		q.rated(e.Rate, seq)
		if q.Window = e.Window; validQueueWindow(e.Window) != nil {
			q.Window = ""
		}
	}
	return q
}

// QueueCommand asks for a change of a queue and may be refused. The set is closed.
type QueueCommand interface{ isQueueCommand() }

// PauseQueue asks that nothing of the queue is started, for a while or, if For is 0, until
// somebody resumes it.
type PauseQueue struct {
	For    time.Duration
	Reason string
}

// ResumeQueue ends a pause.
type ResumeQueue struct{ Reason string }

// LimitQueue sets those bounds that are not nil; 0 is none.
type LimitQueue struct {
	Running, Waiting *int
	// Rate has no key: it is one for the whole queue.
	Rate *limit.Rate
	// Window names a calendar; "" is none.
	Window *string
	Reason string
	// Seen is the head of the queue that was looked at; any if it is empty.
	Seen []uint64
}

// Validate refuses a bound that cannot be.
func (c LimitQueue) Validate() error {
	for _, n := range []*int{c.Running, c.Waiting} {
		if n != nil && *n < 0 {
			return fmt.Errorf("a limit of %d: want 1 or more, or none", *n)
		}
	}
	if c.Rate != nil {
		if err := validQueueRate(*c.Rate); err != nil {
			return err
		}
	}
	if c.Window != nil {
		return validQueueWindow(*c.Window)
	}
	return nil
}

// PurgedQueue says what a purge has done.
type PurgedQueue QueuePurged

func (PauseQueue) isQueueCommand()  {}
func (ResumeQueue) isQueueCommand() {}
func (LimitQueue) isQueueCommand()  {}
func (PurgedQueue) isQueueCommand() {}

// DecideQueue returns the event that follows from a command. No event and no error
// means that what was asked for holds already.
func DecideQueue(q Queue, c QueueCommand, now time.Time) (QueueEvent, error) {
	switch c := c.(type) {
	case PauseQueue:
		if c.For < 0 {
			return nil, fmt.Errorf("a pause for %v: want more than 0, or nothing", c.For)
		}
		e := QueuePaused{Reason: c.Reason}
		if c.For > 0 {
			e.Until = now.Add(c.For).UTC()
		}
		if p := q.PausedAt(now); p != nil && p.Until.Equal(e.Until) && p.Reason == e.Reason {
			return nil, nil
		}
		return e, nil
	case ResumeQueue:
		if q.PausedAt(now) == nil {
			return nil, nil
		}
		return QueueResumed(c), nil
	case LimitQueue:
		e := QueueLimited{Running: q.Limit, Waiting: q.MaxWaiting, Rate: q.Rate, Window: q.Window, Reason: c.Reason}
		if err := c.Validate(); err != nil {
			return nil, err
		}
		for _, n := range []struct{ to, from *int }{{&e.Running, c.Running}, {&e.Waiting, c.Waiting}} {
			if n.from != nil {
				*n.to = *n.from
			}
		}
		if c.Rate != nil {
			e.Rate = *c.Rate
		}
		if c.Window != nil {
			e.Window = *c.Window
		}
		if e.Running == q.Limit && e.Waiting == q.MaxWaiting && e.Rate == q.Rate && e.Window == q.Window {
			return nil, nil
		}
		if err := value.Unseen(c.Seen, value.Overtaken{Is: q.Head}); err != nil {
			return nil, err
		}
		return e, nil
	case PurgedQueue:
		return QueuePurged(c), nil
	}
	return nil, fmt.Errorf("no rule for the command %T", c)
}
