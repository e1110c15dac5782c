package simulation

import (
	"context"
	"errors"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// client submits, cancels and retries tasks the way package client does.
type client struct {
	*actor
	rec *events.Recorder
}

// orders is how many things a client does in its life.
const orders = 8

func (h *history) startClient(name string) {
	h.start(name, h.weather.watched, func(a *actor) {
		c := &client{actor: a, rec: h.recorder(a, name)}
		lasts := orders
		if h.variant.families { // whose tasks take longer to end, so that they can be retried
			lasts *= 4
		}
		for range lasts {
			a.turn("thinks", h.in(2*time.Second))
			a.setClock(false)
			if h.calm {
				return
			}
			switch {
			case h.variant.families && len(h.asked) >= fewFamilies:
				c.meddle(h.someTask())
			case len(h.asked) == 0 || h.chance(h.weather.fresh):
				c.submit()
			case h.variant.durable && h.rng.IntN(3) == 0:
				c.signal(h.someTask())
			case h.weather.watched && h.rng.IntN(8) == 0:
				c.rate(h.queue()) // without a scheduler nothing would admit the tasks that it holds
			case h.rng.IntN(5) == 0:
				c.release(h.someTask())
			case h.rng.IntN(6) == 0:
				c.dismiss(h.someTask())
			case h.rng.IntN(6) == 0:
				c.postpone(h.someTask())
			case h.rng.IntN(2) == 0:
				c.cancel(h.someTask())
			default:
				c.retry(h.someTask())
			}
		}
	})
}

// submit asks for a new task, and sometimes for the same once more.
func (c *client) submit() {
	id := c.h.newTask()
	s := c.h.submission(id)
	for times := 1 + c.h.rng.IntN(4)/3; times > 0; times-- {
		c.insist(func() error {
			losses := c.h.lost.times
			of, revision := followed(s.Job)
			birth, err := birth.Of(s, of, revision, c.now())
			if err != nil {
				panic(err) // the simulation wrote it
			}
			seq, err := c.rec.Submit(context.Background(), id, birth)
			if taken, is := errors.AsType[*events.Taken](err); is && s.Spec.Collapse != nil {
				return c.collapse(taken.Holder, task.Collapse{Of: id, Params: birth.Params})
			}
			if there, is := errors.AsType[*events.Exists](err); is { // the same was asked for before
				var t task.Task
				seq = there.Birth.Seq
				if t, err = c.rec.Load(context.Background(), id); err == nil {
					err = c.rec.Settle(context.Background(), &t)
				}
			}
			if seq > 0 && losses == c.h.lost.times {
				c.h.accepted[id] = true
			}
			return err
		})
	}
}

// collapse has a task stand for a submission, too.
func (c *client) collapse(id task.ID, also task.Collapse) error {
	t, err := c.rec.Load(context.Background(), id)
	if err != nil {
		return err
	}
	if t, _, err = c.rec.Do(context.Background(), t, also); err != nil {
		return err
	}
	return c.rec.Settle(context.Background(), &t)
}

// cancel asks for the end of a task.
func (c *client) cancel(id task.ID) {
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		t, event, err := c.rec.Do(ctx, t, task.Cancel{Reason: "a whim"})
		if _, waited := event.(task.CancelConfirmed); waited {
			err = c.rec.Log.Disarm(ctx, id, t.Head)
		}
		return err
	})
}

// release lets any node take a task that waits for certain ones.
func (c *client) release(id task.ID) {
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		if t, _, err = c.rec.Do(ctx, t, task.Unbind{Reason: "a third whim"}); err != nil && !errors.Is(err, task.ErrShared) {
			return err
		}
		return c.rec.Settle(ctx, &t)
	})
}

// postpone makes a task that waits be due later.
func (c *client) postpone(id task.ID) {
	due := c.h.in(10 * time.Second)
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		if t, _, err = c.rec.Do(ctx, t, task.Postpone{Asked: true, Due: due, Detail: "a fourth whim"}); err != nil {
			return err
		}
		return c.rec.Settle(ctx, &t)
	})
}

// rate gives a queue another rate, or takes it away.
func (c *client) rate(name string) {
	rates := []limit.Rate{{Limit: 1, Burst: 2}, {Limit: 3, Per: value.Duration(10 * time.Second)}, {Limit: 20}, {}}
	rate := rates[c.h.rng.IntN(len(rates))]
	c.insist(func() error {
		_, _, err := c.rec.DoQueue(context.Background(), name, queue.Limit{Rate: &rate})
		return err
	})
}

// dismiss takes a task off the list of dead letters, if it is on that.
func (c *client) dismiss(id task.ID) {
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		if _, _, err = c.rec.Do(ctx, t, task.Dismiss{Reason: "a fourth whim"}); errors.Is(err, task.ErrNotDead) {
			return nil
		}
		return err
	})
}

// retry gives a task another life, or completes the retry that another client began.
func (c *client) retry(id task.ID) {
	if c.h.variant.families {
		c.retryInLine(id)
		return
	}
	c.insist(func() error {
		ctx := context.Background()
		t, err := c.rec.Load(ctx, id)
		if err != nil {
			return err
		}
		if t, _, err = c.rec.Do(ctx, t, task.Reopen{Reason: "another whim"}); err != nil && !errors.Is(err, task.ErrRunning) {
			return err
		}
		return c.rec.Settle(ctx, &t)
	})
}

