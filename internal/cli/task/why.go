package task

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// Explanation is an explanation with its facts as they are shown.
type Explanation struct {
	view.Explanation
	// Facts are the facts that led to the state.
	Facts []client.ShownFact `json:"facts"`
	// Seq is the sequence of the last fact about the task.
	Seq uint64 `json:"seq"`
	// At is its past moment.
	At *connect.ShownPoint `json:"at,omitempty"`
}

// Why is millrace task why.
func (a *Commands) Why() *cobra.Command {
	var o settings.Output
	var chain bool
	c := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a task is where it is, and what the next step is",
		Long: `Says in words why a task is in its state, what the next step is, by when, and what
happens otherwise, with the events that decided it.

It is judged by the settings of the millrace server that answers, else by those of this
command ("millrace config"). The rest is from the log.

With --at it says why the task was in its state then, and what was to come next, from the
log alone, which does not record which heartbeats had stopped. With --file it says so of an export
or an incident file, without a server.

--chain lists the causes instead: its schedule or submitter, its parents, the tasks of
which it is a copy, the tasks that it needed, its attempts, retries and takeovers, one event a line.`,
		Example: `  millrace task why ID
  millrace task why ID --chain
  millrace task why ID --at -10m
  millrace task why ID --file crash.mri --at 1048211`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	c.Flags().BoolVar(&chain, "chain", false, "list the events that led to it, from the first cause on")
	sight := a.AtFlag(c, connect.Then{Folds: []view.Kind{view.Nodes}, Lacks: []string{"heartbeats", "pauses of consumers"}})
	o.Flags(c)
	c.RunE = a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		if chain {
			return a.chain(ctx, s, id, &o)
		}
		if cl.Role() == "" { // else the service says where it stands
			if err := a.Stand(ctx, cl, &s, id, wording.NamedHolders); err != nil {
				return err
			}
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		e, err := a.Explain(asking, cl, &s, id)
		if err != nil {
			return s.Unknown(err)
		}
		if o.JSON() {
			return a.WriteJSON(e)
		}
		t := whyTable(e, s.Now())
		s.Mark(&t, a.Now())
		return a.Print(t)
	})
	return c
}

// Explain says why a task is in its state, as far as a sight shows it.
func (a *Commands) Explain(ctx context.Context, c *client.Client, s *connect.Sight, id task.ID) (*Explanation, error) {
	if c.Role() != "" {
		is := Explanation{At: s.Past}
		err := c.AskWhy(ctx, id, s.Moment(), &is)
		is.Decisive = client.RecordsOfFacts(is.Facts)
		return &is, err
	}
	rules, err := a.InForce(ctx, c)
	if err != nil {
		return nil, err
	}
	of := rules.Task()
	if s.Past == nil {
		of = rules.Present()
	}
	e, err := view.Why(ctx, s.View, id, view.Rules{Task: of, Node: rules.Nodes(), Now: s.Now(), Holders: wording.NamedHolders})
	if err != nil {
		return nil, err
	}
	if e.Limits != nil {
		e.What = wording.LimitDuty(&e.Folded, e.Limits, s.Now())
	}
	return &Explanation{*e, client.ShowFacts(e.Decisive), e.Folded.Seq, s.Past}, nil
}

// standing is the task as far as the explanation says how it stands.
func (e *Explanation) standing() task.Task {
	return task.Task{ID: e.Task, State: e.State, Reason: e.Reason, Message: e.Message, CancelAsked: e.CancelAsked}
}

// Said says why the task is in its state, in words.
func (e *Explanation) Said() string {
	is := e.standing()
	return wording.SaidHere(&is)
}

