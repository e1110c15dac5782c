package api

import (
	"context"
	"fmt"

	"millrace/client"
	"millrace/task"
	"millrace/task/quota"
	"millrace/view"
)

// Limits answers requests about limits: a scheduler does.
type Limits interface {
	// Limits returns one counter or, for "", at most most of them, and how many there are.
	Limits(name string, most, holders int) (counters []quota.CounterState, all int, seq uint64)
	// Standing returns where a task waits before its limits; false if it waits for none.
	Standing(id task.ID, holders int) (quota.Standing, bool)
}

func (s *Service) limits(ctx context.Context, r client.LimitListRequest) (client.LimitPage, error) {
	if r.Limit == 0 {
		r.Limit = view.DefaultLimit
	}
	if r.Limit < 1 || r.Limit > view.MaxLimit || r.Holders < 0 || r.Holders > view.MaxLimit {
		return client.LimitPage{}, badRequest{fmt.Errorf("limit is %d and holders %d, want 1 to %d and 0 to %d", r.Limit, r.Holders, view.MaxLimit, view.MaxLimit)}
	}
	if r.At != "" {
		return s.limitsThen(ctx, &r)
	}
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return client.LimitPage{}, err
	}
	page := client.LimitPage{Counters: []quota.CounterState{}}
	if s.Limits == nil {
		return page, nil
	}
	if r.Task != "" {
		if standing, ok := s.Limits.Standing(r.Task, r.Holders); ok {
			page.Standing = &standing
		}
		return page, nil
	}
	counters, all, seq := s.Limits.Limits(r.Name, r.Limit, r.Holders)
	page.Counters, page.All, page.Seq = append(page.Counters, counters...), all, seq
	return page, nil
}

// limitsThen returns the limits at a moment of the past.
func (s *Service) limitsThen(ctx context.Context, r *client.LimitListRequest) (page client.LimitPage, err error) {
	v, when, err := s.then(ctx, r.At)
	if err != nil {
		return page, err
	}
	if r.Task == "" {
		return client.LimitsOf(ctx, v, v, *r, when)
	}
	page.Counters = []quota.CounterState{}
	page.Standing, err = v.Standing(ctx, r.Task, r.Holders)
	return page, err
}
