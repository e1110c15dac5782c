package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
)

// explanation answers why a task is where it is and what comes next.
type explanation struct {
	Task   task.ID    `json:"task"`
	State  task.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Message is the reason in words.
	Message string `json:"message,omitempty"`
	// Dismissed says who took it off the list of dead letters.
	Dismissed *task.Dismissal `json:"dismissed,omitempty"`
	Since     time.Time       `json:"since"`
	// Who must do What, until By; Else is what follows if not.
	Who  string    `json:"who"`
	What string    `json:"what"`
	By   time.Time `json:"by,omitzero"`
	Else string    `json:"else,omitempty"`
	// Overdue is whether By has passed.
	Overdue bool `json:"overdue,omitempty"`
	// Enforced is whether a millrace server answers, which enforces deadlines.
	Enforced bool `json:"enforced"`
	// Suspect says why nothing may be expected of the node on which the task depends.
	Suspect *node.Doubt `json:"suspect,omitempty"`
	// Nodes says of each node whether it may claim the task, and which rule excludes it; only
	// of a task that waits for one.
	Nodes []node.Verdict `json:"nodes,omitempty"`
	// Children counts those of a parent, and Parts are those that failed or run.
	Children string        `json:"children,omitempty"`
	Parts    *client.Parts `json:"parts,omitempty"`
	// Missing are tasks that it needs and that nobody has submitted.
	Missing []task.ID `json:"missing,omitempty"`
	// Limits is where it stands before its limits, if they hold it.
	Limits *task.Standing `json:"limits,omitempty"`
	// Facts are those that led to the state.
	Facts []shownFact `json:"facts"`
	// Seq is the sequence of the last fact about the task.
	Seq uint64 `json:"seq"`

	decisive []events.Record
}

func (a *app) taskWhy() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use:   "why ID",
		Short: "Say why a task is where it is, and who must act next",
		Long: `Says in words why a task is in its state, who must act next, by when, and what
happens otherwise, with the facts that decided it.

The start deadline is taken from the settings of this command ("millrace config"),
the rest from the log and, if one answers, from a millrace server.`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	o.flags(c)
	c.RunE = a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		e, err := a.explain(asking, cl, id)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(e)
		}
		return a.print(whyTable(e, a.now()))
	})
	return c
}

func (a *app) explain(ctx context.Context, c *client.Client, id task.ID) (*explanation, error) {
	profile := profileProd
	if a.dev {
		profile = profileDev
	}
	s, _, err := a.loadSettings(nil, profile)
	if err != nil {
		return nil, err
	}
	rules := s.Task()
	rules.AckWait = c.Store().AckWait() // what holds, whatever the settings say by now
	records, err := c.History(ctx, id)
	if err != nil {
		return nil, err
	}
	t, decisive := decisiveFacts(id, records)
	around, nodes, err := surroundings(ctx, c, &t)
	if err != nil && !errors.Is(err, jet.ErrNoService) {
		return nil, err
	}
	e := explainTask(&t, decisive, around, rules, err == nil, a.now())
	if e.Suspect, err = a.doubt(ctx, c, &t); err != nil {
		return nil, err
	}
	if t.State == task.Pending {
		e.Nodes = node.Eligible(nodes, node.WantOfTask(&t))
		if t.Spec != nil {
			node.Prefer(e.Nodes, nodes, &t.Spec.Place, c.RanOn(ctx, &t))
		}
	}
	if e.Parts, err = c.Parts(ctx, &t); err != nil {
		return nil, err
	}
	if e.Parts != nil {
		e.Children = e.Parts.Progress
	}
	if e.Missing, err = missingNeeds(ctx, c, &t); err != nil {
		return nil, err
	}
	if t.Admissible() {
		page, err := c.Limits(ctx, client.LimitListRequest{Task: id, Holders: namedHolders})
		if err != nil && !errors.Is(err, jet.ErrNoService) {
			return nil, err
		}
		if e.Limits = page.Standing; e.Limits != nil {
			e.What = limitDuty(&t, e.Limits, a.now())
		}
	}
	return e, nil
}

// missingNeeds are those of the tasks for which a task waits that are not there.
func missingNeeds(ctx context.Context, c *client.Client, t *task.Task) (missing []task.ID, err error) {
	if t.Needs == nil || !slices.Contains(t.Holds, task.HoldNeeds) || t.Step != "" { // steps are made with those that they need
		return nil, nil
	}
	return missingTasks(ctx, c, t.Needs)
}

// explainTask puts together what is known.
func explainTask(t *task.Task, decisive []events.Record, around task.Surroundings, rules task.Settings, enforced bool, now time.Time) *explanation {
	d := task.Owes(*t, around, rules)
	return &explanation{
		Task: t.ID, State: t.State, Reason: t.Reason, Message: t.Message, Dismissed: t.Dismissed, Since: t.Since,
		Who: d.Who, What: d.What, By: d.By, Else: d.Else, Overdue: d.Overdue(now), Enforced: enforced,
		Facts: showFacts(decisive), Seq: t.Seq, decisive: decisive,
	}
}

// maxDecisive is how many facts an explanation shows at most.
const maxDecisive = 6

// decisiveFacts folds the history of a task and returns the facts that changed
// its state: the birth and the latest ones.
func decisiveFacts(id task.ID, records []events.Record) (task.Task, []events.Record) {
	t := task.Task{ID: id}
	var decisive []events.Record
	for i := range records {
		before := t
		if t = task.Evolve(t, records[i].Task()); t.State != before.State || t.Epoch != before.Epoch || t.Dismissed != before.Dismissed || records[i].Err != nil {
			decisive = append(decisive, records[i])
		}
	}
	if n := len(decisive); n > maxDecisive {
		decisive = append(decisive[:1:1], decisive[n-maxDecisive+1:]...)
	}
	return t, decisive
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
	for i := range e.decisive {
		r := &e.decisive[i]
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
func partFields(t *table, name string, p *client.Parts) {
	if p == nil {
		return
	}
	t.field(name, p.Progress)
	list := func(name string, parts []client.Part, colour colour, text func(*client.Part) string) {
		for i := range parts[:min(len(parts), shownParts)] {
			t.add(dim(name), cell{text(&parts[i]), colour})
			name = ""
		}
		if more := len(parts) - shownParts; more > 0 {
			t.add(dim(""), plain(fmt.Sprintf("and %d more", more)))
		}
	}
	list("failed", p.Failed, red, func(k *client.Part) string {
		text := fmt.Sprintf("%s (%s) %s", k.Name, k.Task.Short(), stateText(k.State, k.Reason))
		if k.Node != "" {
			text += " on " + k.Node
		}
		if k.Message != "" {
			text += ": " + k.Message
		}
		return text
	})
	list("running", p.Running, "", func(k *client.Part) string {
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
