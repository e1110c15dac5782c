package definitions

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/value"
)

// ErrNoJob: no job has this name.
var ErrNoJob = birth.NoTask(errors.New("no such job"))

// ErrBadJob: the log's latest fact about a job's name is not valid; it was published by other
// means.
var ErrBadJob = birth.NoTask(errors.New("the stored job is not valid: apply it anew"))

// jobOf decodes the text of a job.
func jobOf(name string, text []byte) (job.Job, error) {
	return value.ReadNamed(name, text, func(j *job.Job) string { return j.Name }, (*job.Job).ValidateStored)
}

// StoredJob is a job as the log has it.
type StoredJob struct {
	job.Job
	// Revision counts the changes of the job.
	Revision uint64 `json:"revision"`
	// Changed is when that was.
	Changed time.Time `json:"changed"`
	// Source is the file from which it was stored, or a name for several of them; "" if none was told.
	Source string `json:"source,omitempty"`
}

// SeenRevision returns the revision that a reader of this job has seen.
func (s StoredJob) SeenRevision() uint64 { return s.Revision }

// PutJob stores a job under its name, on behalf of actor, and returns its revision. An equal one is
// left as it is. seen is the revision that the change follows, 0 for none; any if omitted. The
// error wraps [task.ErrLongDefinition] if the job is too long, [ErrChanged] if another caller
// has changed it at the same moment, and [value.ErrOvertaken] if the current revision is not the
// one seen.
func (s *Registry) PutJob(ctx context.Context, j job.Job, actor string, seen ...uint64) (revision uint64, changed bool, err error) {
	return s.PutJobFrom(ctx, j, actor, task.From{}, seen...)
}

// PutJobFrom is [Registry.PutJob], and says from where the job comes.
func (s *Registry) PutJobFrom(ctx context.Context, j job.Job, actor string, from task.From, seen ...uint64) (revision uint64, changed bool, err error) {
	if err := j.Validate(); err != nil {
		return 0, false, fmt.Errorf("job %s: %w", j.Name, err)
	}
	text, err := value.JSON(j)
	if err != nil {
		return 0, false, fmt.Errorf("job %s: %w", j.Name, err)
	}
	return s.put(ctx, task.Named(task.DefJob, j.Name), text, actor, from, seen, nil)
}

// Job returns a job. Any replica may answer, so it may be out of date. The error wraps [ErrNoJob]
// if there is none.
func (s *Registry) Job(ctx context.Context, name string) (StoredJob, error) {
	d, err := s.nearest(ctx, task.Named(task.DefJob, name))
	return storedJob(&d, err)
}

// JobToRun is [Registry.JobAt] for the current revision, read from the leader, which has everything
// that was acknowledged. The error wraps [birth.ErrNoTask] if there is none that can run.
func (s *Registry) JobToRun(ctx context.Context, name string) (job.Job, uint64, error) {
	d, _, err := s.latest(ctx, task.Named(task.DefJob, name))
	j, err := storedJob(&d, err)
	return j.Job, j.Revision, err
}

// StoredJobAt returns a revision of a job, the current one for 0. The error wraps [ErrNoJob] if
// there is none, or there was none then.
func (s *Registry) StoredJobAt(ctx context.Context, name string, revision uint64) (StoredJob, error) {
	d, err := s.definitionAt(ctx, task.Named(task.DefJob, name), revision)
	j, err := storedJob(&d, err)
	if revision > 0 && errors.Is(err, ErrNoJob) {
		err = fmt.Errorf("%w at revision %d", err, revision)
	}
	return j, err
}

// JobAt is [Registry.StoredJobAt] for callers that need only the job and its revision.
func (s *Registry) JobAt(ctx context.Context, name string, revision uint64) (job.Job, uint64, error) {
	j, err := s.StoredJobAt(ctx, name, revision)
	return j.Job, j.Revision, err
}

func storedJob(d *defined, err error) (StoredJob, error) {
	j := StoredJob{Revision: d.Revision, Changed: d.Changed, Source: d.Source}
	if err := d.readable(err); err != nil {
		return j, err
	}
	j.Job, err = jobOf(d.Name(), d.Text)
	return j, err
}

// Jobs returns all jobs by name, and the errors of those that are not valid.
func (s *Registry) Jobs(ctx context.Context) ([]StoredJob, error) {
	return present(ctx, s, task.DefJob, storedJob)
}

// RemoveJob removes a job on behalf of actor; tasks that were made from it go on. The error wraps
// [ErrNoJob] if there is none.
func (s *Registry) RemoveJob(ctx context.Context, name, actor string) error {
	return s.remove(ctx, task.Named(task.DefJob, name), actor)
}

// JobChanges returns the names of changed jobs, as [Registry.ScheduleChanges] does for schedules.
func (s *Registry) JobChanges(ctx context.Context, after, known uint64) (names []string, all bool, reached uint64, err error) {
	found, all, reached, err := s.changes(ctx, task.DefJob, after, known)
	for i := range found {
		names = append(names, found[i].Name())
	}
	return names, all, reached, err
}
