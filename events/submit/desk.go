// Package submit is the only entrance for new tasks. Every maker of tasks (a client, a schedule, a
// backfill, a copy, a program that spawns children) passes it and meets the same conditions: the
// job exists, files are pinned to versions, the submission is valid, the queue has room, the unique
// key is free, and an id that others may use gets only one accepted birth.
//
// The children of a parent (steps, values of a list, one per node) belong to the parent's
// submission: they share its files and its key, and no bound refuses them once the parent is
// accepted.
//
// A birth may have several conditions, but the server checks only one expectation of a message. If
// the birth has a unique key, it expects that its own claim is the key's last, because only the
// claims tell which task holds the key. Then the id is guarded otherwise: a birth on the task's
// chain counts only if it is the chain's first message, and for a tick the desk looks for a task of
// that id after its claim. A ledger enforces the bound of the queue before either; see
// [Maker.reserve].
//
// The package does not choose nodes or start tasks.
package submit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/placement"
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
	// DeclareAll prepares the routes of births that choose nodes by their labels, for one caller: all
	// or none. An error says that there is no room for them.
	DeclareAll(ctx context.Context, births []*task.Work, by string) error
	// Waiting counts the tasks that wait in a queue with bound most. Handed is how many offers of the
	// queue have been handed out, ever. A task that has just been placed may not be counted yet.
	Waiting(ctx context.Context, queue string, most int) (waiting int, handed uint64, err error)
}

// Maker makes tasks from submissions. It is safe for concurrent use.
type Maker struct {
	Store Store
	// Rec writes to the log. The desk uses its clock, too.
	Rec *events.Recorder
	// Nodes returns the nodes among which the children of a parent are chosen, as of a sequence. If
	// they are known by their heartbeats only, rule is [task.RuleBeats]. A parent that names its
	// nodes needs only the sequence.
	Nodes func(ctx context.Context, parent *task.Task) (nodes []node.Node, at uint64, rule string, err error)

	own    rooms
	shared *rooms // used instead of own, if it is not nil; see [Maker.For]
}

// rooms is the known state of queues and definitions.
type rooms struct {
	definitions events.Definitions

	mu     sync.Mutex
	bounds map[string]bound   // guarded by mu
	joined map[string]*joined // guarded by mu; by key
}

// For returns a desk that writes with another recorder and shares all that d knows.
func (d *Maker) For(rec *events.Recorder) *Maker {
	return &Maker{Store: d.Store, Rec: rec, Nodes: d.Nodes, shared: d.rooms()}
}

func (d *Maker) rooms() *rooms {
	if d.shared != nil {
		return d.shared
	}
	return &d.own
}

// Receipt is the result of a submission.
type Receipt struct {
	// ID names the task.
	ID task.ID `json:"id"`
	// Seq is the sequence of the birth; an answer that reflects it knows the task.
	Seq uint64 `json:"seq"`
	// Existing tells that another task has the unique key, and the receipt is that task's.
	Existing bool `json:"existing,omitempty"`
	// Again tells that the same was submitted under this id before, so nothing new was made.
	Again bool `json:"again,omitempty"`
}

// Newborn is a task to be: a submission that [Maker.Prepare] has accepted.
type Newborn struct {
	ID task.ID
	// Birth is not modified; several births may share it.
	Birth *task.Submitted
	// asked is the submission, if the submitter chose the id, so that others may choose it, too.
	asked *birth.Submission
	// look tells that a task of the id is looked for before anything is written: that of a tick may
	// lie in another queue, if its job has changed since.
	look bool
}

// drawn tells whether the id was drawn for this birth, so that no other task can have it.
func (n *Newborn) drawn() bool { return n.asked == nil && !n.ID.Derived() }

// Submit makes the task of a submission, with its children, and returns a receipt: for the new
// task; for the existing one if the same was submitted under this id before; or for the holder of
// its unique key if on_conflict is return. It says what refuses a submission:
//
//   - a field is invalid: [ErrInvalid],
//   - the job or the files do not exist: the error of [Store],
//   - the id has a task that does something else: [ErrOther],
//   - the id is older than what the log keeps: [events.ErrForgotten],
//   - another task has the unique key: an [*events.Taken],
//   - the queue is full: [queue.ErrFull].
//
// A maker with work to do in between calls [Maker.Prepare] and [Maker.Bear].
func (d *Maker) Submit(ctx context.Context, s birth.Submission) (Receipt, error) {
	n, err := d.Prepare(ctx, s)
	if err != nil {
		return Receipt{}, err
	}
	return d.take(ctx, &n)
}

// Copy is [Maker.Submit] for a new task that does what another task does, as changed by s; see
// [birth.Copy]. It has the same versions of files if they still exist. The error wraps
// [task.ErrUnknown] if there is no such task.
func (d *Maker) Copy(ctx context.Context, of task.ID, s birth.Submission) (Receipt, error) {
	if s.ID != "" {
		return Receipt{}, fmt.Errorf("%w: a copy gets a new id; leave id out", ErrInvalid)
	}
	t, err := d.Rec.Load(ctx, of)
	if err != nil {
		return Receipt{}, err
	}
	made, err := d.copied(ctx, t, s)
	if err != nil {
		return Receipt{}, err
	}
	return d.take(ctx, &Newborn{ID: d.drawID(), Birth: &made})
}

