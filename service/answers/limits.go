package answers

import (
	"context"
	"fmt"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/quota"
)

// Limits answers requests about limits: a scheduler does.
type Limits interface {
	// Limits returns one counter or, for "", all of them, as [quota.Limiter.Told] does.
	Limits(name string, holders int) (counters []quota.CounterState, seq uint64)
	// Standing returns where a task waits before its limits; false if it waits for none.
	Standing(id task.ID, holders int) (quota.Standing, bool)
}

func (s *Service) limits(ctx context.Context, r client.LimitListRequest) (is client.LimitPage, err error) {
	if r.Limit == 0 {
		r.Limit = view.DefaultLimit
	}
	if r.Limit < 1 || r.Limit > view.MaxLimit || r.Holders < 0 || r.Holders > view.MaxLimit {
		return is, badRequest{fmt.Errorf("limit is %d and holders %d, want 1 to %d and 0 to %d", r.Limit, r.Holders, view.MaxLimit, view.MaxLimit)}
	}
	is.Counters = []quota.CounterState{}
	if r.At != "" {
		return s.limitsThen(ctx, &r)
	}
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return is, err
	}
	switch {
	case s.Limits == nil:
		return is, nil
	case r.Task != "":
		if standing, ok := s.Limits.Standing(r.Task, r.Holders); ok {
			is.Standing = &standing
		}
		return is, nil
	}
	counters, seq := s.Limits.Limits(r.Name, r.Holders)
	is.Seq = seq
	return is, is.Take(counters, &r)
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
