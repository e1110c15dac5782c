package jet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/task"
)

// ErrNoJob means that no job has this name.
var ErrNoJob = errors.New("no such job")

// ErrBadJob means that what lies under a job's name is no job; somebody has put
// it there by other means.
var ErrBadJob = errors.New("the stored job is not valid: apply it anew")

// StoredJob is a definition as it lies in the store.
type StoredJob struct {
	task.Job
	// Revision grows with every change of any job.
	Revision uint64    `json:"revision"`
	Changed  time.Time `json:"changed"`
}

// PutJob stores a definition under its name, on behalf of actor, and returns its
// revision. An equal one is left as it is. The change is then told in the log;
// if that fails, applying the same again tells it, or the scheduler's sweep does.
func (s *Store) PutJob(ctx context.Context, j task.Job, actor string) (revision uint64, changed bool, err error) {
	if err := j.Validate(); err != nil {
		return 0, false, fmt.Errorf("job %s: %w", j.Name, err)
	}
	body, err := json.Marshal(j)
	if err != nil {
		return 0, false, fmt.Errorf("job %s: %w", j.Name, err)
	}
	for {
		now, err := s.definition(ctx, j.Name)
		if err == nil {
			_, err = s.tellJob(ctx, now) // so that no change is left out in the log
		}
		if err != nil {
			return 0, false, fmt.Errorf("store job %s: %w", j.Name, err)
		}
		if now.revision > 0 && !now.removed && bytes.Equal(now.body, body) {
			return now.revision, false, nil
		}
		next, err := s.define(ctx, definition{bucket: JobsBucket, name: j.Name, body: body, actor: actor}, now.revision)
		if errors.Is(err, events.ErrConflict) {
			continue // somebody else was faster
		}
		if err == nil {
			_, err = s.tellJob(ctx, next)
		}
		if err != nil {
			return 0, false, fmt.Errorf("store job %s: %w", j.Name, err)
		}
		return next.revision, true, nil
	}
}

// Job returns a definition. The error wraps [ErrNoJob] if there is none.
func (s *Store) Job(ctx context.Context, name string) (StoredJob, error) {
	if err := task.ValidName("job", name); err != nil {
		return StoredJob{}, err
	}
	e, err := s.jobs.Get(ctx, name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return StoredJob{}, &Absent{ErrNoJob, name}
	}
	if err != nil {
		return StoredJob{}, fmt.Errorf("read job %s: %w", name, err)
	}
	return storedJob(name, e.Value(), e.Revision(), e.Created())
}

// JobAt returns a revision of a definition, the present one for 0, and its number. The error wraps
// [ErrNoJob] if there is none, or none any more.
func (s *Store) JobAt(ctx context.Context, name string, revision uint64) (task.Job, uint64, error) {
	if revision == 0 {
		j, err := s.Job(ctx, name)
		return j.Job, j.Revision, err
	}
	if err := task.ValidName("job", name); err != nil {
		return task.Job{}, 0, err
	}
	e, err := s.jobs.GetRevision(ctx, name, revision)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return task.Job{}, 0, fmt.Errorf("%w at revision %d", &Absent{ErrNoJob, name}, revision)
	}
	if err != nil {
		return task.Job{}, 0, fmt.Errorf("read revision %d of job %s: %w", revision, name, err)
	}
	j, err := storedJob(name, e.Value(), e.Revision(), e.Created())
	return j.Job, j.Revision, err
}

func storedJob(name string, body []byte, revision uint64, changed time.Time) (StoredJob, error) {
	j := StoredJob{Revision: revision, Changed: changed}
	if err := json.Unmarshal(body, &j.Job); err != nil {
		return j, fmt.Errorf("job %s, revision %d, cannot be read: %w: %w", name, revision, ErrBadJob, err)
	}
	if err := j.Validate(); err != nil {
		return j, fmt.Errorf("job %s, revision %d, cannot be read: %w: %w", name, revision, ErrBadJob, err)
	}
	return j, nil
}

// Jobs returns all definitions by name, and the errors of those that cannot be read.
func (s *Store) Jobs(ctx context.Context) ([]StoredJob, error) {
	names, err := s.jobs.Keys(ctx)
	if errors.Is(err, jetstream.ErrNoKeysFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	slices.Sort(names)
	var jobs []StoredJob
	var errs []error
	for _, name := range names {
		j, err := s.Job(ctx, name)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		jobs = append(jobs, j)
	}
	return jobs, errors.Join(errs...)
}

// RemoveJob removes a definition on behalf of actor, and tells so in the log;
// tasks that were made from it go on. The error wraps [ErrNoJob] if there is none.
func (s *Store) RemoveJob(ctx context.Context, name, actor string) error {
	if err := task.ValidName("job", name); err != nil {
		return err
	}
	for {
		now, err := s.definition(ctx, name)
		if err == nil {
			_, err = s.tellJob(ctx, now)
		}
		if err != nil {
			return fmt.Errorf("remove job %s: %w", name, err)
		}
		if now.revision == 0 || now.removed {
			return &Absent{ErrNoJob, name}
		}
		gone, err := s.define(ctx, definition{bucket: JobsBucket, name: name, actor: actor, removed: true}, now.revision)
		if errors.Is(err, events.ErrConflict) {
			continue
		}
		if err == nil {
			_, err = s.tellJob(ctx, gone)
		}
		if err != nil {
			return fmt.Errorf("remove job %s: %w", name, err)
		}
		return nil
	}
}
