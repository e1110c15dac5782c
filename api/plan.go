package api

import (
	"context"
	"errors"

	"millrace/node"
	"millrace/task"
	"millrace/view"
)

// planRequest names a task, or says what would be submitted.
type planRequest struct {
	ID task.ID `json:"id,omitempty"`
	task.Submission
}

func (s *Service) plan(ctx context.Context, body []byte) (any, error) {
	r, err := read[planRequest](body)
	if err != nil {
		return nil, err
	}
	switch {
	case r.ID != "":
		if r.ID, err = task.ParseID(string(r.ID)); err != nil {
			return nil, badRequest{err}
		}
		return view.PlanTask(ctx, s.view(), r.ID, s.now())
	case (r.Job == "") == (r.Spec == nil):
		return nil, badRequest{errors.New("want id, of a task, or job or spec, of one to be submitted")}
	}
	job := task.Job{}
	if r.Spec != nil {
		job.Spec = *r.Spec
	} else {
		stored, err := s.Client.Job(ctx, r.Job)
		if err != nil {
			return nil, err
		}
		job = stored.Job
	}
	plans, err := view.PlanJobs(ctx, s.view(), []task.Job{job}, r.Submission, s.now())
	if err != nil {
		return nil, err
	}
	return plans[0], nil
}

// labelRequest names a node and labels; null removes one.
type labelRequest struct {
	ID     node.ID            `json:"id"`
	Labels map[string]*string `json:"labels"`
	Reason string             `json:"reason,omitempty"`
}

func (s *Service) labelNode(ctx context.Context, body []byte) (any, error) {
	r, err := read[labelRequest](body)
	if err != nil {
		return nil, err
	}
	if err := r.ID.Validate(); err != nil {
		return nil, badRequest{err}
	}
	if len(r.Labels) == 0 {
		return nil, badRequest{errors.New(`labels: name at least one: {"zone":"eu","gpu":null}`)}
	}
	n, err := s.Client.LabelNode(ctx, r.ID, r.Labels, r.Reason)
	if err != nil {
		return nil, err
	}
	return s.viewNode(ctx, n)
}

func (s *Service) retry(ctx context.Context, body []byte) (any, error) {
	request, err := readID(body)
	if err != nil {
		return nil, err
	}
	return s.Client.Retry(ctx, request.ID, request.Reason)
}

// copyRequest names a task, and says what its copy changes.
type copyRequest struct {
	ID   task.ID         `json:"id"`
	Task task.Submission `json:"task,omitzero"`
}

func (s *Service) copy(ctx context.Context, body []byte) (any, error) {
	r, err := read[copyRequest](body)
	if err != nil {
		return nil, err
	}
	if r.ID, err = task.ParseID(string(r.ID)); err != nil {
		return nil, badRequest{err}
	}
	if r.Task.ID != "" {
		return nil, badRequest{errors.New("task.id: a copy has an id of its own; leave it out")}
	}
	return s.Client.Copy(ctx, r.ID, r.Task)
}
