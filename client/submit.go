package client

import (
	"context"
	"errors"
	"fmt"

	"millrace/desk"
	"millrace/events"
	"millrace/files/tree"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// Errors of a refused submission, beside those of [Client.Submit].
var (
	// ErrInvalid: the submission is wrong in itself; or, by [Wrong], another request.
	ErrInvalid = desk.ErrInvalid
	// ErrOther: the id belongs to a task that does something else.
	ErrOther = desk.ErrOther
)

// invalid is an error in a request other than a submission. Its text says what is wrong.
type invalid struct{ error }

func (i invalid) Unwrap() error        { return i.error }
func (i invalid) Is(target error) bool { return target == ErrInvalid }

// Wrong marks an error as the caller's, such as a bad filter or name. It reads as err does, and
// wraps [ErrInvalid].
func Wrong(err error) error { return invalid{err} }

// Wrongf is [Wrong] for a formatted text.
func Wrongf(format string, args ...any) error { return invalid{fmt.Errorf(format, args...)} }

// Receipt is the result of a submission.
type Receipt struct {
	ID task.ID `json:"id"`
	// Seq is the sequence of the birth; an answer that reflects it knows the task.
	Seq uint64 `json:"seq"`
	// Existing tells that another task has the unique key, and the receipt is that task's.
	Existing bool `json:"existing,omitempty"`
	// Again tells that the same was submitted under this id before, so nothing new was made.
	Again bool `json:"again,omitempty"`
}

// DeskStore returns what a desk needs beside the log; a scheduler takes it.
func (c *Client) DeskStore() desk.Store { return deskStore{c} }

type deskStore struct{ *Client }

// PinFiles is [Client.PinFiles]; its error wraps [birth.ErrNoTask] if the files do not exist.
func (s deskStore) PinFiles(ctx context.Context, f *job.Files) (*job.Files, error) {
	pinned, err := s.Client.PinFiles(ctx, f)
	if errors.Is(err, tree.ErrNoVersion) {
		err = birth.NoTask(err)
	}
	return pinned, err
}

func (s deskStore) JobAt(ctx context.Context, name string, revision uint64) (job.Job, uint64, error) {
	return s.store.JobAt(ctx, name, revision)
}

// Submit makes a task. When it returns without an error the task is in the log and will come to an
// end.
//
// If the submission has an id, one task is made under it, however many submit concurrently: the
// same submission again gets the first one's receipt with [Receipt.Again], any other an error that
// wraps [ErrOther].
//
// The error wraps [ErrInvalid] if a field is wrong or submitters may not set it,
// [definitions.ErrNoJob] if the job does not exist, [events.ErrTooLarge] if the parameters are too
// large, a [*events.Taken] if another task has its unique key, [queue.ErrFull] if the queue's limit
// of waiting tasks is reached, or ctx's error if ctx ended before the log answered. In that last
// case the task may exist, and submitting again under the same ID is safe.
func (c *Client) Submit(ctx context.Context, s birth.Submission) (Receipt, error) {
	if err := desk.Outside(&s); err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	return c.submit(ctx, s)
}

// submit makes a task of a submission that may come from inside Millrace.
func (c *Client) submit(ctx context.Context, s birth.Submission) (Receipt, error) {
	n, err := c.newborn(ctx, s)
	if err != nil {
		return Receipt{}, err
	}
	return c.bear(ctx, s, &n)
}

// newborn turns a submission into a birth.
func (c *Client) newborn(ctx context.Context, s birth.Submission) (desk.Newborn, error) {
	n := desk.Newborn{Named: s.ID != "" && !s.Fresh && !s.ID.Derived()}
	var err error
	switch {
	case s.ID == "":
		n.ID = task.ID(events.NewID(c.rec.Now()))
	default:
		if n.ID, err = task.ParseID(string(s.ID)); err != nil {
			return n, fmt.Errorf("submit: %w: %w", ErrInvalid, err)
		}
	}
	job, revision, err := c.desk.Job(ctx, &s)
	if err != nil {
		return n, fmt.Errorf("submit: %w", err)
	}
	birth, err := c.desk.Make(ctx, s, job, revision)
	if err != nil {
		return n, fmt.Errorf("submit: %w", err)
	}
	n.Birth = &birth
	return n, nil
}

// bear records a birth and makes its children. s is the submission behind it.
func (c *Client) bear(ctx context.Context, s birth.Submission, n *desk.Newborn) (Receipt, error) {
	if n.Named { // an existing task needs nothing to be free
		if err := c.rec.Unborn(ctx, n.ID); err != nil {
			return c.again(ctx, s, n, err)
		}
	}
	seq, err := c.desk.Bear(ctx, n)
	var taken *events.Taken
	switch {
	case errors.As(err, new(*events.Exists)):
		return c.again(ctx, s, n, err)
	case errors.As(err, &taken) && n.Birth.Spec.Unique.OnConflict == job.ConflictReturn:
		records, err := c.store.Task(ctx, taken.Holder)
		if i := events.Born(records); err == nil && i >= 0 {
			return Receipt{ID: taken.Holder, Seq: records[i].Seq, Existing: true}, nil
		}
		return Receipt{}, fmt.Errorf("submit: %w", errors.Join(err, taken))
	case err != nil:
		return Receipt{ID: n.ID, Seq: seq}, fmt.Errorf("submit: %w", err)
	}
	if n.Birth.Spec.Parental() && len(n.Birth.Holds) == 0 {
		// A scheduler may have been faster, and may have ended what no node can run.
		if err := c.raise(ctx, n.ID); err != nil && !errors.Is(err, task.ErrEnded) {
			return Receipt{ID: n.ID, Seq: seq}, fmt.Errorf("task %s is submitted, and a scheduler makes its children, for this process could not: %w", n.ID, err)
		}
	}
	return Receipt{ID: n.ID, Seq: seq}, nil
}

// raise makes the children of a parent that was just recorded.
func (c *Client) raise(ctx context.Context, id task.ID) error {
	born, err := c.rec.Load(ctx, id)
	if err == nil {
		_, err = c.expand(ctx, born)
	}
	return err
}

// again answers a submission whose id has a task.
func (c *Client) again(ctx context.Context, s birth.Submission, n *desk.Newborn, err error) (Receipt, error) {
	var there *events.Exists
	if !errors.As(err, &there) {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	if n.ID.Derived() {
		err = c.desk.SameBirth(there, n.Birth)
	} else {
		err = c.desk.Same(ctx, s, there)
	}
	if err != nil {
		return Receipt{}, fmt.Errorf("submit: %w", err)
	}
	return Receipt{ID: there.Task, Seq: there.Birth.Seq, Again: true}, nil
}

// SubmitMany makes n equal tasks, far faster than one by one, and calls each with every receipt, in
// order. Its error is the first that occurred; tasks before and after it may exist.
func (c *Client) SubmitMany(ctx context.Context, s birth.Submission, n int, each func(Receipt)) error {
	if s.ID != "" {
		return errors.New("submit: many tasks cannot have one id")
	}
	if err := desk.Outside(&s); err != nil {
		return fmt.Errorf("submit: %w", err)
	}
	same, err := c.newborn(ctx, s)
	if err != nil {
		return err
	}
	if key, err := same.Birth.UniqueKey(); err != nil {
		return fmt.Errorf("submit: %w: %w", ErrInvalid, err)
	} else if key != "" {
		return fmt.Errorf("submit: %w: many equal tasks cannot have one unique key (%q)", ErrInvalid, key)
	}
	ids := make([]task.ID, n)
	return c.bearAll(ctx, n, func(i int) (birth.Submission, desk.Newborn) {
		if ids[i] == "" {
			ids[i] = task.ID(events.NewID(c.rec.Now()))
		}
		return s, desk.Newborn{ID: ids[i], Birth: same.Birth}
	}, each)
}

// bearAll is bear for many: births that only the queue can refuse are placed together, the rest one
// by one.
func (c *Client) bearAll(ctx context.Context, n int, at func(i int) (birth.Submission, desk.Newborn), each func(Receipt)) error {
	if each == nil {
		each = func(Receipt) {}
	}
	for i := 0; i < n; {
		s, first := at(i)
		if !first.Plain() {
			receipt, err := c.bear(ctx, s, &first)
			if err != nil {
				return fmt.Errorf("task %d of %d: %w", i+1, n, err)
			}
			each(receipt)
			i++
			continue
		}
		placed, err := c.desk.BearSome(ctx, n-i, func(k int) desk.Newborn { _, b := at(i + k); return b }, func(id task.ID, seq uint64) { each(Receipt{ID: id, Seq: seq}) })
		if err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		i += placed
	}
	return nil
}

// SubmitAll makes tasks in this order, far faster than one by one: for example the steps of a
// graph, where one needs the ID of another before that exists. It calls each with every receipt, in
// order. If one of them is wrong, nothing is submitted; any other error is the first that occurred,
// and tasks before and after it may exist.
//
// An ID that this process has just made with [events.NewID] is [birth.Submission.Fresh]. Submissions
// with any other ID, or with a unique key, are handled one after the other, as by [Client.Submit].
func (c *Client) SubmitAll(ctx context.Context, all []birth.Submission, each func(Receipt)) error {
	newborns := make([]desk.Newborn, len(all))
	for i, s := range all {
		err := desk.Outside(&s)
		if err == nil {
			newborns[i], err = c.newborn(ctx, s)
		}
		if err != nil {
			return fmt.Errorf("task %d of %d: %w", i+1, len(all), err)
		}
	}
	return c.bearAll(ctx, len(all), func(i int) (birth.Submission, desk.Newborn) { return all[i], newborns[i] }, each)
}

// Copy makes a new task that does what another task does, as changed by s; see [birth.Copy]. The
// other task stays as it is. The error wraps [task.ErrUnknown] if there is no such task, else it is
// one of [Client.Submit]'s.
func (c *Client) Copy(ctx context.Context, of task.ID, s birth.Submission) (Receipt, error) {
	if err := desk.Outside(&s); err != nil {
		return Receipt{}, fmt.Errorf("copy: %w", err)
	}
	if s.ID != "" {
		return Receipt{}, fmt.Errorf("copy: %w: a copy gets a new id; leave id out", ErrInvalid)
	}
	t, err := c.rec.Load(ctx, of)
	if err != nil {
		return Receipt{}, err
	}
	birth, err := c.desk.Copy(ctx, t, s)
	if err != nil {
		return Receipt{}, fmt.Errorf("copy: %w", err)
	}
	return c.bear(ctx, s, &desk.Newborn{ID: task.ID(events.NewID(c.rec.Now())), Birth: &birth})
}
