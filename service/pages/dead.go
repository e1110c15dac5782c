package pages

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"millrace/events/jet/rights"
	"millrace/projections/query"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/value"
)

var (
	deadPage = page{name: "dead", path: "/dead", entry: "Dead letters", verb: rights.DeadList, show: showDead, takesForm: true, inFiles: true}
	// buryPage performs the command that was shown before, and shows the result.
	buryPage = page{name: "buried", path: "/dead/do", verb: rights.DeadDismiss, show: showBuried, takesForm: true}
)

// Bounds of what the page of dead letters shows, and does in one step.
const (
	shownMessages = 50
	buriedAtOnce  = 500
	shownChosen   = 20
)

// The commands for dead letters.
const (
	doRetry = "retry"
	doDrop  = "drop"
)

type deadData struct {
	panel
	Query, WrongQuery string
	Keys              []struct{ Name, Example string }
	Rows              []deadRow
	Next              string
	First             bool
	Messages          messagesPanel
	// Chosen is what would be done; nil if nothing was chosen.
	Chosen *chosenLetters
}

// deadRow is a task in the list of dead letters.
type deadRow struct {
	task.Task
	// Who says who must act, and what they can do.
	Who string
}

type messagesPanel struct {
	panel
	Rows []view.Message
	// Next is the Before of the next page; 0 if this is the last.
	Next uint64
}

// chosenLetters are the letters of a command, and their number.
type chosenLetters struct {
	panel
	Do      string
	Whole   bool // all that match the query
	N       int
	More    bool // only the first of them are done in one step
	Reasons []reasonCount
	Tasks   []task.Task
	IDs     []task.ID
}

type reasonCount struct {
	Reason string
	N      int
}

func showDead(ctx context.Context, l *look) (any, error) {
	d := &deadData{Query: l.Asked("q"), Keys: query.Keys, First: l.Asked("cursor") == ""}
	page, err := l.tasks(ctx, client.ListRequest{Query: d.Query, Filter: view.Filter{Dead: true, Cursor: l.Asked("cursor")}})
	var wrong *query.Wrong
	if errors.As(err, &wrong) {
		d.WrongQuery, err = wrong.Error(), nil
	}
	d.fail(err)
	d.Next = page.Next
	for i := range page.Tasks {
		t := page.Tasks[i]
		d.Rows = append(d.Rows, deadRow{t, actsOnDead(&t)})
	}
	d.Messages.find(ctx, l)
	if l.r.Method == http.MethodPost && !l.Past {
		d.Chosen = &chosenLetters{}
		d.Chosen.fail(d.Chosen.find(ctx, l, d.Query))
	}
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
	p.Rows = found.Messages
	if n := len(p.Rows); n == shownMessages {
		p.Next = p.Rows[n-1].Seq
	}
}

// verbOf returns the verb of a command.
func verbOf(do string) (rights.Verb, error) {
	switch do {
	case doRetry:
		return rights.TasksRetry, nil
	case doDrop:
		return rights.TasksDismiss, nil
	}
	return "", client.Wrongf("do is %q, want %s or %s", do, doRetry, doDrop)
}

// find finds the letters of a form: the named ones, or all that match the query.
func (c *chosenLetters) find(ctx context.Context, l *look, text string) error {
	if text = cmp.Or(text, l.typed.Get("q")); l.typed.Get("all") != "" {
		c.Whole = true
	}
	c.Do = l.typed.Get("do")
	verb, err := verbOf(c.Do)
	switch {
	case err != nil:
		return err
	case !l.May(string(verb)):
		return answers.ErrRole
	}
	if c.Whole {
		page, err := l.tasks(ctx, client.ListRequest{Query: text, Filter: view.Filter{Dead: true, Limit: buriedAtOnce}})
		if err != nil {
			return err
		}
		c.Tasks, c.More = page.Tasks, page.Next != ""
	} else if err := c.named(ctx, l); err != nil {
		return err
	}
	reasons := map[string]int{}
	for i := range c.Tasks {
		reasons[c.Tasks[i].Reason]++
		c.IDs = append(c.IDs, c.Tasks[i].ID)
	}
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		c.Reasons = append(c.Reasons, reasonCount{reason, reasons[reason]})
	}
	c.N = len(c.Tasks)
	c.Tasks = c.Tasks[:min(c.N, shownChosen)]
	return nil
}

// named reads the letters whose ids the form has. It leaves out those that are no longer dead
// letters.
func (c *chosenLetters) named(ctx context.Context, l *look) error {
	names := l.typed["task"]
	if len(names) > buriedAtOnce {
		return client.Wrongf("%d are chosen, and at once it is done to %d", len(names), buriedAtOnce)
	}
	for _, name := range names {
		id, err := task.ParseID(strings.ToUpper(name))
		if err != nil {
			return client.Wrong(err)
		}
		t, err := view.GetTask(ctx, l.View, id)
		if err != nil {
			return err
		}
		if t.Dead() {
			c.Tasks = append(c.Tasks, t)
		}
	}
	return nil
}

// buriedData is the result for some letters.
type buriedData struct {
	Do string
	// Done are the letters that were changed, as one batch.
	Done    []task.ID
	Batch   string
	Refused []client.Refusal
	// Left is how many were not tried: time ran out.
	Left int
}

// showBuried performs the command that was shown before, and shows the result. A GET is redirected
// to the list.
func showBuried(ctx context.Context, l *look) (any, error) {
	if l.r.Method != http.MethodPost {
		return nil, elsewhere("/dead")
	}
	l.Title = "Dead letters"
	d := &buriedData{Do: l.typed.Get("do")}
	verb, err := verbOf(d.Do)
	if err != nil {
		return nil, err
	}
	ids := l.typed["task"]
	if len(ids) == 0 || len(ids) > buriedAtOnce {
		return nil, client.Wrongf("%d are chosen, want 1 to %d", len(ids), buriedAtOnce)
	}
	tasks := make([]task.ID, len(ids))
	for i, id := range ids {
		tasks[i] = task.ID(strings.ToUpper(id))
	}
	var is client.BulkReport
	if err := l.ask(ctx, verb, map[string]any{"tasks": tasks, "reason": l.typed.Get("reason")}, &is); err != nil {
		return nil, err
	}
	d.Done, d.Refused, d.Batch = is.Tasks, is.Refused, is.Batch
	tried := map[task.ID]bool{}
	for _, id := range is.Tasks {
		tried[id] = true
	}
	for _, r := range is.Refused {
		tried[r.Task] = true
	}
	for _, id := range tasks {
		switch {
		case tried[id]:
		case is.Interrupted:
			d.Left++
		default:
			d.Refused = append(d.Refused, client.Refusal{Task: id, Error: "it is no dead letter any more"})
		}
	}
	l.site.settle(ctx)
	return d, nil
}
