package task

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
)

func (a *Commands) taskShow() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "show ID", Aliases: []string{"view", "info", "i"},
		Short: "Print a task as the log has it",
		Example: `  millrace task show ID
  millrace task show ID --at -10m
  millrace task show ID -o mermaid`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	sight := a.AtFlag(c, connect.Then{Lacks: []string{"heartbeats", "progress", "checkpoints"}})
	o.Flags(c, "table", "json", "mermaid")
	c.RunE = a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		return s.Unknown(a.showTask(ctx, cl, s, id, &o))
	})
	return c
}

// showTask prints a task of the present or of the past.
func (a *Commands) showTask(ctx context.Context, cl *client.Client, s connect.Sight, id task.ID, o *settings.Output) error {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	records, err := view.All(asking, s.View, view.Task(id))
	t, late := events.FoldTask(id, records), wording.LateWords(records)
	if errors.As(err, new(*rights.Lacking)) { // it may see the task, and not its facts
		t, err = view.GetTask(asking, s.View, id)
	}
	if err != nil {
		return err
	}
	parts, err := view.ReadParts(asking, s.View, &t)
	if err != nil {
		return err
	}
	again, err := view.LivesAgain(asking, s.View, &t)
	if err != nil {
		return err
	}
	var live *output.Live
	var checkpoint *output.Checkpoint
	var doubt *node.Doubt
	now := s.Now()
	phases := view.Phases(records, now)
	if draw := timelines[o.Form.Value]; draw != nil && !o.JSON() {
		_, err := fmt.Fprint(a.Out, draw("task "+string(id), spansOf(append(phases, wording.StepPhases(t.Durable, now)...))))
		return err
	}
	if s.Past == nil {
		live, checkpoint = standing(asking, cl, &t)
		if doubt, err = a.doubt(asking, cl, &t); err != nil {
			return err
		}
	}
	if o.JSON() {
		return a.WriteJSON(struct {
			task.Task
			LivesAgain bool                `json:"lives_again,omitempty"`
			Parts      *view.Parts         `json:"parts,omitempty"`
			Suspect    *node.Doubt         `json:"suspect,omitempty"`
			Live       *output.Live        `json:"live,omitempty"`
			Checkpoint *output.Checkpoint  `json:"checkpoint,omitempty"`
			Attempts   []task.Try          `json:"attempts,omitempty"`
			Phases     []view.Phase        `json:"phases,omitempty"`
			Evidence   []wording.LateWord  `json:"evidence,omitempty"`
			At         *connect.ShownPoint `json:"at,omitempty"`
		}{t, again, parts, doubt, live, checkpoint, wording.Tries(records), phases, late, s.Past})
	}
	if live != nil && !t.Live() {
		live.Phase = "" // that phase is over
	}
	out := Details(&t, now)
	if s.Past != nil {
		out.Foot = nil
	}
	s.Mark(&out, a.Now())
	wording.SuspectField(&out, doubt)
	if again {
		out.Field("next", livesAgain)
	}
	partFields(&out, "so far", parts)
	standingFields(&out, live, checkpoint, now)
	for _, w := range late {
		out.Field("evidence", wording.Clocks(w.Text()))
	}
	if err := a.Print(out); err != nil {
		return err
	}
	if steps := t.Durable.Taken(); len(steps) > 0 {
		table := term.List(steps, wording.StepColumns(now)...)
		table.Foot = []string{wording.Plural(len(steps), "step")}
		if err := a.Print(table); err != nil {
			return err
		}
	}
	if err := a.Print(timeline(phases, wording.StepPhases(t.Durable, now), cmp.Or(term.Width(a.Out), 80))); err != nil || t.Attempt < 2 {
		return err // the only attempt is shown already
	}
	return a.Print(triesTable(wording.Tries(records), nil, now))
}

