package answers

import (
	"context"
	"errors"
	"fmt"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/task/value"
)

// backfillTicks is the most ticks that one request may cover.
const backfillTicks = 20_000

// progressRequest names a schedule and a time.
type progressRequest struct{ client.Backfill }

func (r *progressRequest) check() error {
	if r.From == "" {
		return errors.New("from is missing: the first time whose tick is meant")
	}
	return value.ValidName("schedule", r.Name)
}

// backfillRequest says which ticks get tasks, and how.
type backfillRequest struct {
	progressRequest
	// MaxParallel is how many of these tasks may be unfinished at one time. Default 0: any number.
	MaxParallel int `json:"max_parallel,omitempty"`
	// Limit is how many tasks are made at most: 1 to 1000. Default 1000.
	Limit int `json:"limit,omitempty"`
	// DryRun makes nothing: the answer only counts the tasks and names the first ones.
	DryRun bool `json:"dry_run,omitempty"`
}

func (r *backfillRequest) check() error {
	if r.Limit == 0 {
		r.Limit = view.MaxLimit
	}
	switch {
	case r.Limit < 1 || r.Limit > view.MaxLimit:
		return fmt.Errorf("limit is %d, want 1 to %d", r.Limit, view.MaxLimit)
	case r.MaxParallel < 0 || r.MaxParallel > view.MaxLimit:
		return fmt.Errorf("max_parallel is %d, want 1 to %d, or 0 for any number", r.MaxParallel, view.MaxLimit)
	}
	return r.progressRequest.check()
}

// ticksOf returns the ticks that a request covers.
func (s *Service) ticksOf(ctx context.Context, r *client.Backfill) ([]schedule.Tick, error) {
	of, err := s.Client.Schedule(ctx, r.Name)
	if err != nil {
		return nil, err
	}
	return client.BackfillTicks(&of, r, s.now(), backfillTicks)
}

// ends returns how the tasks of these ticks stand, as of seq or later; ticks without a task are
// missing.
func (s *Service) ends(ctx context.Context, name string, ticks []schedule.Tick, seq uint64) (map[task.ID]task.End, error) {
	if err := s.Model.Wait(ctx, seq); err != nil {
		return nil, err
	}
	ids := make([]task.ID, len(ticks))
	for i := range ticks {
		ids[i] = schedule.TaskID(name, ticks[i].At)
	}
	ends, _, err := s.Model.Ends(ctx, ids)
	return ends, err
}

// backfilled reports how far the ticks have come. A follower gets another report whenever one of
// their tasks changes.
func (s *Service) backfilled(ctx context.Context, r progressRequest) (client.Backfilled, error) {
	ticks, err := s.ticksOf(ctx, &r.Backfill)
	if err != nil {
		return client.Backfilled{}, err
	}
	ends, err := s.ends(ctx, r.Name, ticks, 0)
	return client.Filled(r.Name, ticks, ends), err
}

func (s *Service) backfill(ctx context.Context, r backfillRequest) (is client.Backfilled, err error) {
	ticks, err := s.ticksOf(ctx, &r.Backfill)
	if err != nil {
		return is, err
	}
	last, err := s.Client.Last(ctx)
	if err != nil {
		return is, err
	}
	ends, err := s.ends(ctx, r.Name, ticks, last)
	if err != nil {
		return is, err
	}
	lacking := client.Lacking(r.Name, ticks, ends, r.MaxParallel, r.Limit)
	if r.DryRun {
		is = client.Filled(r.Name, ticks, ends)
		is.DryRun = true
		for i := range lacking {
			is.Tasks = append(is.Tasks, client.BackfilledTick{Tick: lacking[i].At, Task: schedule.TaskID(r.Name, lacking[i].At)})
		}
		return is, nil
	}
	var tasks []client.BackfilledTick
	made := 0
	making, cancel := context.WithTimeout(ctx, bulkPatience)
	defer cancel()
	interrupted, broken := s.Client.RunTicks(making, r.Name, lacking, func(t client.BackfilledTick, seq uint64) {
		tasks, last = append(tasks, t), max(last, seq)
		if t.Made {
			made++
		}
	})
	if broken != nil && len(tasks) == 0 {
		return is, broken
	}
	if ends, err = s.ends(ctx, r.Name, ticks, last); err != nil {
		return is, err
	}
	is = client.Filled(r.Name, ticks, ends)
	is.Made, is.Tasks, is.Interrupted = made, append(is.Tasks, tasks...), interrupted
	if broken != nil {
		is.Broken = broken.Error()
	}
	return is, nil
}
