package answers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/value"
)

// ratesOver is how long the rates of a queue are measured.
const ratesOver = 500 * time.Millisecond

func (s *Service) queues(ctx context.Context, r client.QueueListRequest) (is client.QueuePage, err error) {
	if r.Queue != "" {
		if err := value.ValidName("queue", r.Queue); err != nil {
			return is, badRequest{err}
		}
	}
	if err := validPage(&r.PageRequest); err != nil {
		return is, err
	}
	if is, err = s.queuesAt(ctx, &r); r.Queue != "" {
		_, err = client.OneOf(is, r.Queue, err)
	}
	if err == nil && r.At == "" {
		err = s.measure(ctx, is.Queues, r.Rates)
	}
	return is, err
}

func (s *Service) queuesAt(ctx context.Context, r *client.QueueListRequest) (page client.QueuePage, err error) {
	switch {
	case r.At != "" && r.Rates:
		return page, badRequest{errors.New("of the past it is not known how much came and went")}
	case r.At != "":
		v, when, err := s.then(ctx, r.At)
		if err != nil {
			return page, err
		}
		return client.QueuesThen(ctx, v, r, when)
	}
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return page, err
	}
	return client.QueuesOf(ctx, s.view(), s.Model, r, s.now(), s.rate)
}

// rate returns the state of a queue's rate, as far as a scheduler knows it.
func (s *Service) rate(counter string) *quota.CounterState {
	if s.Limits == nil {
		return nil
	}
	if counters, _ := s.Limits.Limits(counter, 0); len(counters) == 1 {
		return &counters[0]
	}
	return nil
}

// measure adds what only the log's server knows.
func (s *Service) measure(ctx context.Context, queues []client.QueueView, rates bool) error {
	type sum struct {
		waiting, leased int
		handed          uint64
	}
	names := make([]string, len(queues))
	for i := range queues {
		names[i] = queues[i].Name
	}
	look := func() ([]sum, error) {
		states, err := s.Client.Store().QueueStates(ctx, names...)
		if err != nil {
			return nil, err
		}
		sums := make([]sum, len(queues))
		for i := range queues {
			v, now := &queues[i], &sums[i]
			clear(v.Waiting)
			for _, l := range states[v.Name] {
				if l.Waiting > 0 {
					v.Waiting[l.Priority] += l.Waiting
				}
				now.waiting += l.Waiting
				now.leased += l.Leased
				now.handed += l.Handed
			}
			v.Leased = now.leased
		}
		return sums, nil
	}
	began := time.Now()
	before, err := look()
	if err != nil || !rates {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(ratesOver):
	}
	after, err := look()
	if err != nil {
		return err
	}
	over := time.Since(began).Seconds()
	for i, now := range after {
		handed := float64(now.handed - before[i].handed)
		in := max(handed+float64(now.waiting-before[i].waiting), 0) / over
		out := max(handed-float64(now.leased-before[i].leased), 0) / over
		queues[i].In, queues[i].Out = &in, &out
	}
	return nil
}

// queueRequest names a queue, and says why something is done to it.
type queueRequest struct {
	// Queue is its name. Reason says why, for the log.
	Queue  string `json:"queue"`
	Reason string `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
}

// pauseRequest names a queue to pause.
type pauseRequest struct {
	// Queue is its name. Reason says why, for the log.
	Queue  string `json:"queue"`
	Reason string `json:"reason,omitempty" flag:"reason" usage:"why, in {words}; the log keeps them"`
	// For is how long the pause lasts. Default: until the queue is resumed.
	For value.Duration `json:"for,omitempty" flag:"for" zero:"refused" usage:"resume it by itself after so long: 90s, 2h, 1d"`
}

func (r *queueRequest) check() error { return value.ValidName("queue", r.Queue) }

func (r *pauseRequest) check() error { return value.ValidName("queue", r.Queue) }

// boundsRequest sets bounds of a queue.
type boundsRequest struct {
	// Queue is its name. Reason says why, for the log.
	Queue  string `json:"queue"`
	Reason string `json:"reason,omitempty"`
	// For has no effect: earlier versions took it here, too.
	For value.Duration `json:"for,omitempty" hidden:"true"`
	// Limit has the bounds; omitted ones stay as they are.
	queue.Limit
	// IfRevision is the queue's head that the change is based on: if the current one differs,
	// nothing changes. Default: any.
	IfRevision *uint64 `json:"if_revision,omitempty"`
}

func (s *Service) pauseQueue(ctx context.Context, r pauseRequest) (queue.Queue, error) {
	return s.Client.PauseQueue(ctx, r.Queue, r.For.Std(), r.Reason)
}

func (s *Service) resumeQueue(ctx context.Context, r queueRequest) (queue.Queue, error) {
	return s.Client.ResumeQueue(ctx, r.Queue, r.Reason)
}

func (s *Service) limitQueue(ctx context.Context, r boundsRequest) (queue.Queue, error) {
	bounds := r.Limit
	bounds.Reason, bounds.Seen = r.Reason, seen(r.IfRevision)
	if err := bounds.Validate(); err != nil {
		return queue.Queue{}, badRequest{err}
	}
	return s.Client.LimitQueue(ctx, r.Queue, bounds)
}

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