// Details lays out one task.
func Details(t *task.Task, now time.Time) term.Table {
	out := term.Table{Title: "Task " + string(t.ID), Foot: []string{fmt.Sprintf("as of sequence %d", t.Seq)}}
	state := wording.StateCell(t.State)
	state.Text = wording.StateAndReason(t)
	out.Add(term.Dim("state"), state)
	out.Field("title", t.Title)
	out.Field("message", wording.SaidHere(t))
	out.Field("since", wording.Moment(t.Since, now))
	out.Field("dismissed", wording.Dismissal(t.Dismissed, now))
	if t.Job != "" {
		out.Field("job", fmt.Sprintf("%s (revision %d)", t.Job, t.Revision))
	}
	if t.Spec != nil {
		specFields(&out, t.Spec)
	}
	out.Field("params", string(t.Params))
	out.Field("labels", wording.Pairs(t.Labels))
	if on, own := t.Route.Node(); own {
		out.Field("for node", fmt.Sprintf("%s (priority %d)", on, t.Route.Priority()))
	} else {
		out.Field("queue", fmt.Sprintf("%s (priority %d)", t.QueueName(), t.Route.Priority()))
	}
	out.Field("fair key", t.FairKey)
	out.Field("group", t.Group)
	out.Field("parent", string(t.Parent))
	out.Field("step", t.Step)
	if t.Schedule != "" {
		out.Field("schedule", fmt.Sprintf("%s (%s)", t.Schedule, t.Trigger))
		out.Field("planned for", wording.Moment(t.Tick, now))
	}
	if t.After != "" {
		out.Field("after the end of", string(t.After))
	}
	out.Field("made by", t.MadeBy)
	if t.Children != nil {
		out.Field("children", childrenText(t.Children))
	}
	out.Field("copy of", string(t.RetryOf))
	out.Field("batch", t.Batch)
	if t.Needs != nil {
		out.Field("needs", t.Needs.String())
		out.Field("was told", term.Cut(string(t.Inputs), 400))
	}
	out.Field("submitted", wording.Moment(t.SubmittedAt, now))
	if t.Waiting() {
		out.Field("due", wording.Moment(t.Due, now))
		out.Field("start by", wording.Moment(t.StartBy, now))
	}
	if !t.State.Terminal() {
		out.Field("end by", wording.Moment(t.EndBy, now))
	}
	attemptFields(&out, t, now)
	return out
}

// childrenText names the children of a task, and when their nodes were read, if that matters.
func childrenText(c *task.Children) string {
	text := term.Cut(fmt.Sprintf("%d: %s", len(c.Names), strings.Join(c.Names, ", ")), 200)
	if c.AtSeq > 0 {
		text += fmt.Sprintf(" (nodes as of sequence %d)", c.AtSeq)
	}
	return text
}

func specFields(out *term.Table, s *job.Spec) {
	if s.Run == nil {
		out.Field("handler", s.Handler)
	} else {
		out.Field("command", s.Text())
		out.Field("directory", s.Run.Dir)
		out.Field("environment", wording.Pairs(s.Run.Env))
		surroundingFields(out, s.Run)
	}
	if s.Timeout.Total > 0 {
		out.Field("total timeout", s.Timeout.Total.String())
	}
	if s.Timeout.Run > 0 {
		out.Field("timeout", s.Timeout.Run.String())
	}
	out.Field("resources", wording.Resources(s.Resources))
	out.Field("keep", wording.Keep(s.Keep))
	if s.Timeout.Idle > 0 {
		out.Field("idle timeout", s.Timeout.Idle.String())
	}
	if p := s.Place; p.Targeted() && len(p.Labels)+len(p.Avoid) == 0 {
		out.Field("nodes", strings.Join(p.Nodes, ", "))
		out.Field("if there is none", cmp.Or(p.NoNode, job.NoNodeExpire))
	} else if needs := s.Needs(); len(needs) > 0 {
		out.Field("nodes with", needs.String())
		out.Field("if there is none", cmp.Or(p.NoNode, job.NoNodeExpire))
	}
	if s.Cost() > 1 {
		out.Field("slots", fmt.Sprint(s.Cost()))
	}
	if s.Retry.Max > 0 {
		out.Field("retries", wording.Retry(&s.Retry))
	}
}

func attemptFields(out *term.Table, t *task.Task, now time.Time) {
	if t.Attempt == 0 {
		return
	}
	out.Field("attempt", fmt.Sprintf("%d on %s (epoch %d, session %s)", t.Attempt, t.Node, t.Epoch, t.Session))
	out.Field("started", wording.Moment(t.StartedAt, now))
	out.Field("may run until", wording.Moment(t.Extended, now))
	out.Field("cancel by", wording.Moment(t.CancelBy, now))
	out.Field("ended", wording.Moment(t.EndedAt, now))
	out.Field("took", took(t, now))
	if t.Exit != nil {
		out.Field("exit code", strconv.Itoa(*t.Exit))
	}
	out.Field("result", string(t.Result))
	out.Field("used", wording.Usage(t.Usage))
	for _, n := range []struct {
		name  string
		count int
	}{{"failures", t.Failures}, {"nodes lost", t.Losses}, {"late results", t.Late}} {
		if n.count > 0 {
			out.Field(n.name, strconv.Itoa(n.count))
		}
	}
}
