package submit

import (
	"cmp"
	"context"

	"millrace/task/birth"
	"millrace/task/job"
)

// filesOf returns the files of a task before its birth.
func filesOf(s *birth.Submission, of *job.Job) *job.Files {
	switch {
	case of != nil:
		return over(s.Files, of.Files)
	case s.Spec != nil:
		return over(s.Files, s.Spec.Files)
	}
	return s.Files
}

// over is the files of a submission, with unset fields as in the definition.
func over(said, defined *job.Files) *job.Files {
	if said == nil || defined == nil || said.To != "" || said.Mode != "" {
		return cmp.Or(said, defined)
	}
	return &job.Files{Bundle: said.Bundle, To: defined.To, Mode: defined.Mode}
}

// pin replaces the files of a submission and of the job's steps with the versions that they name
// now. It changes copies: s gets its own, and the job is returned, unchanged if it has no files.
func (d *Maker) pin(ctx context.Context, s *birth.Submission, of *job.Job) (*job.Job, error) {
	of, err := d.pinSteps(ctx, s, of)
	if err != nil {
		return of, err
	}
	if f := filesOf(s, of); f != nil {
		s.Files, err = d.Store.PinFiles(ctx, f)
	}
	return of, err
}

func (d *Maker) pinSteps(ctx context.Context, s *birth.Submission, of *job.Job) (*job.Job, error) {
	switch {
	case of != nil:
		spec, err := d.pinSpec(ctx, &of.Spec)
		if err != nil || spec == &of.Spec {
			return of, err
		}
		pinned := *of
		pinned.Spec = *spec
		return &pinned, nil
	case s.Spec != nil:
		spec, err := d.pinSpec(ctx, s.Spec)
		if err == nil {
			s.Spec = spec
		}
		return nil, err
	}
	return nil, nil
}

// pinSpec returns a spec whose steps have pinned files: a copy, unless none of them has files.
func (d *Maker) pinSpec(ctx context.Context, spec *job.Spec) (*job.Spec, error) {
	if len(spec.Steps) == 0 && spec.On == nil {
		return spec, nil
	}
	changed, pinned := false, *spec
	err := pinned.ChangeSteps(func(_ string, step *job.Step) error {
		if step.Files == nil {
			return nil
		}
		f, err := d.Store.PinFiles(ctx, step.Files)
		if err == nil {
			step.Files, changed = f, true
		}
		return err
	})
	if !changed {
		return spec, err
	}
	return &pinned, err
}
