package answers

import (
	"context"
	"errors"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// planRequest names a task, or holds a submission.
type planRequest struct {
	// ID is that of a task which was submitted. Default: one to be submitted, as the other fields
	// say.
	ID task.ID `json:"id,omitempty"`
	birth.Submission
}

func (r *planRequest) check() (err error) {
	switch {
	case r.ID != "":
		r.ID, err = task.ParseID(string(r.ID))
	case r.Job != "":
		err = value.ValidName("job", r.Job)
	}
	return err
}

func (s *Service) plan(ctx context.Context, r planRequest) (view.Plan, error) {
	switch {
	case r.ID != "":
		return view.PlanTask(ctx, s.view(), r.ID, s.now())
	case (r.Job == "") == (r.Spec == nil):
		return view.Plan{}, badRequest{errors.New("want id, of a task, or job or spec, of one to be submitted")}
	}
	of := job.Job{}
	if r.Spec != nil {
		of.Spec = *r.Spec
	} else {
		stored, err := s.Client.Job(ctx, r.Job)
		if err != nil {
			return view.Plan{}, err
		}
		of = stored.Job
	}
	plans, err := view.PlanJobs(ctx, s.view(), []job.Job{of}, r.Submission, s.now())
	if err != nil {
		return view.Plan{}, err
	}
	return plans[0], nil
}

// labelRequest names a node and labels; null removes one.
type labelRequest struct {
	// ID is the node's. Labels are those to set; null removes one. Reason says why, for the log.
	ID     node.ID            `json:"id"`
	Labels map[string]*string `json:"labels" args:"label"`
	Reason string             `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

func (r *labelRequest) check() error {
	if len(r.Labels) == 0 {
		return errors.New(`labels: name at least one: {"zone":"eu","gpu":null}`)
	}
	return r.ID.Validate()
}

func (s *Service) labelNode(ctx context.Context, r labelRequest) (client.NodeView, error) {
	n, err := s.Client.LabelNode(ctx, r.ID, r.Labels, r.Reason)
	if err != nil {
		return client.NodeView{}, err
	}
	return s.viewNode(ctx, n)
}

// copyRequest names a task, and the changes for its copy.
type copyRequest struct {
	// ID is the task to copy, and Task what is otherwise in the copy.
	ID   task.ID          `json:"id"`
	Task birth.Submission `json:"task,omitzero"`
}

func (r *copyRequest) check() (err error) {
	if r.Task.ID != "" {
		return errors.New("task.id: a copy has an id of its own; leave it out")
	}
	r.ID, err = task.ParseID(string(r.ID))
	return err
}

func (s *Service) copy(ctx context.Context, r copyRequest) (client.Receipt, error) {
	return s.Client.Copy(ctx, r.ID, r.Task)
}