// take records a birth for a submitter that waits: another task may stand for it, and its children
// are made at once.
func (d *Maker) take(ctx context.Context, n *Newborn) (Receipt, error) {
	if n.Birth.Spec.Collapse != nil {
		return d.collapse(ctx, n)
	}
	n.look = n.ID.Derived()
	r, err := d.Bear(ctx, n)
	taken, is := errors.AsType[*events.Taken](err)
	switch {
	case is && n.Birth.Spec.Unique.OnConflict == job.ConflictReturn:
		return d.holder(ctx, taken)
	case err == nil && !r.Again:
		err = d.Raise(ctx, n)
	}
	return r, err
}

// holder returns the receipt of the task that has a unique key.
func (d *Maker) holder(ctx context.Context, taken *events.Taken) (Receipt, error) {
	records, err := d.Rec.Log.Task(ctx, taken.Holder)
	if b, ok := events.BirthOf(records); err == nil && ok {
		return Receipt{ID: taken.Holder, Seq: b.Seq, Existing: true}, nil
	}
	return Receipt{}, errors.Join(err, taken)
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
	if err := placement.ValidLabels(s.Labels); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if s.Spec != nil {
		if err := s.Spec.Idle(); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	if id, err := task.ParseID(string(s.ID)); s.ID != "" && err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	} else if id.Derived() {
		return fmt.Errorf("%w: id %s has the form of ids that planned runs of schedules and children have; choose another ULID", ErrInvalid, id)
	}
	return nil
}

