package view

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Rules are the settings for judging a world.
type Rules struct {
	Task duties.Settings
	Node node.Settings
	// Now is the present time; a view of the past uses its own.
	Now time.Time
	// Holders is how many holders of a limit are named.
	Holders int
}

// Explanation says why a task is in its state and what comes next.
type Explanation struct {
	// Task is its id, and State how it stands. Reason is the code beside the state.
	Task   task.ID    `json:"task"`
	State  task.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Message is the reason in words.
	Message string `json:"message,omitempty"`
	// Dismissed records who took it off the list of dead letters.
	Dismissed *task.Dismissal `json:"dismissed,omitempty"`
	// CancelAsked records who asked for its end, and why.
	CancelAsked *task.CancelAsked `json:"cancel_asked,omitempty"`
	// Since is when the state began.
	Since time.Time `json:"since"`
	// Who must do What, until By. Else is what happens otherwise.
	Who  string    `json:"who"`
	What string    `json:"what"`
	By   time.Time `json:"by,omitzero"`
	Else string    `json:"else,omitempty"`
	// Overdue says that By has passed.
	Overdue bool `json:"overdue,omitempty"`
	// LivesAgain says that it has ended, and that a retry of one of its parents is about to reopen it.
	LivesAgain bool `json:"lives_again,omitempty"`
	// Enforced says that a millrace server answers, which enforces deadlines.
	Enforced bool `json:"enforced"`
	// Offers is how often a waiting task was offered in this turn, if more than once: the offers
	// before were lost, or nobody took them.
	Offers int `json:"offers,omitempty"`
	// Offered is when it was offered last, if more than once.
	Offered time.Time `json:"offered,omitzero"`
	// Suspect says why the node of the task may be lost.
	Suspect *node.Doubt `json:"suspect,omitempty"`
	// Proved is the last proof in this turn that work reaches a node again which may claim the task.
	Proved *Proof `json:"proved,omitempty"`
	// Nodes tells for each node whether it may claim the task, and which rule excludes it; only for
	// a task that waits for a node.
	Nodes []node.Verdict `json:"nodes,omitempty"`
	// Children counts the children of a parent. Parts are those that failed or run.
	Children string `json:"children,omitempty"`
	Parts    *Parts `json:"parts,omitempty"`
	// Missing are needed tasks that were not submitted.
	Missing []task.ID `json:"missing,omitempty"`
	// Limits is its position before its limits, if they hold it.
	Limits *quota.Standing `json:"limits,omitempty"`

	// Decisive are the facts that led to the state: the birth and the latest ones.
	Decisive []events.Record `json:"-"`
	// Folded is the task itself.
	Folded task.Task `json:"-"`
}

// Why explains a task. A view of the past lacks the answers that only the present has. The error
// wraps [task.ErrUnknown] if there is no such task.
func Why(ctx context.Context, v View, id task.ID, r Rules) (*Explanation, error) {
	records, err := All(ctx, v, Task(id))
	if err != nil {
		return nil, err
	}
	now, err := timeOf(ctx, v, r.Now)
	if err != nil {
		return nil, err
	}
	t, decisive := decisiveFacts(id, records)
	around, nodes, err := surroundings(ctx, v, &t, now)
	if err != nil {
		return nil, err
	}
	d := duties.Owes(t, around, r.Task)
	e := &Explanation{
		Task: t.ID, State: t.State, Reason: t.Reason, Message: t.Message, Dismissed: t.Dismissed, CancelAsked: t.CancelAsked, Since: t.Since,
		Who: whoActs(&t, &d), What: d.What, By: d.By, Else: d.Else, Overdue: d.Overdue(now), LivesAgain: around.LivesAgain, Enforced: !nodes.Beating,
		Decisive: decisive, Folded: t,
	}
	if e.Suspect, err = Doubt(ctx, v, &t, now, r.Node); err != nil {
		return nil, err
	}
	if t.State == task.Pending {
		if n, last := events.Offered(records, t.Turn); n > 1 {
			e.Offers, e.Offered = n, last
		}
		e.Nodes = verdicts(ctx, v, &t, nodes.Nodes, node.WantOfTask(&t), ranOn(ctx, v, &t), now)
		if e.Proved, err = proved(ctx, v, e.Nodes, t.Turn); err != nil {
			return nil, err
		}
		if err := e.explainRules(ctx, v, &t, now); err != nil {
			return nil, err
		}
	}
	if t.Children != nil {
		if err := e.explainChildren(ctx, v, &t, now, r); err != nil {
			return nil, err
		}
	}
	if t.Needs != nil && slices.Contains(t.Holds, task.HoldNeeds) && t.Step == "" { // steps are made together with those that they need
		if e.Missing, err = Missing(ctx, v, t.Needs); err != nil {
			return nil, err
		}
	}
	if t.Admissible() {
		e.Limits, err = v.Standing(ctx, id, r.Holders)
	}
	return e, err
}

