package queue

import (
	"fmt"
	"time"

	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// Command asks for a change of a queue and may be refused. The set is closed.
type Command interface{ isQueueCommand() }

// PauseFor pauses the queue: none of its tasks starts, for a time or, if For is 0, until an
// operator resumes it.
type PauseFor struct {
	For    time.Duration
	Reason string
}

// Resume ends a pause.
type Resume struct{ Reason string }

// Limit sets what is not nil; 0, {} and "" mean no bound.
type Limit struct {
	// Running is how many of its tasks may run at one time, and Waiting how many may wait.
	Running *int `json:"running,omitempty"`
	Waiting *int `json:"waiting,omitempty"`
	// Rate has no key: it applies to the whole queue.
	Rate *limit.Rate `json:"rate,omitempty"`
	// Window names a calendar; "" means none.
	Window *string `json:"window,omitempty"`
	// Notify are who is told of what becomes of its tasks; [] means nobody.
	Notify []job.Notify `json:"notify,omitempty"`
	Reason string       `json:"-"`
	// Seen is the head of the queue that the operator saw; if it is empty, any head will do.
	Seen []uint64 `json:"-"`
}

// Empty tells whether it sets no bound.
func (c Limit) Empty() bool {
	return c.Running == nil && c.Waiting == nil && c.Rate == nil && c.Window == nil && c.Notify == nil
}

// Validate refuses an invalid bound.
func (c Limit) Validate() error {
	for _, n := range []*int{c.Running, c.Waiting} {
		if n != nil && *n < 0 {
			return fmt.Errorf("a limit of %d: want 1 or more, or none", *n)
		}
	}
	if c.Rate != nil {
		if err := validRate(*c.Rate); err != nil {
			return err
		}
	}
	if c.Window != nil {
		if err := validWindow(*c.Window); err != nil {
			return err
		}
	}
	return job.ValidNotify(c.Notify, Unserved)
}

// Purge records what a purge did.
type Purge Purged

func (PauseFor) isQueueCommand() {}
func (Resume) isQueueCommand()   {}
func (Limit) isQueueCommand()    {}
func (Purge) isQueueCommand()    {}

// Decide returns the event that follows from a command. No event and no error means that the
// requested state holds already.
func Decide(q Queue, c Command, now time.Time) (Event, error) {
	switch c := c.(type) {
	case PauseFor:
		if c.For < 0 {
			return nil, fmt.Errorf("a pause for %v: want more than 0, or nothing", c.For)
		}
		e := Paused{Reason: c.Reason}
		if c.For > 0 {
			e.Until = now.Add(c.For).UTC()
		}
		if p := q.PausedAt(now); p != nil && p.Until.Equal(e.Until) && p.Reason == e.Reason {
			return nil, nil
		}
		return e, nil
	case Resume:
		if q.PausedAt(now) == nil {
			return nil, nil
		}
		return Resumed(c), nil
	case Limit:
		e := q.Bounds()
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
		if len(c.Notify) > 0 {
			e.Notify = c.Notify
		} else if c.Notify != nil {
			e.Notify = nil
		}
		if e.Same(q.Bounds()) {
			return nil, nil
		}
		e.Reason = c.Reason
		if err := value.Unseen(c.Seen, value.Overtaken{Is: q.Head}); err != nil {
			return nil, err
		}
		return e, nil
	case Purge:
		return Purged(c), nil
	}
	return nil, fmt.Errorf("no rule for the command %T", c)
}