// Check refuses a submission from outside that is wrong for good, for a caller that cannot ask the
// log yet. Of is the job that it names, nil for none. The error wraps [ErrInvalid].
func Check(s *birth.Submission, of *job.Job, now time.Time) error {
	err := Outside(s)
	if err == nil {
		if _, err = birth.Of(*s, of, 0, now); err != nil {
			err = fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return err
}

// Prepare turns a submission into a task to be: its job's present revision applies, all files are
// pinned, and every field is checked. It records nothing.
func (d *Maker) Prepare(ctx context.Context, s birth.Submission) (Newborn, error) {
	if s.Job == "" {
		return d.PrepareFrom(ctx, s, nil, 0)
	}
	of, revision, err := d.Store.JobAt(ctx, s.Job, 0)
	if err != nil {
		return Newborn{}, err
	}
	return d.PrepareFrom(ctx, s, &of, revision)
}

// PrepareFrom is [Maker.Prepare] for a maker that knows the job and its revision; nil for none.
func (d *Maker) PrepareFrom(ctx context.Context, s birth.Submission, of *job.Job, revision uint64) (Newborn, error) {
	var n Newborn
	switch id, err := task.ParseID(string(s.ID)); {
	case s.ID == "":
		n.ID = d.drawID()
	case err != nil:
		return n, fmt.Errorf("%w: %w", ErrInvalid, err)
	default:
		n.ID = id
	}
	if s.ID != "" && !s.Fresh && !s.ID.Derived() {
		asked := s
		n.asked = &asked
	}
	of, err := d.pin(ctx, &s, of)
	if err != nil {
		return n, err
	}
	made, err := birth.Of(s, of, revision, d.Rec.Now())
	if err != nil {
		return n, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	n.Birth = &made
	return n, d.shut(ctx, n.Birth)
}

func (d *Maker) drawID() task.ID { return task.ID(d.Rec.NewID(d.Rec.Now())) }

// copied returns the birth of a copy.
func (d *Maker) copied(ctx context.Context, of task.Task, s birth.Submission) (task.Submitted, error) {
	if of.Spec != nil {
		pinned, err := d.pin(ctx, &s, &job.Job{Spec: *of.Spec})
		if err != nil {
			return task.Submitted{}, err
		}
		of.Spec = &pinned.Spec
	}
	declared, err := d.declared(ctx, &of, &s)
	if err != nil {
		return task.Submitted{}, err
	}
	made, err := birth.Copy(of, declared, s, d.Rec.Now())
	if err != nil {
		return made, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return made, d.shut(ctx, &made)
}

// declared returns the parameters that a task's job declared when the task was made, if s changes
// any. If the job's revision is no longer known, the secrets of the task stay secrets.
func (d *Maker) declared(ctx context.Context, of *task.Task, s *birth.Submission) (declared []param.Param, err error) {
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
func (d *Maker) shut(ctx context.Context, e *task.Submitted) error {
	for _, name := range e.Spec.Windows() {
		is, err := d.rooms().definitions.Get(ctx, d.Rec, task.Named(task.DefCalendar, name))
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

// Refused says why a birth is not possible at present: its queue is full ([queue.ErrFull]), or its
// key is taken (an [*events.Taken]). It writes nothing, so [Maker.Bear] may have another result.
func (d *Maker) Refused(ctx context.Context, n *Newborn) error {
	if err := d.Rec.FreeFor(ctx, n.ID, n.Birth); err != nil {
		return err
	}
	queue, most, err := d.boundOf(ctx, n.Birth)
	if err != nil || most == 0 {
		return err
	}
	waiting, _, err := d.waiting(ctx, queue, most)
	if err == nil && waiting >= most {
		err = full(queue, waiting, most)
	}
	return err
}

// Bear records a birth and its consequences. The receipt is for the new task, or for the existing
// one of the same birth. The errors are those of [Maker.Submit]; whatever on_conflict says, a taken
// key is one of them. The children of a parent are left to [Maker.Raise], or to a scheduler.
func (d *Maker) Bear(ctx context.Context, n *Newborn) (Receipt, error) {
	seq, err := d.record(ctx, n)
	there, again := errors.AsType[*events.Exists](err)
	if !again {
		return Receipt{ID: n.ID, Seq: seq}, err
	}
	if n.asked != nil {
		err = d.same(ctx, *n.asked, there)
	} else {
		err = d.SameBirth(there, n.Birth)
	}
	if err != nil {
		return Receipt{}, err
	}
	return Receipt{ID: there.Task, Seq: there.Birth.Seq, Again: true}, nil
}

// record records a birth and returns its sequence. If the id already has a task, the error is an
// [*events.Exists].
func (d *Maker) record(ctx context.Context, n *Newborn) (uint64, error) {
	key, err := n.Birth.UniqueKey()
	if err != nil {
		return 0, err
	}
	queue, most, err := d.boundOf(ctx, n.Birth)
	if err != nil {
		return 0, err
	}
	if n.look || !n.drawn() && (key != "" || most > 0) { // an existing task needs nothing to be free
		if err := d.Rec.Unborn(ctx, n.ID); err != nil {
			return 0, err
		}
	}
	if key != "" { // before making room for it
		if err := d.Rec.FreeFor(ctx, n.ID, n.Birth); err != nil {
			return 0, err
		}
	}
	over := func(context.Context, bool) {}
	if most > 0 {
		if _, over, err = d.reserve(ctx, queue, most, []task.ID{n.ID}); err != nil {
			return 0, err
		}
	}
	var seq uint64
	switch {
	case n.asked != nil:
		seq, err = d.Rec.SubmitNamed(ctx, n.ID, *n.Birth)
	case key != "" || n.drawn():
		seq, err = d.Rec.Submit(ctx, n.ID, *n.Birth)
	default:
		seq, err = d.Rec.SubmitOnce(ctx, n.ID, *n.Birth) // a scheduler that is as fast makes the same birth
	}
	if err == nil || seq == 0 && !errors.Is(err, events.ErrUnknown) {
		over(ctx, err == nil)
	}
	return seq, err
}

// same tells whether a submission asks for the same as the task that already exists under its id:
// nil if it does; otherwise the error wraps [ErrOther] and names the first difference. It compares
// with the revision of the job from which the task was made. A delay starts anew with each
// submission, and a name of files matches any version.
func (d *Maker) same(ctx context.Context, s birth.Submission, there *events.Exists) error {
	was, ok := there.Birth.Fact.Event.(task.Submitted)
	if !ok {
		return there
	}
	var of *job.Job
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
		of, revision = &present, now
	}
	if f := filesOf(&s, of); f != nil {
		s.Files = f
	}
	asked, err := birth.Of(s, of, revision, d.Rec.Now())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if (s.Delay > 0 || was.Window != nil || was.Spec.Collapse != nil) && !was.Due.IsZero() {
		asked.Due = was.Due
	}
	if !s.At.IsZero() && asked.Due.IsZero() && was.Due.Equal(s.At) {
		asked.Due = was.Due // its time has come meanwhile
	}
	return other(there, &was, &asked)
}

// SameBirth tells whether a birth that Millrace makes itself asks for the same as the task that
// already exists under its id: nil if it does; otherwise the error wraps [ErrOther] and names the
// first difference. Why the schedule made the task, and its due time, may differ between makers and
// are ignored.
func (d *Maker) SameBirth(there *events.Exists, made *task.Submitted) error {
	was, ok := there.Birth.Fact.Event.(task.Submitted)
	if !ok {
		return there
	}
	asked := *made
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
	floor   floor
}

// floor is how many tasks wait in a queue at least, by what this desk has placed there: so many when so many
// offers had been handed out, and one less with each more. It counts for [reservationPatience]: a NATS server
// counts what waits a moment after it has stored it.
type floor struct {
	entry   uint64 // of the queue's ledger
	at      time.Time
	waiting int
	handed  uint64
}

// boundFor is how long a desk uses a queue's bound without reading it again, so that a queue
// without a bound costs nothing.
const boundFor = time.Second
