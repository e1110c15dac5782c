package answers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/schedule"
	"millrace/task/value"
)

// scheduleRequest names a schedule, and says why something is done to it.
type scheduleRequest struct {
	// Name is the schedule's. Reason says why, for the log.
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty" flag:"reason" usage:"why, in words; the log keeps them"`
}

// scheduleRunRequest asks for a task of a schedule now.
type scheduleRunRequest struct {
	// Name is the schedule's.
	Name string `json:"name"`
	// Reason, Since, Limit and At have no effect: earlier versions took them here, too.
	Reason string    `json:"reason,omitempty" hidden:"true"`
	Since  time.Time `json:"since,omitzero" hidden:"true"`
	Limit  int       `json:"limit,omitempty" hidden:"true"`
	At     string    `json:"at,omitempty" hidden:"true"`
	// Task overrides fields of the task that a run makes.
	Task birth.Submission `json:"task,omitzero"`
	// RespectOverlap makes the run count for the schedule's overlap, as if it were a tick: it is
	// refused if the overlap has no room for it, and ticks find that it runs. Task must be empty.
	RespectOverlap bool `json:"respect_overlap,omitempty"`
}

// shownSchedule names a schedule to look at.
type shownSchedule struct {
	// Name is the schedule's.
	Name string `json:"name"`
	// Since is when the ticks in the answer begin, default a day ago, and Limit how many there are
	// at most: 1 to 1000, default 50.
	Since time.Time `json:"since,omitzero"`
	Limit int       `json:"limit,omitempty"`
	// At is the moment of the answer: a sequence of the log, or a time; "" is now.
	At string `json:"at,omitempty"`
}

// ticksSince is how far back ticks are shown by default.
const ticksSince = 24 * time.Hour

func (r *scheduleRequest) check() error { return value.ValidName("schedule", r.Name) }

func (r *scheduleRunRequest) check() error { return value.ValidName("schedule", r.Name) }

func (r *shownSchedule) check() error {
	return errors.Join(value.ValidName("schedule", r.Name), validLimit(&r.Limit))
}

func (s *Service) schedules(ctx context.Context, r client.MomentRequest) (is client.ScheduleList, err error) {
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	if r.At == "" {
		return client.ScheduleListOf(ctx, s.view(), s.Model, s.now(), r.PageRequest)
	}
	v, when, err := s.then(ctx, r.At)
	if err == nil {
		is, err = client.ScheduleListOf(ctx, v, v, when, r.PageRequest)
	}
	return is, err
}

func (s *Service) jobs(ctx context.Context, r client.MomentRequest) (is client.JobList, err error) {
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	if r.At == "" {
		return client.JobListOf(ctx, s.view(), s.Model, r.PageRequest)
	}
	v, _, err := s.then(ctx, r.At)
	if err == nil {
		is, err = client.JobListOf(ctx, v, v, r.PageRequest)
	}
	return is, err
}

func (s *Service) schedule(ctx context.Context, r shownSchedule) (client.ScheduleView, error) {
	in, at := view.View(s.Client.View()), view.Point{At: s.now()}
	if r.At != "" {
		then, _, err := s.then(ctx, r.At)
		if err != nil {
			return client.ScheduleView{}, err
		}
		if at, err = then.Point(ctx); err != nil {
			return client.ScheduleView{}, err
		}
		in = then
	}
	if r.Since.IsZero() {
		r.Since = at.At.Add(-ticksSince)
	}
	return s.Client.ScheduleOf(ctx, in, at, r.Name, r.Since, r.Limit)
}

// toggle returns the function of an endpoint that pauses or resumes schedules: its answer is the
// schedule.
func toggle(done string, do func(c *client.Client, ctx context.Context, name, reason string) (bool, error)) func(*Service, context.Context, scheduleRequest) (schedule.Stored, error) {
	return func(s *Service, ctx context.Context, r scheduleRequest) (schedule.Stored, error) {
		changed, err := do(s.Client, ctx, r.Name, r.Reason)
		if err != nil {
			return schedule.Stored{}, err
		}
		what := done
		if !changed {
			what = "unchanged"
		}
		if s.says("schedule %s %s", r.Name, what) {
			return schedule.Stored{}, nil
		}
		return s.Client.Schedule(ctx, r.Name)
	}
}

