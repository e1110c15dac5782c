package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

func (a *app) taskShow() *cobra.Command {
	var o output
	var at string
	c := &cobra.Command{
		Use: "show ID", Aliases: []string{"view", "info", "i"},
		Short: "Print all that is known of a task, from the log",
		Example: `  millrace task show ID
  millrace task show ID --at -10m`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	atFlag(c.Flags(), &at)
	o.flags(c)
	c.RunE = a.momentFlag(&at, a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := a.sight(ctx, cl, at, single, "heartbeats", "progress", "checkpoints")
		if err != nil {
			return err
		}
		return s.unknown(a.showTask(ctx, cl, s, id, &o))
	}))
	return c
}

// showTask prints a task of the present or of the past.
func (a *app) showTask(ctx context.Context, cl *client.Client, s sight, id task.ID, o *output) error {
	asking, cancel := a.asking(ctx)
	defer cancel()
	records, err := view.All(asking, s.view, view.Task(id))
	if err != nil {
		return err
	}
	t, late := events.FoldTask(id, records), lateWords(records)
	parts, err := view.ReadParts(asking, s.view, &t)
	if err != nil {
		return err
	}
	var live *task.Live
	var checkpoint *task.Checkpoint
	var doubt *node.Doubt
	now := s.now()
	if s.past == nil {
		live, checkpoint = standing(asking, cl, &t)
		if doubt, err = a.doubt(asking, cl, &t); err != nil {
			return err
		}
	}
	if o.json() {
		return a.writeJSON(struct {
			task.Task
			Parts      *view.Parts      `json:"parts,omitempty"`
			Suspect    *node.Doubt      `json:"suspect,omitempty"`
			Live       *task.Live       `json:"live,omitempty"`
			Checkpoint *task.Checkpoint `json:"checkpoint,omitempty"`
			Attempts   []task.Try       `json:"attempts,omitempty"`
			Evidence   []lateWord       `json:"evidence,omitempty"`
			At         *shownPoint      `json:"at,omitempty"`
		}{t, parts, doubt, live, checkpoint, tries(records), late, s.past})
	}
	if live != nil && !t.Live() {
		live.Phase = "" // it is over
	}
	out := taskDetails(&t, now)
	if s.past != nil {
		out.foot = nil
	}
	s.mark(&out, a.now())
	suspectField(&out, doubt)
	partFields(&out, "so far", parts)
	standingFields(&out, live, checkpoint, now)
	for _, w := range late {
		out.field("evidence", w.text())
	}
	if err := a.print(out); err != nil || t.Attempt < 2 {
		return err // the one attempt is shown already
	}
	return a.print(triesTable(tries(records), nil, now))
}

// taskDetails lays one task out.
func taskDetails(t *task.Task, now time.Time) table {
	out := table{title: "Task " + string(t.ID), foot: []string{fmt.Sprintf("as of sequence %d", t.Seq)}}
	state := stateCell(t.State)
	state.text = stateAndReason(t)
	out.add(dim("state"), state)
	out.field("message", t.Message)
	out.field("since", moment(t.Since, now))
	out.field("dismissed", dismissalText(t.Dismissed, now))
	if t.Job != "" {
		out.field("job", fmt.Sprintf("%s (revision %d)", t.Job, t.Revision))
	}
	if t.Spec != nil {
		specFields(&out, t.Spec)
	}
	out.field("params", string(t.Params))
	out.field("labels", pairs(t.Labels))
	if on, own := t.Route.Node(); own {
		out.field("for node", fmt.Sprintf("%s (priority %d)", on, t.Route.Priority()))
	} else {
		out.field("queue", fmt.Sprintf("%s (priority %d)", t.QueueName(), t.Route.Priority()))
	}
	out.field("fair key", t.FairKey)
	out.field("group", t.Group)
	out.field("parent", string(t.Parent))
	out.field("step", t.Step)
	if t.Schedule != "" {
		out.field("schedule", fmt.Sprintf("%s (%s)", t.Schedule, t.Trigger))
		out.field("tick", moment(t.Tick, now))
	}
	if t.Children != nil {
		out.field("children", childrenText(t.Children))
	}
	out.field("copy of", string(t.RetryOf))
	out.field("batch", t.Batch)
	if t.Needs != nil {
		out.field("needs", t.Needs.String())
		out.field("was told", cut(string(t.Inputs), 400))
	}
	out.field("submitted", moment(t.SubmittedAt, now))
	if t.Waiting() {
		out.field("due", moment(t.Due, now))
		out.field("start by", moment(t.StartBy, now))
	}
	if !t.State.Terminal() {
		out.field("end by", moment(t.EndBy, now))
	}
	attemptFields(&out, t, now)
	return out
}

// childrenText names the children of a task, and when their nodes were looked at, if that matters.
func childrenText(c *task.Children) string {
	text := cut(fmt.Sprintf("%d: %s", len(c.Names), strings.Join(c.Names, ", ")), 200)
	if c.AtSeq > 0 {
		text += fmt.Sprintf(" (nodes as of sequence %d)", c.AtSeq)
	}
	return text
}

func specFields(out *table, s *task.Spec) {
	if s.Run == nil {
		out.field("handler", s.Handler)
	} else {
		out.field("command", s.Text())
		out.field("directory", s.Run.Dir)
		out.field("environment", pairs(s.Run.Env))
		surroundingFields(out, s.Run)
	}
	if s.Timeout.Total > 0 {
		out.field("total timeout", s.Timeout.Total.String())
	}
	if s.Timeout.Run > 0 {
		out.field("timeout", s.Timeout.Run.String())
	}
	out.field("resources", resourcesText(s.Resources))
	out.field("keep", keepText(s.Keep))
	if s.Timeout.Idle > 0 {
		out.field("idle timeout", s.Timeout.Idle.String())
	}
	if p := s.Place; p.Targeted() && len(p.Labels)+len(p.Avoid) == 0 {
		out.field("nodes", strings.Join(p.Nodes, ", "))
		out.field("if there is none", cmp.Or(p.NoNode, task.NoNodeExpire))
	} else if needs := s.Needs(); len(needs) > 0 {
		out.field("nodes with", needs.String())
		out.field("if there is none", cmp.Or(p.NoNode, task.NoNodeExpire))
	}
	if s.Cost() > 1 {
		out.field("slots", fmt.Sprint(s.Cost()))
	}
	if s.Retry.Max > 0 {
		out.field("retries", retryWords(&s.Retry))
	}
}

func attemptFields(out *table, t *task.Task, now time.Time) {
	if t.Attempt == 0 {
		return
	}
	out.field("attempt", fmt.Sprintf("%d on %s (epoch %d, session %s)", t.Attempt, t.Node, t.Epoch, t.Session))
	out.field("started", moment(t.StartedAt, now))
	out.field("may run until", moment(t.Extended, now))
	out.field("cancel by", moment(t.CancelBy, now))
	out.field("ended", moment(t.EndedAt, now))
	out.field("took", took(t, now))
	if t.Exit != nil {
		out.field("exit code", strconv.Itoa(*t.Exit))
	}
	out.field("result", string(t.Result))
	out.field("used", usage(t.Usage))
	for _, n := range []struct {
		name  string
		count int
	}{{"failures", t.Failures}, {"nodes lost", t.Losses}, {"late results", t.Late}} {
		if n.count > 0 {
			out.field(n.name, strconv.Itoa(n.count))
		}
	}
}
