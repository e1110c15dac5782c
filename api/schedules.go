package api

import (
	"context"
	"fmt"
	"time"

	"millrace/client"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/view"
)

// scheduleRequest names a schedule, and says what is asked of it.
type scheduleRequest struct {
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty"`
	// Since and Limit choose the ticks that are shown.
	Since time.Time `json:"since,omitzero"`
	Limit int       `json:"limit,omitempty"`
	// Task is what a run changes.
	Task task.Submission `json:"task,omitzero"`
}

// ticksSince is since when ticks are shown if nobody says.
const ticksSince = 24 * time.Hour

func (r *scheduleRequest) check() error { return task.ValidName("schedule", r.Name) }

func (s *Service) schedules(ctx context.Context, r client.MomentRequest) (client.ScheduleList, error) {
	if r.At == "" {
		return client.ScheduleListOf(ctx, s.view(), s.Model, s.now())
	}
	v, when, err := s.then(ctx, r.At)
	if err != nil {
		return client.ScheduleList{}, err
	}
	return client.ScheduleListOf(ctx, v, v, when)
}

func (s *Service) jobs(ctx context.Context, r client.MomentRequest) (client.JobList, error) {
	if r.At == "" {
		return client.JobListOf(ctx, s.view(), s.Model)
	}
	v, _, err := s.then(ctx, r.At)
	if err != nil {
		return client.JobList{}, err
	}
	return client.JobListOf(ctx, v, v)
}

func (s *Service) schedule(ctx context.Context, r scheduleRequest) (client.ScheduleView, error) {
	if r.Since.IsZero() {
		r.Since = s.now().Add(-ticksSince)
	}
	if r.Limit == 0 {
		r.Limit = view.DefaultLimit
	}
	if r.Limit < 1 || r.Limit > view.MaxLimit {
		return client.ScheduleView{}, badRequest{fmt.Errorf("limit is %d, want 1 to %d", r.Limit, view.MaxLimit)}
	}
	return s.Client.ViewSchedule(ctx, r.Name, r.Since, r.Limit)
}

// toggle is what an endpoint does that pauses or resumes schedules: it answers with the schedule.
func toggle(do func(c *client.Client, ctx context.Context, name, reason string) (bool, error)) func(*Service, context.Context, scheduleRequest) (schedule.Stored, error) {
	return func(s *Service, ctx context.Context, r scheduleRequest) (schedule.Stored, error) {
		if _, err := do(s.Client, ctx, r.Name, r.Reason); err != nil {
			return schedule.Stored{}, err
		}
		return s.Client.Schedule(ctx, r.Name)
	}
}

func (s *Service) runSchedule(ctx context.Context, r scheduleRequest) (client.Receipt, error) {
	return s.Client.RunSchedule(ctx, r.Name, r.Task)
}