// insist does something again until it is done or refused. A client that knows a
// scheduler behind it may leave the rest to it.
func (c *client) insist(do func() error) {
	for {
		err := do()
		switch {
		case err == nil, errors.Is(err, task.ErrUnknown), errors.Is(err, events.ErrForgotten), blocked(err), errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrRunning), errors.Is(err, task.ErrNotWaiting):
			return
		case c.h.weather.watched && c.h.rng.IntN(2) == 0:
			c.h.remark(c.name, "gives up: "+err.Error())
			return
		}
	}
}

// blocked tells whether another task has the unique key.
func blocked(err error) bool {
	_, is := errors.AsType[*events.Taken](err)
	return is
}

// newTask names a task that may be spoken of from now on.
func (h *history) newTask() task.ID {
	id := taskID(len(h.asked) + 1)
	h.asked = append(h.asked, id)
	return id
}

func (h *history) someTask() task.ID {
	id := h.asked[h.rng.IntN(len(h.asked))]
	if h.variant.values {
		return birth.ChildID(id, oneOf(h, []string{"a", "aa", "b"}))
	}
	if t := h.fold.tasks[id]; h.variant.families && t.Children != nil && h.rng.IntN(2) == 0 {
		return birth.ChildID(id, t.Children.Names[h.rng.IntN(len(t.Children.Names))])
	}
	return id
}

// submission makes up a task.
func (h *history) submission(id task.ID) birth.Submission {
	upTo := func(n int) value.Duration { return value.Duration(time.Duration(h.rng.IntN(n)) * time.Second) }
	s := birth.Submission{ID: id, Queue: h.queue(), Spec: &job.Spec{Handler: "work"}}
	if h.variant.families {
		h.graph(&s)
		return s
	}
	if h.variant.follows {
		return birth.Submission{ID: id, Job: "extract"}
	}
	s.Spec.Retry = job.Retry{Max: h.rng.IntN(4), Min: upTo(5), Backoff: job.BackoffFixed}
	if h.policies.IntN(3) == 0 {
		s.Spec.Retry.Jitter, s.Spec.Retry.Backoff = []float64{0.5, 1}[h.policies.IntN(2)], job.BackoffExponential
		s.Spec.Retry.Budget, s.Spec.Retry.NotOn = value.Duration(time.Duration(h.policies.IntN(120))*time.Second), [][]string{nil, {value.Timeout}}[h.policies.IntN(2)]
	}
	if h.rng.IntN(3) == 0 {
		s.Spec.Handler, s.Spec.Run, s.Spec.OnRestart = "", &job.Run{Shell: "work"}, job.RestartAdopt
	} else if h.chance(h.weather.fatal) {
		s.Spec.Handler = fatal
	}
	if h.weather.watched && h.chance(h.weather.aimed) {
		h.aim(&s)
	}
	if h.weather.watched && (h.rng.IntN(3) == 0 || h.variant.crowded) {
		h.limit(&s)
	}
	if h.variant.thrifty && h.weather.watched && h.policies.IntN(3) > 0 {
		h.budget(&s)
	}
	if h.variant.forgets {
		h.unique(&s)
	}
	if h.variant.durable {
		h.durably(&s)
	}
	if h.variant.windowed && h.policies.IntN(2) == 0 {
		s.Spec.Window = minutes
	}
	if h.variant.roomy {
		// Attempts that outlive their process are played where one runs at a time.
		s.Spec.Handler, s.Spec.Run, s.Spec.OnRestart = "work", nil, ""
		if h.policies.IntN(4) > 0 {
			s.Spec.PerNode = limit.PerNodes{{Max: 1 + h.policies.IntN(5)/4, Key: []string{"", "/both"}[h.policies.IntN(2)]}}
		}
	}
	if h.rng.IntN(4) == 0 {
		if s.Delay = upTo(15); s.Spec.Collapse != nil {
			s.Delay = 0
		}
	}
	if h.rng.IntN(4) == 0 {
		s.Spec.Timeout.Pending = upTo(20)
	}
	if h.rng.IntN(2) == 0 {
		s.Spec.Timeout.Run, s.Spec.Timeout.Stop = 2*upTo(8), upTo(3)
	}
	return s
}

// aim restricts a task to certain nodes, some of which may never exist. It does so only where a
// scheduler runs: nothing else would ever move the task.
func (h *history) aim(s *birth.Submission) {
	names := []string{"n0", "n1", "n2", "n3", "n9"}
	h.rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	s.Nodes = names[:1+h.rng.IntN(3)]
	s.NoNode = job.NoNodes[h.rng.IntN(len(job.NoNodes))]
	if s.NoNode == job.NoNodeWait && !h.patient() { // for ever is too long for a history
		bound := value.Duration(time.Duration(1+h.rng.IntN(60)) * time.Second)
		s.Pending = &bound
	}
}

// queue returns one of the two queues that all workers serve.
func (h *history) queue() string {
	return []string{placement.DefaultQueue, "bulk"}[h.rng.IntN(2)]
}
