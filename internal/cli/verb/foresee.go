package verb

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/events/jet/rights"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// lookedFor is how many nodes of one submission are looked up.
const lookedFor = 20

// Foresee warns after a submission if no worker serves its queue or has its handler, and if nodes or
// tasks that it names do not exist. The submission is accepted nevertheless: a worker may come later, and so may
// a task with a chosen id. It does not mention what it cannot find out.
func (a *Commands) Foresee(ctx context.Context, c *client.Client, s *birth.Submission) {
	if c.May(rights.NodeList) != nil {
		return
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	a.foreseeQueue(asking, c, s.Queue)
	a.foreseeNodes(asking, c, s)
	a.foreseeExpiry(asking, c, s)
	a.foreseeHandler(asking, c, a.handlerOf(asking, c, s))
	if s.Needs == nil {
		return
	}
	missing, err := view.Missing(asking, c.View(), s.Needs)
	if err != nil {
		return
	}
	for _, id := range missing {
		a.Note("it needs task %s, and there is none: it waits until one is submitted under this id", id)
	}
}

// foreseeQueue is Foresee for a queue; "" names none.
func (a *Commands) foreseeQueue(ctx context.Context, c *client.Client, name string) {
	if name == "" {
		return
	}
	q, err := c.OneQueue(ctx, name, false)
	if errors.Is(err, client.ErrNoQueue) || err == nil && len(q.Nodes) == 0 {
		a.Note("no worker takes work from queue %s; its tasks wait until one does%s%s", name, a.atMost(ctx, c), settings.DidYouMean(value.Word(name, servedQueues(ctx, c))))
	}
}

// atMost says in words how long tasks wait for a node, if somebody has bounded that on the servers; "" if
// they wait for ever.
func (a *Commands) atMost(ctx context.Context, c *client.Client) string {
	rules, err := a.InForce(ctx, c)
	if err != nil || rules.StartDeadline == 0 {
		return ""
	}
	return fmt.Sprintf(", and end as abnormal/expired if none does within %v (start_deadline)", value.Duration(rules.StartDeadline))
}

// servedQueues returns the queues that nodes serve, as far as a server knows them.
func servedQueues(ctx context.Context, c *client.Client) []string {
	page, _ := c.Nodes(ctx, client.NodeListRequest{})
	var names []string
	for i := range page.Nodes {
		names = append(names, page.Nodes[i].Queues...)
	}
	return names
}

// handlerOf returns the handler of a submission, which may be that of its job; "" if it has none.
func (a *Commands) handlerOf(ctx context.Context, c *client.Client, s *birth.Submission) string {
	switch {
	case s.Spec != nil:
		return s.Spec.Handler
	case s.Job == "":
		return ""
	}
	j, _ := c.Job(ctx, s.Job) // a job that cannot be read has no handler to warn of
	return j.Spec.Handler
}

// foreseeHandler is Foresee for a handler; "" names none. Commands run on most nodes, so nothing is
// read for them.
func (a *Commands) foreseeHandler(ctx context.Context, c *client.Client, name string) {
	if name == "" {
		return
	}
	page, err := c.View().List(ctx, view.Query{Kind: view.Nodes})
	if err != nil {
		return
	}
	var names []string
	for i := range page.Nodes {
		names = append(names, page.Nodes[i].Handlers...)
	}
	if lacking := node.Lacking(slices.Values(page.Nodes), (&job.Spec{Handler: name}).Means()); lacking != "" {
		a.Note("%s; the task waits until one does%s%s", lacking, a.atMost(ctx, c), settings.DidYouMean(value.Word(name, names)))
	}
}

// foreseeNodes is Foresee for nodes.
func (a *Commands) foreseeNodes(ctx context.Context, c *client.Client, s *birth.Submission) {
	named, noNode := s.Nodes, s.NoNode
	if s.Place != nil {
		named = append(slices.Clone(named), s.Place.Nodes...)
	}
	var names []string
	for _, name := range named[:min(len(named), lookedFor)] {
		n, err := c.Node(ctx, node.ID(name))
		gone := err == nil && n.State == node.Retired
		if !gone && !errors.Is(err, node.ErrUnknown) {
			continue
		}
		if names == nil {
			names = connect.NamesOf(ctx, c, node.ErrUnknown)
		}
		a.Note("%s", nodeNews(name, gone, value.Word(name, names), noNode, a.atMost(ctx, c)))
	}
}

// foreseeExpiry is Foresee for a task that somebody wants to expire without a node, where nothing bounds
// the wait.
func (a *Commands) foreseeExpiry(ctx context.Context, c *client.Client, s *birth.Submission) {
	if s.NoNode != job.NoNodeExpire || a.atMost(ctx, c) != "" {
		return
	}
	switch {
	case s.Pending != nil:
		if *s.Pending > 0 {
			return
		}
	case s.Spec != nil:
		if s.Spec.Timeout.Pending > 0 {
			return
		}
	case s.Job != "":
		if j, err := c.Job(ctx, s.Job); err != nil || j.Timeout.Pending > 0 {
			return
		}
	}
	a.Note("no_node: expire ends nothing here, because nothing bounds the wait for a node: --pending-timeout does (timeout.pending), or start_deadline of the servers")
}

// ForeseeJob is Foresee for a stored job, and its steps.
func (a *Commands) ForeseeJob(ctx context.Context, c *client.Client, j *job.Job) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	a.foreseeNodes(asking, c, &birth.Submission{Place: &j.Place, NoNode: j.Place.NoNode})
	a.foreseeHandler(asking, c, j.Handler)
	for i := range j.Steps {
		a.foreseeHandler(asking, c, j.Steps[i].Handler)
		place := &j.Steps[i].Place
		a.foreseeNodes(asking, c, &birth.Submission{Place: place, NoNode: place.NoNode})
	}
}

// nodeNews warns that a node does not exist, and what that means for its work; atMost says how long that
// waits by default.
func nodeNews(name string, retired bool, meant, noNode, atMost string) string {
	text := "no worker has registered as node " + name
	if retired {
		text = "node " + name + " is retired"
	}
	text += settings.DidYouMean(meant)
	switch noNode {
	case job.NoNodeFail:
		return text + "; what is for it alone ends at once as abnormal/unplaceable (no_node: fail)"
	case job.NoNodeFallback:
		return text + "; what is for it alone goes to its queue (no_node: fallback)"
	case job.NoNodeWait:
		return text + "; what is for it alone waits until a worker of this name starts (no_node: wait)"
	}
	return text + fmt.Sprintf("; what is for it alone waits until a worker of this name starts%s (--no-node, or place.no_node of a job, says otherwise: %s, %s)",
		strings.Replace(atMost, "end as", "ends as", 1), job.NoNodeFallback, job.NoNodeFail)
}
