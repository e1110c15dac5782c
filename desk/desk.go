// Package desk is the only entrance for new tasks. Every maker of tasks (a client, a schedule, a
// backfill, a copy, a program that spawns children) passes it and meets the same conditions: the
// job exists, files are pinned to versions, the submission is valid, the queue has room, the unique
// key is free, and an id that others may use gets only one accepted birth.
//
// The children of a parent (steps, values of a list, one per node) belong to the parent's
// submission: they share its files and its key, and no bound refuses them once the parent is
// accepted.
//
// A birth may have several conditions, but a message can have only one expectation. If there is a
// unique key, the expectation is the key's, because only the claim tells who holds it. The chain
// then guards the id, where the first birth counts, or for a tick a check after the claim. The
// bound of a queue is enforced before either, with a ledger; see [Desk.reserve].
//
// The package does not choose nodes or start tasks.
package desk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/definition"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/schedule"
	"millrace/task/value"
)

// ErrInvalid refuses a submission that is invalid in itself.
var ErrInvalid = errors.New("invalid submission")

// ErrOther refuses a submission under an id that already has a task with another specification.
var ErrOther = task.ErrOther

// Store is what a birth depends on besides the log.
type Store interface {
	// JobAt returns a revision of a job, the present one for 0.
	JobAt(ctx context.Context, name string, revision uint64) (job.Job, uint64, error)
	// PinFiles returns files with the version that they name now. That version is kept from removal
	// until the task is visible.
	PinFiles(ctx context.Context, f *job.Files) (*job.Files, error)
	// Waiting counts the tasks that wait in a queue with bound most. It includes all tasks placed
	// before the call.
	Waiting(ctx context.Context, queue string, most int) (int, error)
}

// Desk makes tasks from submissions. It is safe for concurrent use.
type Desk struct {
	Store Store
	// Rec writes to the log; its clock is the desk's.
	Rec *events.Recorder

	own    rooms
	shared *rooms // used instead of own, if it is not nil; see [Desk.For]
}

// rooms is the known state of queues and definitions.
type rooms struct {
	definitions events.Definitions

	mu     sync.Mutex
	bounds map[string]bound // guarded by mu
}

// For returns a desk for another store and recorder that shares d's knowledge of queues and
// definitions.
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
	// Birth is not modified; several births may share it.
	Birth *task.Submitted
	// Named says that the submitter chose the id, so that others may choose it, too.
	Named bool
}

