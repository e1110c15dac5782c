package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

// explanation is one with its facts as they are shown.
type explanation struct {
	view.Explanation
	// Facts are those that led to the state.
	Facts []shownFact `json:"facts"`
	// Seq is the sequence of the last fact about the task.
	Seq uint64 `json:"seq"`
	// At is the moment of the past at which it was so.
	At *shownPoint `json:"at,omitempty"`
}

func (a *app) taskWhy() *cobra.Command {
	var o output
	var at string
	c := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a task is where it is, and who must act next",
		Long: `Says in words why a task is in its state, who must act next, by when, and what
happens otherwise, with the facts that decided it.

The start deadline is taken from the settings of this command ("millrace config"),
the rest from the log and, if one answers, from a millrace server.

With --at it says why the task was where it was then, and what was to come next: all that from
the log, which does not tell whose heartbeat had stopped, nor where a task stood before its limits.`,
		Example: `  millrace task why ID
  millrace task why ID --at -10m`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	atFlag(c.Flags(), &at)
	o.flags(c)
	c.RunE = a.momentFlag(&at, a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := a.sight(ctx, cl, at, whole, "heartbeats", "pauses of consumers", "standing before limits")
		if err != nil {
			return err
		}
		asking, cancel := a.asking(ctx)
		defer cancel()
		e, err := a.explain(asking, cl, &s, id)
		if err != nil {
			return s.unknown(err)
		}
		if o.json() {
			return a.writeJSON(e)
		}
		t := whyTable(e, s.now())
		s.mark(&t, a.now())
		return a.print(t)
	}))
	return c
}

func (a *app) explain(ctx context.Context, c *client.Client, s *sight, id task.ID) (*explanation, error) {
	profile := profileProd
	if a.dev {
		profile = profileDev
	}
	settings, _, err := a.loadSettings(nil, profile)
	if err != nil {
		return nil, err
	}
	rules := settings.Task()
	rules.AckWait = c.Store().AckWait() // what holds, whatever the settings say by now
	e, err := view.Why(ctx, s.view, id, view.Rules{Task: rules, Node: node.Settings{TTL: settings.NodeTTL}, Now: s.now(), Holders: namedHolders})
	if err != nil {
		return nil, err
	}
	if e.Limits != nil {
		e.What = limitDuty(&e.Folded, e.Limits, s.now())
	}
	return &explanation{*e, showFacts(e.Decisive), e.Folded.Seq, s.past}, nil
}

// whyTable says it in words.
func whyTable(e *explanation, now time.Time) table {
	state := stateCell(e.State)
	if e.Reason != "" {
		state.text += "/" + e.Reason
	}
	if e.Message != "" {
		state.text += ": " + e.Message
	}
	t := table{title: "Task " + string(e.Task)}
	t.add(dim("state"), state)
	t.field("since", moment(e.Since, now))
	t.field("dismissed", dismissalText(e.Dismissed, now))
	suspectField(&t, e.Suspect)
	if e.State.Terminal() {
		t.field("next", "nothing: it has ended; `millrace task retry "+string(e.Task)+"` gives it another life")
	} else {
		who := e.Who
		if who == "server" {
			who = "the NATS server"
		}
		t.field("who acts", who)
		t.field("to do", e.What)
		switch {
		case e.By.IsZero():
			t.field("by", "no deadline")
		case e.Overdue:
			t.add(dim("by"), cell{moment(e.By, now) + ", overdue", red})
		default:
			t.field("by", moment(e.By, now))
		}
		t.field("otherwise", e.Else)
		for _, id := range e.Missing {
			t.add(dim("but"), cell{fmt.Sprintf("it needs task %s, and there is none: it waits until one is submitted under this id", id), yellow})
		}
		if !e.Enforced {
			t.add(dim("but"), cell{"no millrace server answers, so nobody enforces deadlines: start `millrace server`", yellow})
		}
	}
	partFields(&t, "children", e.Parts)
	verdicts(&t, e.Nodes, string(e.Task))
	for i := range e.Decisive {
		r := &e.Decisive[i]
		name := ""
		if i == 0 {
			name = "because"
		}
		t.add(dim(name), plain(fmt.Sprintf("#%d %s %s %s", r.Seq, clock(factTime(r)), factType(r), withNode(r))))
	}
	return t
}

// shownParts is how many children that failed, or run, are named.
const shownParts = 5

// partFields say under a name how the children of a task stand, and name those that failed and those that run.
func partFields(t *table, name string, p *view.Parts) {
	if p == nil {
		return
	}
	t.field(name, p.Progress)
	list := func(name string, parts []view.Part, colour colour, text func(*view.Part) string) {
		for i := range parts[:min(len(parts), shownParts)] {
			t.add(dim(name), cell{text(&parts[i]), colour})
			name = ""
		}
		if more := len(parts) - shownParts; more > 0 {
			t.add(dim(""), plain(fmt.Sprintf("and %d more", more)))
		}
	}
	list("failed", p.Failed, red, func(k *view.Part) string {
		text := fmt.Sprintf("%s (%s) %s", k.Name, k.Task.Short(), stateText(k.State, k.Reason))
		if k.Node != "" {
			text += " on " + k.Node
		}
		if k.Message != "" {
			text += ": " + k.Message
		}
		return text
	})
	list("running", p.Running, "", func(k *view.Part) string {
		text := fmt.Sprintf("%s (%s)", k.Name, k.Task.Short())
		if k.Node != "" {
			text += " on " + k.Node
		}
		if k.Attempt > 1 {
			text += fmt.Sprintf(", attempt %d", k.Attempt)
		}
		return text
	})
}

func withNode(r *events.Record) string {
	details := factDetails(r)
	if n := factNode(r); n != "" {
		details = words("on "+n, details)
	}
	if details != "" {
		details = "(" + details + ")"
	}
	return details
}
