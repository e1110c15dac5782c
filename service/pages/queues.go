package pages

import (
	"context"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/queue"
	"millrace/task/quota"
)

var queuesPage = page{name: "queues", path: "/queues", entry: "Queues", verb: rights.QueueList, show: showQueues, inFiles: true}

// Bounds of what the page of queues shows.
const (
	shownQueues  = 50 // on a page: anybody who submits makes queues
	shownLimits  = 100
	shownHolders = 5
)

type queuesData struct {
	Queues queuesPanel
	Limits list[quota.CounterState]
}

type queuesPanel struct {
	list[client.QueueView]
	// Unserved are the tasks that wait for one node alone, which does not take them.
	Unserved []client.UnservedNode
	// First tells that it is the first page; Next is the cursor of the next one, "" for none.
	First bool
	Next  string
}

func showQueues(ctx context.Context, l *look) (any, error) {
	d := &queuesData{}
	d.Queues.find(ctx, l)
	findLimits(ctx, l, &d.Limits)
	return d, nil
}

func (p *queuesPanel) find(ctx context.Context, l *look) {
	request := client.QueueListRequest{PageRequest: client.PageRequest{Limit: shownQueues, Cursor: l.Asked("cursor")}}
	var page client.QueuePage
	var err error
	if l.Past {
		page, err = client.QueuesOf(ctx, l.View, l.Sums, &request, l.Now, func(string) *quota.CounterState { return nil })
	} else {
		err = l.ask(ctx, rights.QueueList, request, &page)
	}
	p.set(page.Queues, err)
	p.First, p.Next, p.Unserved = request.Cursor == "", page.Next, page.UnservedNodes
	p.columns = term.Choose(wording.QueueColumns(l.Now), "queue", "state", "why", "waiting", "oldest", "held", "running", "nodes", "bounds", "actions")
}

// Bounds says what bounds a queue, and when its rate lets a task start.
func (l *look) Bounds(q *client.QueueView) string {
	is := q.Bounds()
	if is.Same(queue.Limited{}) {
		return "none"
	}
	if q.RateState == nil {
		return is.Words()
	}
	_, next := wording.RateText(q.RateState.Rate, l.Now)
	return is.Words() + "; next " + next
}

// Acting are the buttons of a queue.
func (l *look) Acting(q *client.QueueView) []button { return l.buttons("queues", q.Name, q) }

func findLimits(ctx context.Context, l *look, p *list[quota.CounterState]) {
	request := client.LimitListRequest{Limit: shownLimits, Holders: shownHolders}
	var page client.LimitPage
	var err error
	if l.Past {
		page, err = client.LimitsOf(ctx, l.View, l.Sums, request, l.Now)
	} else {
		err = l.ask(ctx, rights.LimitList, request, &page)
	}
	p.set(page.Counters, err)
	p.More = max(page.All-len(page.Counters), 0)
	p.columns = term.Choose(wording.LimitColumns(l.Now), "limit", "in use", "waiting", "rate", "next", "held by")
}