// Outside refuses what a submission from outside may not set: only Millrace makes the tasks of
// schedules, ticks and parents. The error wraps [ErrInvalid].
func Outside(s *birth.Submission) error {
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

// Make returns the birth of a submission: with its job at this revision, nil for none, and all
// files pinned. The error wraps [ErrInvalid] if a field is invalid; otherwise it is the store's.
func (d *Desk) Make(ctx context.Context, s birth.Submission, job *job.Job, revision uint64) (task.Submitted, error) {
	job, err := d.pin(ctx, &s, job)
	if err != nil {
		return task.Submitted{}, err
	}
	birth, err := birth.Of(s, job, revision, d.Rec.Now())
	if err != nil {
		return birth, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return birth, d.shut(ctx, &birth)
}

// Copy is [Desk.Make] for a copy of a task: it runs the same spec, with the same versions of files
// if they still exist. See [birth.Copy].
func (d *Desk) Copy(ctx context.Context, of task.Task, s birth.Submission) (task.Submitted, error) {
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
	birth, err := birth.Copy(of, declared, s, d.Rec.Now())
	if err != nil {
		return birth, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return birth, d.shut(ctx, &birth)
}

// declared returns the parameters that a task's job declared when the task was made, if s changes
// any. If the job's revision is no longer known, the secrets of the task stay secrets.
func (d *Desk) declared(ctx context.Context, of *task.Task, s *birth.Submission) (declared []param.Param, err error) {
	if len(s.Params)+len(s.Texts) == 0 || of.Job == "" {
		return nil, nil
	}
	job, _, err := d.Store.JobAt(ctx, of.Job, of.Revision)
	if err == nil || !errors.Is(err, birth.ErrNoTask) {
		return job.Params.Declared, err
	}
	for _, name := range of.Secrets {
		declared = append(declared, param.Param{Name: name, Secret: true})
	}
	return declared, nil
}

// shut refuses a birth with a window, its own or a step's, that names no calendar. If its window is
// closed at the due time, the birth is made to wait.
func (d *Desk) shut(ctx context.Context, e *task.Submitted) error {
	for _, name := range e.Spec.Windows() {
		is, err := d.rooms().definitions.Get(ctx, d.Rec, definition.Named(definition.DefCalendar, name))
		switch {
		case err != nil:
			return err
		case !is.Exists():
			return fmt.Errorf("%w: window is %q, and there is no such calendar (`millrace calendar apply FILE` adds one)", ErrInvalid, name)
		case !birth.Windowed(e):
			continue
		}
		from := d.Rec.Moment()
		if e.Due.After(from) {
			from = e.Due
		}
		if wait, _ := schedule.Window(name, &is, from); wait != nil {
			birth.Await(e, wait.Until, task.Shut{Calendar: is.Revision, From: from, Detail: wait.Detail})
		}
	}
	return nil
}

// Job returns the present revision of the job that a submission names; nil if it names none.
func (d *Desk) Job(ctx context.Context, s *birth.Submission) (*job.Job, uint64, error) {
	if s.Job == "" {
		return nil, 0, nil
	}
	job, revision, err := d.Store.JobAt(ctx, s.Job, 0)
	return &job, revision, err
}

// Refused says why a birth is not possible at present: its queue is full ([queue.ErrFull]), or its
// key is taken (an [*events.Taken]). It writes nothing, so [Desk.Bear] may have another result.
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

// Bear records a birth and its consequences, and returns its sequence. The error wraps
// [queue.ErrFull], an [*events.Taken] or, if the id was not drawn for this birth and already has a
// task, an [*events.Exists].
func (d *Desk) Bear(ctx context.Context, n *Newborn) (uint64, error) {
	if err := d.Rec.FreeFor(ctx, n.ID, n.Birth); err != nil { // before making room for it
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

// Same tells whether a submission asks for the same as the task that already exists under its id:
// nil if it does; otherwise the error wraps [ErrOther] and names the first difference. It compares
// with the revision of the job from which the task was made. A delay starts anew with each
// submission, and a name of files matches any version.
func (d *Desk) Same(ctx context.Context, s birth.Submission, there *events.Exists) error {
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
	asked, err := birth.Of(s, job, revision, d.Rec.Now())
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

// SameBirth is [Desk.Same] for a birth that Millrace makes itself. It ignores how the tick came to
// its task, which may differ between makers.
func (d *Desk) SameBirth(there *events.Exists, birth *task.Submitted) error {
	was, ok := there.Birth.Fact.Event.(task.Submitted)
	if !ok {
		return there
	}
	asked := *birth
	asked.Trigger, asked.Due = was.Trigger, was.Due
	if asked.Job != "" && asked.Job == was.Job && asked.Revision != was.Revision {
		return nil // the job has changed between two schedulers' reads
	}
	return other(there, &was, &asked)
}

func other(there *events.Exists, was, asked *task.Submitted) error {
	if field := was.Differs(asked); field != "" {
		return fmt.Errorf("task %s %w: it differs in %s", there.Task, ErrOther, field)
	}
	return nil
}

// bound is the known bound of waiting tasks in a queue.
type bound struct {
	most int
	at   time.Time
	// settled is the latest entry of the queue's ledger by this desk whose births are all placed.
	settled uint64
}

// boundFor is how long a desk uses a queue's bound without reading it again, so that a queue
// without a bound costs nothing.
const boundFor = time.Second
