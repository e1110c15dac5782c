package client

import (
	"context"
	"slices"

	"millrace/task"
)

// pinSteps pins the files of the steps of what is submitted, in copies of it: s gets one itself, and
// the job is returned, as it was if it has none.
func (c *Client) pinSteps(ctx context.Context, s *task.Submission, job *task.Job) (*task.Job, error) {
	switch {
	case job != nil:
		spec, changed, err := c.pinSpec(ctx, job.Spec)
		if err != nil || !changed {
			return job, err
		}
		pinned := *job
		pinned.Spec = spec
		return &pinned, nil
	case s.Spec != nil:
		spec, changed, err := c.pinSpec(ctx, *s.Spec)
		if changed {
			s.Spec = &spec
		}
		return nil, err
	}
	return nil, nil
}

// pinSpec returns a spec whose steps have pinned files, and whether that made a difference.
func (c *Client) pinSpec(ctx context.Context, spec task.Spec) (task.Spec, bool, error) {
	changed := false
	pin := func(step *task.Step) error {
		if step == nil || step.Files == nil {
			return nil
		}
		f, err := c.pinned(ctx, step.Files)
		if err == nil {
			step.Files, changed = f, true
		}
		return err
	}
	spec.Steps = slices.Clone(spec.Steps)
	for i := range spec.Steps {
		if err := pin(&spec.Steps[i]); err != nil {
			return spec, false, err
		}
	}
	if spec.On == nil {
		return spec, changed, nil
	}
	on := *spec.On
	for _, h := range []**task.Step{&on.Success, &on.Failure, &on.Cancel, &on.Exit} {
		if *h == nil {
			continue
		}
		step := **h
		if err := pin(&step); err != nil {
			return spec, false, err
		}
		*h = &step
	}
	spec.On = &on
	return spec, changed, nil
}
