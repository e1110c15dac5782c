package client

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/submit"
	"millrace/internal/files"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
)

// DeskStore returns what a desk needs beside the log; a scheduler takes it.
func (c *Client) DeskStore() submit.Store { return deskStore{c} }

type deskStore struct{ c *Client }

func (s deskStore) JobAt(ctx context.Context, name string, revision uint64) (job.Job, uint64, error) {
	return s.c.store.JobAt(ctx, name, revision)
}

// PinFiles wraps [birth.ErrNoTask] in its error if the files do not exist.
func (s deskStore) PinFiles(ctx context.Context, f *job.Files) (*job.Files, error) {
	pinned, err := s.pin(ctx, f)
	if errors.Is(err, files.ErrNoVersion) {
		err = birth.NoTask(err)
	}
	return pinned, err
}

func (s deskStore) pin(ctx context.Context, f *job.Files) (*job.Files, error) {
	ref, v, err := s.c.FilesVersion(ctx, f.Bundle)
	if err != nil {
		return nil, err
	}
	if err := s.c.store.Protect(ctx, v); err != nil {
		return nil, err
	}
	if _, err := s.c.store.Version(ctx, v.Digest); err != nil { // gc may have removed it just before
		return nil, fmt.Errorf("files %s: %w", ref, err)
	}
	pinned := *f
	pinned.Bundle = ref.String()
	return &pinned, nil
}

func (s deskStore) DeclareAll(ctx context.Context, births []*task.Work, by string) error {
	return s.c.store.DeclareAll(ctx, births, by)
}

// Waiting counts offers that the queue's consumers have not delivered, and tasks that wait for the
// queue's rate.
func (s deskStore) Waiting(ctx context.Context, name string, most int) (waiting int, handed uint64, err error) {
	c := s.c
	lanes, err := c.store.QueueState(ctx, name)
	if err == nil && !slices.ContainsFunc(lanes, func(l jet.LaneState) bool { return l.Plain() && l.Queue == name }) {
		// No worker has served the queue yet, so no consumer counts its offers.
		if err = c.store.OpenQueue(ctx, name); err == nil {
			lanes, err = c.store.QueueState(ctx, name)
		}
	}
	if err != nil {
		return 0, 0, err
	}
	for _, l := range lanes {
		waiting += l.Waiting
		handed += l.Handed
	}
	q, err := c.rec.LoadQueue(ctx, name)
	if err != nil {
		return 0, 0, err
	}
	held := 0
	if q.Rate.Limit > 0 {
		held = s.underRate(ctx, name)
	}
	if waiting+held >= most {
		// These include the offers of cancelled tasks; the read model knows better, if there is
		// one.
		waiting = min(waiting, s.pending(ctx, name, waiting))
	}
	return waiting + held, handed, nil
}

// underRate returns how many tasks wait for the rate of a queue, as far as a scheduler knows.
func (s deskStore) underRate(ctx context.Context, name string) int {
	page, err := s.c.Limits(ctx, LimitListRequest{Name: limit.QueueRate(name), Limit: 1})
	if err != nil || len(page.Counters) != 1 {
		return 0
	}
	return page.Counters[0].Waiting
}

// pending returns how many tasks of a queue are pending by the read model, or the value of or if
// that is unknown.
func (s deskStore) pending(ctx context.Context, name string, or int) int {
	last, err := s.c.store.Last(ctx)
	if err != nil {
		return or
	}
	page, err := s.c.Queues(ctx, QueueListRequest{Queue: name, AtLeast: last})
	if err != nil || len(page.Queues) != 1 {
		return or
	}
	return page.Queues[0].States[task.Pending.String()]
}

// nodesFor is for [submit.Maker.Nodes].
func (c *Client) nodesFor(ctx context.Context, parent *task.Task) (nodes []node.Node, at uint64, rule string, err error) {
	if len(parent.Spec.Place.Nodes) > 0 {
		at, err = c.store.Last(ctx)
		return nil, at, "", err
	}
	nodes, at, beats, err := c.knownNodes(ctx, 0)
	if beats {
		rule = task.RuleBeats
	}
	return nodes, at, rule, err
}

// knownNodes returns the nodes as of a sequence of the log: from a millrace server, as of atLeast
// or later, or, if none answers, those with a live heartbeat.
func (c *Client) knownNodes(ctx context.Context, atLeast uint64) (nodes []node.Node, at uint64, beats bool, err error) {
	page, err := c.Nodes(ctx, NodeListRequest{Bare: true, AtLeast: atLeast})
	if err == nil {
		nodes = make([]node.Node, len(page.Nodes))
		for i := range page.Nodes {
			nodes[i] = page.Nodes[i].Node
		}
		return nodes, page.Seq, false, nil
	}
	if !errors.Is(err, jet.ErrNoService) {
		return nil, 0, false, err
	}
	if at, err = c.store.Last(ctx); err != nil {
		return nil, 0, false, err
	}
	alive, err := c.store.Alive(ctx)
	if err != nil {
		return nil, 0, false, err
	}
	for id := range alive {
		records, err := c.store.Node(ctx, id, 0)
		if err != nil {
			return nil, 0, false, err
		}
		// All of one moment.
		records = slices.DeleteFunc(records, func(r events.Record) bool { return r.Seq > at })
		nodes = append(nodes, events.FoldNode(id, records))
	}
	return nodes, at, true, nil
}
