package pages

import (
	"context"

	"millrace/events/jet/rights"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
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
	Limits table[limitRow]
}

type queuesPanel struct {
	table[queueRow]
	// Unserved are the tasks that wait for one node alone, which does not take them.
	Unserved []client.UnservedNode
	// First tells that it is the first page; Next is the cursor of the next one, "" for none.
	First bool
	Next  string
}

// queueRow is a queue with its bounds in words.
type queueRow struct {
	client.QueueView
	Pending, Running, Held int
	Bounds, Rate, Next     string
	Buttons                []button
}

// limitRow is a limit, and its state.
type limitRow struct {
	quota.CounterState
	Rate, Next string
}

func showQueues(ctx context.Context, l *look) (any, error) {
	d := &queuesData{}
	d.Queues.fail(d.Queues.find(ctx, l))
	d.Limits.fail(findLimits(ctx, l, &d.Limits))
	return d, nil
}

func (p *queuesPanel) find(ctx context.Context, l *look) (err error) {
	request := client.QueueListRequest{PageRequest: client.PageRequest{Limit: shownQueues, Cursor: l.Asked("cursor")}}
	var page client.QueuePage
	if l.Past {
		page, err = client.QueuesOf(ctx, l.View, l.Sums, &request, l.Now, func(string) *quota.CounterState { return nil })
	} else {
		err = l.ask(ctx, rights.QueueList, request, &page)
	}
	p.First, p.Next, p.Unserved = request.Cursor == "", page.Next, page.UnservedNodes
	for i := range page.Queues {
		q := &page.Queues[i]
		row := queueRow{QueueView: *q, Bounds: "none", Buttons: l.buttons("queues", q.Name, q)}
		if is := q.Bounds(); is != (queue.Limited{}) {
			row.Bounds = is.Words()
		}
		row.Pending, row.Held = q.States[task.Pending.String()], q.States[task.Held.String()]
		row.Running = q.States[task.Running.String()] + q.States[task.Cancelling.String()]
		if q.RateState != nil {
			row.Rate, row.Next = wording.RateText(q.RateState.Rate, l.Now)
		}
		p.Rows = append(p.Rows, row)
	}
	return err
}

func findLimits(ctx context.Context, l *look, p *table[limitRow]) (err error) {
	request := client.LimitListRequest{Limit: shownLimits, Holders: shownHolders}
	var page client.LimitPage
	if l.Past {
		page, err = client.LimitsOf(ctx, l.View, l.Sums, request, l.Now)
	} else {
		err = l.ask(ctx, rights.LimitList, request, &page)
	}
	for i := range page.Counters {
		row := limitRow{CounterState: page.Counters[i]}
		row.Rate, row.Next = wording.NextText(&page.Counters[i], l.Now)
		p.Rows = append(p.Rows, row)
	}
	p.More = max(page.All-len(page.Counters), 0)
	return err
}
