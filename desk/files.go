package desk

import (
	"cmp"
	"context"

	"millrace/task"
	"millrace/task/job"
)

// filesOf are the files of a task to be.
func filesOf(s *task.Submission, job *job.Job) *job.Files {
	switch {
	case job != nil:
		return over(s.Files, job.Files)
	case s.Spec != nil:
		return over(s.Files, s.Spec.Files)
	}
	return s.Files
}

// over is what a submission says of files, and what it leaves open as the definition has it.
func over(said, defined *job.Files) *job.Files {
	if said == nil || defined == nil || said.To != "" || said.Mode != "" {
		return cmp.Or(said, defined)
	}
	return &job.Files{Bundle: said.Bundle, To: defined.To, Mode: defined.Mode}
}

// pin replaces the files of what is submitted, and those of its steps, by the versions that they
// stand for now, in copies: s gets one itself, and the job is returned, as it was if it has none.
func (d *Desk) pin(ctx context.Context, s *task.Submission, job *job.Job) (*job.Job, error) {
	job, err := d.pinSteps(ctx, s, job)
	if err != nil {
		return job, err
	}
	if f := filesOf(s, job); f != nil {
		s.Files, err = d.Store.PinFiles(ctx, f)
	}
	return job, err
}

func (d *Desk) pinSteps(ctx context.Context, s *task.Submission, job *job.Job) (*job.Job, error) {
	switch {
	case job != nil:
		spec, changed, err := d.pinSpec(ctx, job.Spec)
		if err != nil || !changed {
			return job, err
		}
		pinned := *job
		pinned.Spec = spec
		return &pinned, nil
	case s.Spec != nil:
		spec, changed, err := d.pinSpec(ctx, *s.Spec)
		if changed {
			s.Spec = &spec
		}
		return nil, err
	}
	return nil, nil
}

// pinSpec returns a spec whose steps have pinned files, and whether that made a difference.
func (d *Desk) pinSpec(ctx context.Context, spec job.Spec) (job.Spec, bool, error) {
	changed := false
	err := spec.ChangeSteps(func(_ string, step *job.Step) error {
		if step.Files == nil {
			return nil
		}
		f, err := d.Store.PinFiles(ctx, step.Files)
		if err == nil {
			step.Files, changed = f, true
		}
		return err
	})
	return spec, changed && err == nil, err
}