// whyTable explains it in words.
func whyTable(e *Explanation, now time.Time) term.Table {
	state := wording.StateCell(e.State)
	is := e.standing()
	if code := wording.Code(&is); code != "" {
		state.Text += "/" + code
	}
	switch said := e.Said(); {
	case wording.Code(&is) != is.Reason && strings.HasPrefix(said, state.Text):
		state.Text = said // it says who has cancelled it
	case said != "":
		state.Text += ": " + said
	}
	t := term.Table{Title: "Task " + string(e.Task)}
	t.Add(term.Dim("state"), state)
	t.Field("since", wording.Moment(e.Since, now))
	t.Field("dismissed", wording.Dismissal(e.Dismissed, now))
	wording.SuspectField(&t, e.Suspect)
	switch {
	case e.LivesAgain:
		t.Field("next", livesAgain)
	case e.State.Terminal():
		t.Field("next", "nothing: it has ended; `millrace task retry "+string(e.Task)+"` gives it another life")
	default:
		who := e.Who
		if who == "server" {
			who = "the NATS server"
		}
		t.Field("who acts", who)
		t.Field("to do", wording.Clocks(e.What))
		switch {
		case e.By.IsZero():
			t.Field("by", "no deadline")
		case e.Overdue:
			t.Add(term.Dim("by"), term.Tinted(wording.Moment(e.By, now)+", overdue", term.Red))
		default:
			t.Field("by", wording.Moment(e.By, now))
		}
		t.Field("otherwise", wording.Clocks(e.Else))
		if e.Offers > 1 {
			t.Add(term.Dim("but"), term.Tinted(fmt.Sprintf("it was offered %d times, the last time %s: no node has taken the offers before, or they were lost", e.Offers, wording.Moment(e.Offered, now)), term.Yellow))
		}
		if p := e.Proved; p != nil {
			t.Add(term.Dim("but"), term.Tinted(fmt.Sprintf("node %s had to prove anew that work reaches it, %s: %s", p.Node, wording.Moment(p.At, now), view.Flat(p.Reason)), term.Yellow))
		}
		for _, id := range e.Missing {
			t.Add(term.Dim("but"), term.Tinted(fmt.Sprintf("it needs task %s, and there is none: it waits until one is submitted under this id", id), term.Yellow))
		}
		if !e.Enforced {
			t.Add(term.Dim("but"), term.Tinted("no millrace server answers, so deadlines are not enforced: start `millrace server`", term.Yellow))
		}
	}
	partFields(&t, "children", e.Parts)
	wording.Verdicts(&t, e.Nodes, string(e.Task))
	for i := range e.Decisive {
		r := &e.Decisive[i]
		name := ""
		if i == 0 {
			name = "because"
		}
		t.Add(term.Dim(name), term.Plain(fmt.Sprintf("#%d %s %s %s", r.Seq, wording.Clock(wording.FactTime(r)), wording.FactType(r), withNode(r))))
	}
	return t
}

// shownParts is how many failed, or running, children are named.
const shownParts = 5

// partFields summarises the children of a task under a name, and names failed and running ones.
func partFields(t *term.Table, name string, p *view.Parts) {
	if p == nil {
		return
	}
	t.Field(name, p.Progress)
	list := func(name string, parts []view.Part, colour term.Colour, text func(*view.Part) string) {
		for i := range parts[:min(len(parts), shownParts)] {
			t.Add(term.Dim(name), term.Tinted(text(&parts[i]), colour))
			name = ""
		}
		if more := len(parts) - shownParts; more > 0 {
			t.Add(term.Dim(""), term.Plain(fmt.Sprintf("and %d more", more)))
		}
	}
	list("failed", p.Failed, term.Red, func(k *view.Part) string {
		text := fmt.Sprintf("%s (%s) %s", k.Name, k.Task.Short(), wording.State(k.State, k.Reason))
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
	details := wording.FactDetails(r)
	if n := view.FactNode(r); n != "" {
		details = wording.Words("on "+n, details)
	}
	if details != "" {
		details = "(" + details + ")"
	}
	return details
}

// livesAgain says what is next for a task that has ended, and is about to be reopened with its parent.
const livesAgain = "the scheduler reopens it: a retry of its parent asks for that"