// nextRequest chooses future ticks.
type nextRequest struct {
	// Name names one schedule; "" means all that are not paused.
	Name string `json:"name,omitempty"`
	// From is now by default, and Until any time.
	From  time.Time `json:"from,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Limit is how many ticks are returned: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
}

func (r *nextRequest) check() error {
	if r.Name != "" {
		if err := value.ValidName("schedule", r.Name); err != nil {
			return err
		}
	}
	return validLimit(&r.Limit)
}

// tickList lists future ticks, in the order in which they are due.
type tickList struct {
	// Ticks are the next ones, the earliest first.
	Ticks []schedule.Upcoming `json:"ticks"`
	// Paused are schedules that make no tasks until they are resumed. A list of all schedules leaves
	// out their ticks.
	Paused []string `json:"paused,omitempty"`
	// Broken names schedules that are not valid.
	Broken string `json:"broken,omitempty"`
}

func (s *Service) ticks(ctx context.Context, r nextRequest) (tickList, error) {
	if r.From.IsZero() {
		r.From = s.now()
	}
	var stored []schedule.Stored
	var broken error
	if r.Name == "" {
		if stored, broken = s.Client.Schedules(ctx); broken != nil && len(stored) == 0 {
			return tickList{}, broken
		}
	} else {
		one, err := s.Client.Schedule(ctx, r.Name)
		if err != nil {
			return tickList{}, err
		}
		stored = append(stored, one)
	}
	is, plans := tickList{}, map[string]*schedule.Plan{}
	for i := range stored {
		if stored[i].Paused != nil {
			if is.Paused = append(is.Paused, stored[i].Name); r.Name == "" {
				continue
			}
		}
		plan, err := stored[i].Plan()
		if err != nil {
			broken = errors.Join(broken, fmt.Errorf("schedule %s: %w", stored[i].Name, err))
			continue
		}
		plans[stored[i].Name] = plan
	}
	// From then on.
	is.Ticks = schedule.Timeline(plans, r.From.Add(-time.Nanosecond), r.Until, r.Limit)
	if broken != nil {
		is.Broken = broken.Error()
	}
	return is, nil
}

// jobOfBreaker names a job to look at.
type jobOfBreaker struct {
	// Name is the job's.
	Name string `json:"name"`
}

func (r *jobOfBreaker) check() error { return value.ValidName("job", r.Name) }

// breakerRequest names a job, and says why its breaker is closed.
type breakerRequest struct {
	// Name is the job's. Reason says why, for the log.
	Name   string `json:"name"`
	Reason string `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

func (r *breakerRequest) check() error { return value.ValidName("job", r.Name) }

func (s *Service) breaker(ctx context.Context, r jobOfBreaker) (limit.Circuit, error) {
	return s.Client.Breaker(ctx, r.Name)
}

// resetBreaker closes the breaker, and returns its new state.
func (s *Service) resetBreaker(ctx context.Context, r breakerRequest) (limit.Circuit, error) {
	was, err := s.Client.ResetBreaker(ctx, r.Name, r.Reason)
	if err != nil || s.says("breaker of job %s is closed (it was %s)", r.Name, was.State) {
		return limit.Circuit{}, err
	}
	return s.Client.Breaker(ctx, r.Name)
}

func (s *Service) runSchedule(ctx context.Context, r scheduleRunRequest) (client.Receipt, error) {
	if !r.RespectOverlap {
		return s.Client.RunSchedule(ctx, r.Name, r.Task)
	}
	if !reflect.DeepEqual(r.Task, birth.Submission{}) {
		return client.Receipt{}, client.Wrongf("task: a run that counts for the overlap is a task as the schedule makes them; leave it out")
	}
	return s.Client.RunCounted(ctx, r.Name)
}
