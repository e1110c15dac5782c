// Package desk is where tasks come into the world. Whoever makes one (a client, one at a time or
// many, a schedule, a backfill, a copy, a program that spawns children) passes it, and so meets the
// same conditions: the job is looked up, files are pinned, what is asked for is checked, the queue
// has room, the unique key is free, and of an id that others may use, too, one birth is accepted.
//
// The children of a parent (steps, values of a list, one for each node) are part of what was
// submitted with it: they share its files and its key, and no bound refuses them once it is accepted.
//
// A birth may be under several conditions, and a message has one expectation. It goes to the key if
// there is one, for nothing but the claim says who has that; the id is then guarded by its chain,
// where the first birth counts whoever comes second, or, for a tick, by a look behind the claim. The
// bound of a queue is kept before either, by a ledger; see [Desk.reserve].
package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/schedule"
	"millrace/task/value"
)

// ErrInvalid refuses a submission that is wrong in itself.
var ErrInvalid = errors.New("invalid submission")

// ErrOther refuses a submission under an id that has a task which does something else.
var ErrOther = task.ErrOther

// Store is what a birth depends on beside the log.
type Store interface {
	// JobAt returns a revision of a job, the present one for 0.
	JobAt(ctx context.Context, name string, revision uint64) (job.Job, uint64, error)
	// PinFiles returns files as the version that they stand for now, which is kept from being removed
	// until the task can be seen.
	PinFiles(ctx context.Context, f *job.Files) (*job.Files, error)
	// Waiting counts the tasks that wait in a queue of which at most so many may. All that was placed
	// before the call counts.
	Waiting(ctx context.Context, queue string, most int) (int, error)
}

// Desk makes tasks of submissions. It is safe for concurrent use.
type Desk struct {
	Store Store
	// Rec writes to the log; its clock is the desk's.
	Rec *events.Recorder

	own    rooms
	shared *rooms // in place of own, if it is not nil; see [Desk.For]
}

// rooms is what is known of queues and of definitions.
type rooms struct {
	definitions events.Definitions

	mu     sync.Mutex
	bounds map[string]bound // guarded by mu
}

// For returns a desk for somebody else: it goes by what d knows of queues and definitions, and adds to it.
func (d *Desk) For(store Store, rec *events.Recorder) *Desk {
	return &Desk{Store: store, Rec: rec, shared: d.rooms()}
}

func (d *Desk) rooms() *rooms {
	if d.shared != nil {
		return d.shared
	}
	return &d.own
}

// Newborn is a task to be.
type Newborn struct {
	ID task.ID
	// Birth is not modified; several may share one.
	Birth *task.Submitted
	// Named says that somebody chose the id, so that others may choose it, too.
	Named bool
}

// Outside refuses what no submission from outside may say: what follows from a schedule, a tick or
// a parent is Millrace's own to make. The error wraps [ErrInvalid].
func Outside(s *task.Submission) error {
	switch {
	case s.Origin != (task.Origin{}):
		return fmt.Errorf("%w: schedule, tick and trigger are set by the schedule that makes a task; leave them out (`millrace schedule run` makes a task of one by hand)", ErrInvalid)
	case s.Parent != "":
		return fmt.Errorf("%w: parent is set by the task that makes a child; leave it out (group ties tasks together)", ErrInvalid)
	}
	if s.Job != "" {
		if err := value.ValidName("job", s.Job); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	if id, err := task.ParseID(string(s.ID)); s.ID != "" && err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	} else if id.Derived() {
		return fmt.Errorf("%w: id %s has the form of ids that ticks of schedules and children have; choose another ULID", ErrInvalid, id)
	}
	return nil
}

