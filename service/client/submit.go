package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/events/submit"
	"millrace/task"
	"millrace/task/birth"
)

// Errors of a refused submission, beside those of [Client.Submit].
var (
	// ErrInvalid: the submission is wrong in itself; or, by [Wrong], another request.
	ErrInvalid = submit.ErrInvalid
	// ErrOther: the id belongs to a task that does something else.
	ErrOther = submit.ErrOther
)

// Receipt is the result of a submission.
type Receipt = submit.Receipt

// invalid is an error in a request other than a submission. Its text says what is wrong.
type invalid struct{ error }

func (i invalid) Unwrap() error        { return i.error }
func (i invalid) Is(target error) bool { return target == ErrInvalid }

// Wrong marks an error as the caller's, such as a bad filter or name. It reads as err does, and
// wraps [ErrInvalid].
func Wrong(err error) error { return invalid{err} }

// Wrongf is [Wrong] for a formatted text.
func Wrongf(format string, args ...any) error { return invalid{fmt.Errorf(format, args...)} }

// Submit makes a task. When it returns without an error the task is in the log and will come to an
// end.
//
// If the submission has an id, one task is made under it, however many submit concurrently: the
// same submission again gets the first one's receipt with [submit.Receipt.Again], any other an error
// that wraps [ErrOther].
//
// The error wraps [ErrInvalid] if a field is wrong or submitters may not set it,
// [definitions.ErrNoJob] if the job does not exist, [events.ErrTooLarge] if the parameters are too
// large, a [*events.Taken] if another task has its unique key, [queue.ErrFull] if the queue's limit
// of waiting tasks is reached, or ctx's error if ctx ended before the log answered. In that last
// case the task may exist, and submitting again under the same ID is safe.
func (c *Client) Submit(ctx context.Context, s birth.Submission) (Receipt, error) {
	if err := submit.Outside(&s); err != nil {
		return Receipt{}, submitting(err)
	}
	if c.role != "" {
		var made Receipt
		err := c.submitAsked(ctx, []birth.Submission{s}, func(r Receipt) { made = r })
		return made, err
	}
	r, err := c.desk.Submit(ctx, s)
	return r, submitting(err)
}

func submitting(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("submit: %w", err)
}

// SubmitMany makes n equal tasks, far faster than one by one, and calls each with every receipt, in
// order. Its error is the first that occurred; tasks before and after it may exist.
func (c *Client) SubmitMany(ctx context.Context, s birth.Submission, n int, each func(Receipt)) error {
	err := submit.Outside(&s)
	if err == nil && c.role != "" {
		return c.submitAsked(ctx, slices.Repeat([]birth.Submission{s}, n), each)
	}
	if err == nil {
		err = c.desk.SubmitMany(ctx, s, n, each)
	}
	return submitting(err)
}

// SubmitAll makes tasks in this order, far faster than one by one: for example the steps of a
// graph, where one needs the ID of another before that exists. It calls each with every receipt, in
// order. If one of them is wrong, nothing is submitted; any other error is the first that occurred,
// and tasks before and after it may exist.
//
// An ID that this process has just made with [events.NewID] is [birth.Submission.Fresh]. Submissions
// with any other ID, or with a unique key, are handled one after the other, as by [Client.Submit].
func (c *Client) SubmitAll(ctx context.Context, all []birth.Submission, each func(Receipt)) error {
	for i := range all {
		if err := submit.Outside(&all[i]); err != nil {
			return submitting(fmt.Errorf("task %d of %d: %w", i+1, len(all), err))
		}
	}
	if c.role != "" {
		return c.submitAsked(ctx, all, each)
	}
	return submitting(c.desk.SubmitAll(ctx, all, each))
}

// Copy makes a new task that does what another task does, as changed by s; see [birth.Copy]. The
// other task stays as it is. The error wraps [task.ErrUnknown] if there is no such task, else it is
// one of [Client.Submit]'s.
func (c *Client) Copy(ctx context.Context, of task.ID, s birth.Submission) (Receipt, error) {
	err := submit.Outside(&s)
	if err == nil && c.role != "" {
		var r Receipt
		err = c.ask(ctx, rights.TaskCopy, struct {
			ID   task.ID          `json:"id"`
			Task birth.Submission `json:"task"`
		}{of, s}, &r)
		return r, toldOf(err, "task "+string(of), task.ErrUnknown)
	}
	if err == nil {
		var r Receipt
		if r, err = c.desk.Copy(ctx, of, s); err == nil {
			return r, nil
		}
	}
	return Receipt{}, fmt.Errorf("copy: %w", err)
}

// Spawn makes a child of a running task, for the worker that runs that task: s has the id and the
// parent that [birth.ChildID] gives it. Asking for the same child again makes no second one. If a
// child was stopped with its parent, and the reopened parent asks for it, it is reopened.
//
// Beside the errors of [Client.Submit] the error wraps [task.ErrUnknown] or [task.ErrEnded] if the
// parent does not exist or gets no more children ([birth.Spawns]), and [task.ErrOther] if the
// child exists and does something else, which is harmless if it is this parent's own.
func (c *Client) Spawn(ctx context.Context, s birth.Submission) error {
	if err := c.spawn(ctx, s); err != nil {
		return fmt.Errorf("spawn: %w", err)
	}
	return nil
}

func (c *Client) spawn(ctx context.Context, s birth.Submission) error {
	if s.Parent == "" || !s.ID.Derived() || birth.ChildID(s.Parent, "")[:10] != s.ID[:10] {
		return fmt.Errorf("%w: id %s is not that of a child of task %q", ErrInvalid, s.ID, s.Parent)
	}
	parent, err := c.rec.Load(ctx, s.Parent)
	if err == nil {
		err = birth.Spawns(&parent)
	}
	if err != nil {
		return err
	}
	n, err := c.desk.Prepare(ctx, s)
	if err != nil {
		return err
	}
	err = c.rec.Unborn(ctx, n.ID)
	if there, is := errors.AsType[*events.Exists](err); is {
		if err := c.respawn(ctx, &s); err != nil {
			return err
		}
		return c.desk.SameBirth(there, n.Birth)
	}
	if err == nil {
		_, err = c.desk.Bear(ctx, &n) // no other task can stand for it: the program knows it by its id
	}
	if err == nil {
		err = c.desk.Raise(ctx, &n)
	}
	return err
}

// respawn reopens an existing child if it was stopped with its parent.
func (c *Client) respawn(ctx context.Context, s *birth.Submission) error {
	child, err := c.rec.Load(ctx, s.ID)
	switch {
	case err != nil:
		return err
	case child.Parent != s.Parent:
		return fmt.Errorf("task %s has the id of this child, and task %s did not make it", s.ID, s.Parent)
	case !birth.StoppedWithParent(&child):
		return nil
	}
	child, _, err = c.rec.Do(ctx, child, task.Reopen{Reason: birth.ParentLives + " and asks for it again"})
	if err == nil {
		err = c.rec.Settle(ctx, &child)
	}
	if errors.Is(err, task.ErrRunning) {
		err = nil
	}
	return err
}
