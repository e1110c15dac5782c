package api

import (
	"context"
	"maps"
	"slices"
	"time"

	"millrace/client"
	"millrace/node"
	"millrace/task"
	"millrace/task/definition"
	"millrace/task/schedule"
	"millrace/view"
)

// ratesOver is how long the rates of a queue are measured.
const ratesOver = 500 * time.Millisecond

func (s *Service) queues(ctx context.Context, body []byte) (any, error) {
	r, err := read[client.QueueListRequest](body)
	if err != nil {
		return nil, err
	}
	if r.Queue != "" {
		if err := task.ValidName("queue", r.Queue); err != nil {
			return nil, badRequest{err}
		}
	}
	if err := s.await(ctx, r.AtLeast, 0); err != nil {
		return nil, err
	}
	counts, err := s.view().Count(ctx, view.Query{Kind: view.Tasks})
	if err != nil {
		return nil, err
	}
	all, err := s.view().List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return nil, err
	}
	nodes := all.Nodes
	told, err := s.view().List(ctx, view.Query{Kind: view.Queues})
	if err != nil {
		return nil, err
	}
	oldest, err := s.Model.Oldest(ctx)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for q := range counts.Of {
		names[q] = true
	}
	for i := range told.Queues {
		names[told.Queues[i].Name] = true
	}
	for i := range nodes {
		if nodes[i].State == node.Retired {
			continue
		}
		for _, q := range nodes[i].Queues {
			names[q] = true
		}
	}
	if r.Queue != "" {
		known := names[r.Queue]
		names = map[string]bool{r.Queue: known}
	}
	page := client.QueuePage{Queues: []client.QueueView{}, Seq: counts.Point.Seq}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if task.ValidName("queue", name) != nil {
			continue // a node's own route
		}
		said, err := view.GetQueue(ctx, s.view(), name)
		if err != nil {
			return nil, err
		}
		if !names[name] && said.Head == 0 {
			continue
		}
		v := client.QueueView{Queue: said, States: map[string]int{}, Waiting: map[int]int{}, Oldest: oldest[name], Nodes: []string{}}
		v.Paused = said.PausedAt(s.now())
		for state, n := range counts.Of[name] {
			v.States[state.String()] = n
		}
		for i := range nodes {
			if nodes[i].Serves(name) {
				v.Nodes = append(v.Nodes, string(nodes[i].ID))
			}
		}
		if said.Window != "" {
			is, err := s.view().Get(ctx, view.Definition(definition.DefOf(definition.DefCalendar, said.Window)))
			if err != nil {
				return nil, err
			}
			v.Shut, _ = schedule.Flow(&said, is.Definition, s.now())
		}
		if said.Rate.Limit > 0 && s.Limits != nil {
			if counters, _, _ := s.Limits.Limits(task.QueueRateLimit(name), 1, 0); len(counters) == 1 {
				v.RateState = &counters[0]
			}
		}
		page.Queues = append(page.Queues, v)
	}
	return page, s.measure(ctx, page.Queues, r.Rates)
}

// measure adds what only the server of the log knows.
func (s *Service) measure(ctx context.Context, queues []client.QueueView, rates bool) error {
	type sum struct {
		waiting, leased int
		handed          uint64
	}
	look := func(v *client.QueueView) (now sum, err error) {
		lanes, err := s.Client.Store().QueueState(ctx, v.Name)
		clear(v.Waiting)
		for _, l := range lanes {
			if l.Waiting > 0 {
				v.Waiting[l.Priority] += l.Waiting
			}
			now.waiting += l.Waiting
			now.leased += l.Leased
			now.handed += l.Handed
		}
		v.Leased = now.leased
		return now, err
	}
	before := make([]sum, len(queues))
	began := time.Now()
	for i := range queues {
		var err error
		if before[i], err = look(&queues[i]); err != nil {
			return err
		}
	}
	if !rates {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(ratesOver):
	}
	for i := range queues {
		now, err := look(&queues[i])
		if err != nil {
			return err
		}
		handed := float64(now.handed - before[i].handed)
		over := time.Since(began).Seconds()
		in := max(handed+float64(now.waiting-before[i].waiting), 0) / over
		out := max(handed-float64(now.leased-before[i].leased), 0) / over
		queues[i].In, queues[i].Out = &in, &out
	}
	return nil
}

// queueRequest says what is to become of a queue.
type queueRequest struct {
	Queue  string        `json:"queue"`
	Reason string        `json:"reason,omitempty"`
	For    task.Duration `json:"for,omitempty"`
	// Running, Waiting, Rate and Window are bounds; 0, {} and "" are none, and what is left out stays as it is.
	Running *int       `json:"running,omitempty"`
	Waiting *int       `json:"waiting,omitempty"`
	Rate    *task.Rate `json:"rate,omitempty"`
	Window  *string    `json:"window,omitempty"`
}

// onQueue makes an endpoint that says something about a queue.
func onQueue(do func(s *Service, ctx context.Context, r queueRequest) (task.Queue, error)) func(*Service, context.Context, []byte) (any, error) {
	return func(s *Service, ctx context.Context, body []byte) (any, error) {
		r, err := read[queueRequest](body)
		if err != nil {
			return nil, err
		}
		return do(s, ctx, r)
	}
}

func (s *Service) pauseQueue(ctx context.Context, r queueRequest) (task.Queue, error) {
	return s.Client.PauseQueue(ctx, r.Queue, r.For.Std(), r.Reason)
}

func (s *Service) resumeQueue(ctx context.Context, r queueRequest) (task.Queue, error) {
	return s.Client.ResumeQueue(ctx, r.Queue, r.Reason)
}

func (s *Service) limitQueue(ctx context.Context, r queueRequest) (task.Queue, error) {
	bounds := task.LimitQueue{Running: r.Running, Waiting: r.Waiting, Rate: r.Rate, Window: r.Window, Reason: r.Reason}
	if err := bounds.Validate(); err != nil {
		return task.Queue{}, badRequest{err}
	}
	return s.Client.LimitQueue(ctx, r.Queue, bounds)
}
