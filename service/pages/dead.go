package pages

import (
	"context"
	"slices"
	"strconv"

	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/value"
)

var deadPage = page{name: "dead", path: "/dead", entry: "Dead letters", verb: rights.DeadList, show: showDead, inFiles: true}

// shownMessages is how many messages the page of dead letters shows.
const shownMessages = 50

type deadData struct {
	taskList
	Messages messagesPanel
}

type messagesPanel struct {
	panel
	Rows []messageRow
	// Next is the Before of the next page; 0 if this is the last.
	Next uint64
}

type messageRow struct {
	view.Message
	Buttons []button
}

// deadColumns are those of the list of dead letters: some of the columns of tasks, and who must act.
var deadColumns = slices.Insert(shownColumns([]string{"id", "what", "why", "attempt", "node", "since"}), 3,
	column{Name: "who", Title: "who must act", Class: "wide", text: func(r *taskRow) string { return actsOnDead(&r.Task) }})

func showDead(ctx context.Context, l *look) (any, error) {
	d := &deadData{}
	d.list(ctx, l, "dead", view.Filter{Dead: true}, deadColumns)
	d.Messages.find(ctx, l)
	return d, nil
}

// actsOnDead says who must act on a dead letter, by the reason for it. No process acts on it: that
// makes it a dead letter.
func actsOnDead(t *task.Task) string {
	switch t.Reason {
	case value.Unplaced:
		return "an operator: start a node that may run it, and retry it; or drop it"
	case value.Expired:
		return "an operator: see why nothing took it in time, and retry it; or drop it"
	case value.Poison:
		return "who wrote it: find out how it takes nodes down; an operator retries it then, or drops it"
	}
	return "an operator: retry it, or drop it"
}

func (p *messagesPanel) find(ctx context.Context, l *look) {
	before, _ := strconv.ParseUint(l.Asked("before"), 10, 64) // not a number means the latest
	found, err := l.List(ctx, view.Query{Kind: view.Messages, Before: before, Filter: view.Filter{Limit: shownMessages}})
	p.fail(err)
	for _, m := range found.Messages {
		p.Rows = append(p.Rows, messageRow{m, l.buttons("messages", strconv.FormatUint(m.Seq, 10), nil)})
	}
	if n := len(p.Rows); n == shownMessages {
		p.Next = p.Rows[n-1].Seq
	}
}