// Make is the birth that a submission becomes: of its job at this revision, nil for none, with all
// files pinned. The error wraps [ErrInvalid] if a field is wrong, or is the store's.
func (d *Desk) Make(ctx context.Context, s task.Submission, job *job.Job, revision uint64) (task.Submitted, error) {
	job, err := d.pin(ctx, &s, job)
	if err != nil {
		return task.Submitted{}, err
	}
	birth, err := task.Birth(s, job, revision, d.Rec.Now())
	if err != nil {
		return birth, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return birth, d.shut(ctx, &birth)
}

// Copy is [Desk.Make] for a copy of a task: it runs what that ran, with the same versions of files, if
// they are still there. See [task.Copy].
func (d *Desk) Copy(ctx context.Context, of task.Task, s task.Submission) (task.Submitted, error) {
	if of.Spec != nil {
		job, err := d.pin(ctx, &s, &job.Job{Spec: *of.Spec})
		if err != nil {
			return task.Submitted{}, err
		}
		of.Spec = &job.Spec
	}
	declared, err := d.declared(ctx, &of, &s)
	if err != nil {
		return task.Submitted{}, err
	}
	birth, err := task.Copy(of, declared, s, d.Rec.Now())
	if err != nil {
		return birth, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return birth, d.shut(ctx, &birth)
}

// declared are the parameters that a task's job declared when it was made, if s changes any. Of a job of which
// nothing is known any more, what the task has for secrets stays so.
func (d *Desk) declared(ctx context.Context, of *task.Task, s *task.Submission) (declared []param.Param, err error) {
	if len(s.Params)+len(s.Texts) == 0 || of.Job == "" {
		return nil, nil
	}
	job, _, err := d.Store.JobAt(ctx, of.Job, of.Revision)
	if err == nil || !errors.Is(err, task.ErrNoTask) {
		return job.Params.Declared, err
	}
	for _, name := range of.Secrets {
		declared = append(declared, param.Param{Name: name, Secret: true})
	}
	return declared, nil
}

// shut refuses a birth whose window, or that of a step of it, is no calendar, and has one wait whose window is
// closed when it is due.
func (d *Desk) shut(ctx context.Context, birth *task.Submitted) error {
	for _, name := range birth.Spec.Windows() {
		is, err := d.rooms().definitions.Get(ctx, d.Rec, definition.Named(definition.DefCalendar, name))
		switch {
		case err != nil:
			return err
		case !is.Exists():
			return fmt.Errorf("%w: window is %q, and there is no such calendar (`millrace calendar apply FILE` adds one)", ErrInvalid, name)
		case !birth.Windowed():
			continue
		}
		from := d.Rec.Moment()
		if birth.Due.After(from) {
			from = birth.Due
		}
		if wait, _ := schedule.Window(name, &is, from); wait != nil {
			birth.Await(wait.Until, task.Shut{Calendar: is.Revision, From: from, Detail: wait.Detail})
		}
	}
	return nil
}

// Job returns the present revision of the job that a submission names; nil if it names none.
func (d *Desk) Job(ctx context.Context, s *task.Submission) (*job.Job, uint64, error) {
	if s.Job == "" {
		return nil, 0, nil
	}
	job, revision, err := d.Store.JobAt(ctx, s.Job, 0)
	return &job, revision, err
}

// Refused tells why a birth cannot be just now: its queue is full ([queue.ErrFull]), or its key
// is taken (an [*events.Taken]). It writes nothing, so [Desk.Bear] may find something else.
func (d *Desk) Refused(ctx context.Context, id task.ID, birth *task.Submitted) error {
	if err := d.Rec.FreeFor(ctx, id, birth); err != nil {
		return err
	}
	queue, most, err := d.boundOf(ctx, birth)
	if err != nil || most == 0 {
		return err
	}
	waiting, err := d.Store.Waiting(ctx, queue, most)
	if err == nil && waiting >= most {
		err = full(queue, waiting, most)
	}
	return err
}

// Bear records a birth, and what must follow it, and returns its sequence. The error wraps
// [queue.ErrFull], an [*events.Taken], or, if the id was not drawn for this birth and has a task
// already, an [*events.Exists].
func (d *Desk) Bear(ctx context.Context, n *Newborn) (uint64, error) {
	if err := d.Rec.FreeFor(ctx, n.ID, n.Birth); err != nil { // before room is made for it
		return 0, err
	}
	_, over, err := d.reserve(ctx, n.Birth, []task.ID{n.ID})
	if err != nil {
		return 0, err
	}
	seq, err := d.bear(ctx, n)
	if err == nil || seq == 0 && !errors.Is(err, events.ErrUnknown) {
		over(ctx, err == nil)
	}
	return seq, err
}

func (d *Desk) bear(ctx context.Context, n *Newborn) (uint64, error) {
	if n.Named {
		return d.Rec.SubmitNamed(ctx, n.ID, *n.Birth)
	}
	if key, err := n.Birth.UniqueKey(); err != nil || key != "" || !n.ID.Derived() || n.Birth.OnChain() {
		return d.Rec.Submit(ctx, n.ID, *n.Birth)
	}
	return d.Rec.SubmitOnce(ctx, n.ID, *n.Birth) // a scheduler that is as fast makes the same birth
}

// Same tells whether a submission asks for what the task does that exists under its id already: nil
// if it does, else the error wraps [ErrOther] and names the first difference. It is held against the
// revision of the job that the task was made of. A delay begins anew with each submission, and a
// name of files stands for any version.
func (d *Desk) Same(ctx context.Context, s task.Submission, there *events.Exists) error {
	was, ok := there.Birth.Fact.Event.(task.Submitted)
	if !ok {
		return there
	}
	var job *job.Job
	var revision uint64
	if s.Job != "" {
		present, now, err := d.Store.JobAt(ctx, s.Job, 0)
		if was.Job == s.Job && was.Revision != now {
			if past, at, pastErr := d.Store.JobAt(ctx, s.Job, was.Revision); pastErr == nil {
				present, now, err = past, at, nil
			}
		}
		if err != nil {
			return err
		}
		job, revision = &present, now
	}
	if f := filesOf(&s, job); f != nil {
		s.Files = f
	}
	asked, err := task.Birth(s, job, revision, d.Rec.Now())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if (s.Delay > 0 || was.Window != nil) && !was.Due.IsZero() {
		asked.Due = was.Due
	}
	if !s.At.IsZero() && asked.Due.IsZero() && was.Due.Equal(s.At) {
		asked.Due = was.Due // its time has come meanwhile
	}
	return other(there, &was, &asked)
}

// SameBirth is [Desk.Same] for a birth that Millrace makes itself. What differs from one maker to the
// next, which is how the tick came to its task, does not matter.
func (d *Desk) SameBirth(there *events.Exists, birth *task.Submitted) error {
	was, ok := there.Birth.Fact.Event.(task.Submitted)
	if !ok {
		return there
	}
	asked := *birth
	asked.Trigger, asked.Due = was.Trigger, was.Due
	if asked.Job != "" && asked.Job == was.Job && asked.Revision != was.Revision {
		return nil // the job has changed between two schedulers' looks
	}
	return other(there, &was, &asked)
}

func other(there *events.Exists, was, asked *task.Submitted) error {
	if field := was.Differs(asked); field != "" {
		return fmt.Errorf("task %s %w: it differs in %s", there.Task, ErrOther, field)
	}
	return nil
}

// bound is what is known of the bound on what waits in a queue.
type bound struct {
	most int
	at   time.Time
	// settled is the latest entry of the queue's ledger by this desk of which all is placed.
	settled uint64
}

// boundFor is how long a desk goes by what it knows of the bound of a queue, so that a queue without
// any costs nothing.
const boundFor = time.Second