// explainRules says of a waiting task which rules would postpone or end it at its claim.
func (e *Explanation) explainRules(ctx context.Context, v View, t *task.Task, now time.Time) error {
	for i := range job.Rules {
		why, err := postponed(ctx, v, t, &job.Rules[i], now)
		if err != nil {
			return err
		}
		if why != "" {
			e.What += fmt.Sprintf("; its %s keeps it from starting now: %s", job.Rules[i].Name, why)
		}
	}
	return nil
}

// Proof says that a node had to prove anew that work reaches it.
type Proof struct {
	// Node is its id.
	Node node.ID `json:"node"`
	// At is when it began, and Reason says why: a connection that came back, or a consumer that was
	// lost or was another one.
	At     time.Time `json:"at"`
	Reason string    `json:"reason"`
}

// maxProved is how many nodes are asked for their proofs.
const maxProved = 20

// proved returns the last proof of a node that may claim a task, since a sequence; nil if there was none.
func proved(ctx context.Context, v View, nodes []node.Verdict, since uint64) (last *Proof, err error) {
	seq := since
	for _, n := range nodes[:min(len(nodes), maxProved)] {
		if n.Rule != "" {
			break // those that may claim it come first
		}
		err := v.Records(ctx, Node(n.Node), Range{From: seq + 1}, func(r *events.Record) error {
			if e, ok := r.Fact.Event.(node.WentOnline); ok && r.Err == nil && e.Connection > 1 && r.Seq > seq {
				seq, last = r.Seq, &Proof{n.Node, r.Stored, e.Reason}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return last, nil
}

// explainChildren says how the children of a parent stand, and that a person must act if one of them
// waits for a signal.
func (e *Explanation) explainChildren(ctx context.Context, v View, t *task.Task, now time.Time, r Rules) error {
	children, err := Children(ctx, v, t)
	if err != nil {
		return err
	}
	e.Parts = PartsOf(t, children)
	e.Children = e.Parts.Progress
	if !t.Live() {
		return nil
	}
	step, waits := awaited(t, children)
	if waits == nil {
		return nil
	}
	d, err := Owed(ctx, v, waits, r)
	if err != nil {
		return err
	}
	what := "step " + step + " waits: " + d.What
	if len(e.Parts.Running) > 0 { // others go on meanwhile
		e.What += "; " + whoActs(waits, &d) + ": " + what
		return nil
	}
	e.Who, e.What, e.By, e.Else, e.Overdue = whoActs(waits, &d), what, d.By, d.Else, d.Overdue(now)
	return nil
}

// whoActs is who must act: of an approval those who are asked for it by name.
func whoActs(t *task.Task, d *duties.Duty) string {
	if t.AwaitsSignal() {
		return cmp.Or(t.Signal().Asked(), d.Who)
	}
	return d.Who
}

// awaited returns the name of the first child that waits for a signal, and the child; nil if there is
// none.
func awaited(t *task.Task, children []task.Task) (step string, waits *task.Task) {
	of := byID(children)
	for _, name := range t.Children.Names {
		if k := of[birth.ChildID(t.ID, name)]; k != nil && k.AwaitsSignal() {
			return name, k
		}
	}
	return "", nil
}

// Owed is the duty of a task in a view. A view of the past lacks the answers that only the present
// has.
func Owed(ctx context.Context, v View, t *task.Task, r Rules) (duties.Duty, error) {
	now, err := timeOf(ctx, v, r.Now)
	if err != nil {
		return duties.Duty{}, err
	}
	around, _, err := surroundings(ctx, v, t, now)
	return duties.Owes(*t, around, r.Task), err
}

// timeOf is the time for judging a view: the present time, or when its last message was stored.
func timeOf(ctx context.Context, v View, now time.Time) (time.Time, error) {
	if _, present := v.(Present); present {
		return now, nil
	}
	p, err := v.Point(ctx)
	if err == nil && !p.At.IsZero() {
		now = p.At
	}
	return now, err
}

// maxDecisive is how many facts an explanation shows at most.
const maxDecisive = 6

// decisiveFacts folds the history of a task and returns the facts that changed its state: the birth
// and the latest ones.
func decisiveFacts(id task.ID, records []events.Record) (task.Task, []events.Record) {
	t := task.Task{ID: id}
	var decisive []events.Record
	for i := range records {
		before := t
		if t = task.Evolve(t, records[i].Task()); t.State != before.State || t.Epoch != before.Epoch ||
			t.Dismissed != before.Dismissed || records[i].Err != nil {
			decisive = append(decisive, records[i])
		}
	}
	if n := len(decisive); n > maxDecisive {
		decisive = append(decisive[:1:1], decisive[n-maxDecisive+1:]...)
	}
	return t, decisive
}

// surroundings returns the facts outside a task on which its duty depends, and the nodes.
func surroundings(ctx context.Context, v View, t *task.Task, now time.Time) (duties.Surroundings, Page, error) {
	if t.State.Terminal() {
		again, err := LivesAgain(ctx, v, t)
		return duties.Surroundings{LivesAgain: again}, Page{}, err
	}
	said := queue.Queue{Name: t.QueueName()}
	var err error
	if value.ValidName("queue", said.Name) == nil { // otherwise it is a node's own route
		if said, err = GetQueue(ctx, v, said.Name); err != nil {
			return duties.Surroundings{}, Page{}, err
		}
	}
	nodes, err := v.List(ctx, Query{Kind: Nodes})
	if err == nil && nodes.Beating {
		err = alsoOf(ctx, v, t, &nodes)
	}
	if err != nil {
		return duties.Surroundings{}, nodes, err
	}
	s := around(t, nodes.Nodes, said, now)
	if s.Shut, err = shut(ctx, v, t, &said, now); err != nil {
		return s, nodes, err
	}
	p, present := v.(Present)
	if !present || t.State != task.Pending || s.Serving == 0 || s.Paused != nil || s.Shut != "" {
		return s, nodes, nil
	}
	s.Paused, err = p.Paused(ctx, t.Lane())
	return s, nodes, err
}

// LivesAgain tells whether a task has ended, and a retry of one of its parents is about to reopen it:
// a scheduler has not done so yet. For a task that has ended it reads the parents above it, up to the
// first that has not.
func LivesAgain(ctx context.Context, v View, t *task.Task) (bool, error) {
	if t.Parent == "" || !t.State.Terminal() {
		return false, nil
	}
	line, err := birth.Line(*t, func(id task.ID) (task.Task, error) { return GetTask(ctx, v, id) })
	return err == nil && birth.LivesAgain(line), err
}

// shut says in words until when the valve of a task's queue is shut; "" if it is open.
func shut(ctx context.Context, v View, t *task.Task, said *queue.Queue, now time.Time) (string, error) {
	if t.RateQueue() == "" {
		return "", nil
	}
	wait, err := Flow(ctx, v, said.Valve, now)
	if wait == nil || err != nil {
		return "", err
	}
	return wait.Detail, nil
}

// Flow returns until when a valve is shut, and why; nil if it is open.
func Flow(ctx context.Context, v View, valve queue.Valve, now time.Time) (*schedule.Wait, error) {
	wait, _, err := schedule.Flow(valve, now, calendars(ctx, v))
	return wait, err
}

// alsoOf adds the nodes on which a task depends to those with a live heartbeat.
func alsoOf(ctx context.Context, v View, t *task.Task, page *Page) error {
	also := []node.ID{node.ID(t.Node)}
	if on, own := t.Route.Node(); own {
		also = append(also, node.ID(on))
	}
	for _, id := range also {
		if id == "" || slices.ContainsFunc(page.Nodes, func(n node.Node) bool { return n.ID == id }) {
			continue
		}
		n, err := GetNode(ctx, v, id)
		switch {
		case unknown(err):
		case err != nil:
			return err
		default:
			page.Nodes = append(page.Nodes, n)
		}
	}
	return nil
}

// around derives the surroundings of a task from the nodes.
func around(t *task.Task, nodes []node.Node, said queue.Queue, now time.Time) duties.Surroundings {
	w := node.NewFleet(nodes, 0, now)
	w.Tell(said)
	s := w.Around(t)
	if _, own := t.Route.Node(); own || s.Serving > 0 {
		return s
	}
	want := node.WantOfTask(t)
	for i := range nodes { // until when the last node that could claim it took work
		if rule, _ := nodes[i].Excluded(want); rule.Passing() && nodes[i].Since.After(s.Unserved) {
			s.Unserved = nodes[i].Since
		}
	}
	return s
}

// Doubt says why the node of a task may be lost, by the present heartbeats; nil if all is well, if
// the task depends on no node, or if the view is of the past.
func Doubt(ctx context.Context, v View, t *task.Task, now time.Time, s node.Settings) (*node.Doubt, error) {
	p, present := v.(Present)
	id, _ := node.DependsOn(t)
	if id == "" || !present {
		return nil, nil
	}
	var nodes []node.Node
	switch n, err := GetNode(ctx, v, id); {
	case unknown(err):
	case err != nil:
		return nil, err
	default:
		nodes = append(nodes, n)
	}
	beats, err := p.Beats(ctx)
	if err != nil {
		return nil, err
	}
	return node.NewDoubts(nodes, beats, now, s).Of(t), nil
}

// lookedFor is how many of a task's needs are searched.
const lookedFor = 20

// Missing returns the needed tasks that do not exist, among the first lookedFor.
func Missing(ctx context.Context, v View, needs *task.Needs) (missing []task.ID, err error) {
	for _, need := range needs.Of[:min(len(needs.Of), lookedFor)] {
		_, err := v.Get(ctx, Task(need.Task))
		switch {
		case unknown(err):
			missing = append(missing, need.Task)
		case err != nil:
			return nil, err
		}
	}
	return missing, nil
}

// unknown tells whether an error means that the subject does not exist.
func unknown(err error) bool {
	return errors.Is(err, task.ErrUnknown) || errors.Is(err, node.ErrUnknown)
}
