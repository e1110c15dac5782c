package task

import (
	"context"
	"fmt"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// shownCause is a cause in JSON.
type shownCause struct {
	Why string `json:"why"`
	// Task is the task of the cause; "" if it is not a fact about a task.
	Task task.ID `json:"task,omitempty"`
	client.ShownFact
}

// chain prints what led to a task's state, in the present or the past.
func (a *Commands) chain(ctx context.Context, s connect.Sight, id task.ID, o *settings.Output) error {
	if s.Past != nil {
		s.Past.NotRecorded = nil // causes are facts
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	c, err := view.Chain(asking, s.View, id)
	if err != nil {
		return s.Unknown(err)
	}
	if !o.JSON() {
		t := chainTable(id, c)
		s.Mark(&t, a.Now())
		return a.Print(t)
	}
	shown := make([]shownCause, len(c.Of))
	for i := range c.Of {
		shown[i] = shownCause{c.Of[i].Why, c.Of[i].Fact.Task, client.ShowFact(&c.Of[i].Record)}
	}
	return a.WriteJSON(struct {
		Task    task.ID             `json:"task"`
		Causes  []shownCause        `json:"causes"`
		Left    int                 `json:"left_out,omitempty"`
		Missing []task.ID           `json:"missing,omitempty"`
		At      *connect.ShownPoint `json:"at,omitempty"`
	}{id, shown, c.Left, c.Missing, s.Past})
}

// chainTable has a row for each cause.
func chainTable(id task.ID, c *view.Causes) term.Table {
	t := term.Table{Title: "Task " + string(id), Header: []string{"SEQ", "TIME", "ABOUT", "CAUSE", "EVENT", "DETAILS"}, Spare: []string{"EVENT", "ABOUT"}}
	var ids []task.ID
	for i := range c.Of {
		ids = append(ids, c.Of[i].Fact.Task)
	}
	short := task.Shorten(ids)
	for i := range c.Of {
		r := &c.Of[i].Record
		about := r.Fact.About()
		if r.Fact.Task != "" {
			about = short(r.Fact.Task)
		}
		by := ""
		if r.Fact.Actor != "" {
			by = "by " + r.Fact.Actor
		}
		if r.Fact.Corr != "" {
			by += " in batch " + r.Fact.Corr
		}
		t.Add(term.Plain(fmt.Sprint(r.Seq)), term.Plain(wording.Clock(wording.FactTime(r))), term.Dim(about), term.Plain(c.Of[i].Why), wording.TypeCell(r),
			term.Plain(wording.Words(wording.AttemptAndNode(r), wording.FactDetails(r), by)))
	}
	if c.Left > 0 {
		t.Foot = append(t.Foot, fmt.Sprintf("%s left out, between the first and the latest ones of a task", wording.Plural(c.Left, "cause")))
	}
	for _, id := range c.Missing {
		t.Foot = append(t.Foot, fmt.Sprintf("and task %s, of which the log holds nothing", id))
	}
	return t
}
