package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"millrace/events"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/quota"
	"millrace/task/value"
)

// Frame is the information shown at a point.
type Frame struct {
	// Seq is the fact at, or before, the point; 0 before the first one.
	Seq uint64 `json:"seq"`
	// To is the last sequence of the span.
	To uint64 `json:"to"`
	// Time is the time of the point: when the log stored the fact, or later, before the next one.
	// Stored is when the log stored the fact.
	Time   time.Time `json:"time,omitzero"`
	Stored time.Time `json:"stored,omitzero"`
	// At is when it happened, by the writer's clock.
	At time.Time `json:"at,omitzero"`
	// Type is the type of the fact, About what it is about, and Actor who wrote it.
	Type  string `json:"type,omitempty"`
	About string `json:"about,omitempty"`
	Actor string `json:"actor,omitempty"`
	// Fact is the message as written. Error says why it is unreadable.
	Fact  json.RawMessage `json:"fact,omitempty"`
	Error string          `json:"error,omitempty"`
	// Focus is the subject of interest, and Nth of Of the point's place among its facts.
	Focus string `json:"focus,omitempty"`
	Nth   int    `json:"nth,omitempty"`
	Of    int    `json:"of,omitempty"`
	// Stop is the reason to show this point.
	Stop *Stop `json:"stop,omitempty"`
	// Changed are the fields of the subject that the fact has changed.
	Changed []Changed `json:"changed,omitempty"`
	// Queues and Nodes are the counts that it has changed.
	Queues []Count `json:"queues,omitempty"`
	Nodes  []Count `json:"nodes,omitempty"`
	// Decision is the recorded decision, its inputs and the alternatives.
	Decision *Decision `json:"decision,omitempty"`
	// Owed is the duty on the subject, before the fact and after it.
	Owed *Owed `json:"owed,omitempty"`
	// Limit is the limit of interest at the point; nil if nothing is under it then, or if another
	// thing is of interest.
	Limit *quota.CounterState `json:"limit,omitempty"`

	// Record is the fact itself, for display.
	Record events.Record `json:"-"`
}

// Stop is a reason to show a point.
type Stop struct {
	// Break is the number of the breakpoint; 0 for none.
	Break int `json:"break,omitempty"`
	// Why explains it in words; "" if the breakpoint does.
	Why string `json:"why,omitempty"`
	// About is the subject of the breakpoint, if it differs from the fact's.
	About string `json:"about,omitempty"`
	// Seqs are facts as evidence.
	Seqs []uint64 `json:"seqs,omitempty"`
	// Behind and Ahead count the hits of the breakpoint on both sides.
	Behind int `json:"behind"`
	Ahead  int `json:"ahead"`
	// Others are the other reasons to stop there.
	Others []Stop `json:"others,omitempty"`
}

// Changed is a field that a fact has changed.
type Changed struct {
	// Of is the subject.
	Of string `json:"of"`
	view.Change
}

// Count is a number of tasks that a fact has changed.
type Count struct {
	// Name is the name of the queue or node.
	Name string `json:"name"`
	// State is the state of the tasks; for a node, they run there.
	State task.State `json:"state"`
	// Was is the count before the fact, and Is the count after it.
	Was int32 `json:"was"`
	Is  int32 `json:"is"`
	// Slots is how many tasks the node runs at once.
	Slots int `json:"slots,omitempty"`
}

// Decision is the decision that a fact records.
type Decision struct {
	// Rule is the rule that decided; "" where the type of the fact tells.
	Rule string `json:"rule,omitempty"`
	// By are the inputs of the decision besides the history of its subject.
	By *task.By `json:"by,omitempty"`
	// Seen is the sequence up to which the decider knew the log. Behind is how many later
	// messages the log had by then.
	Seen   uint64 `json:"seen,omitempty"`
	Behind int    `json:"behind,omitempty"`
	// Nodes tells for each node whether it could have claimed the task, as the decider knew them.
	Nodes []Alternative `json:"nodes,omitempty"`
	// Rules are the rules of the task, each with its answer.
	Rules []Answered `json:"rules,omitempty"`
	// NoNode is what happens while no node may claim it.
	NoNode string `json:"no_node,omitempty"`
}

// Alternative is a node to which a task might have gone.
type Alternative struct {
	node.Verdict
	// Running is how many of Slots were in use by then.
	Running int32 `json:"running"`
	Slots   int   `json:"slots,omitempty"`
	// Taken says that the task went to this node.
	Taken bool `json:"taken,omitempty"`
}

// Answered is a rule of a task with its answer.
type Answered struct {
	// Rule is its name, Question what it answers, and Answer its answer in words.
	Rule     string       `json:"rule"`
	Question job.Question `json:"question"`
	Answer   string       `json:"answer"`
	// Decided says that this rule decided.
	Decided bool `json:"decided,omitempty"`
}

// Owed is the duty on a subject, before a fact and after it; nil if it did not exist, or if there
// was none.
type Owed struct {
	// Of is the subject, Before the duty before the fact, and After the one after it.
	Of     string `json:"of"`
	Before *Duty  `json:"before,omitempty"`
	After  *Duty  `json:"after,omitempty"`
}

// Duty is an action, its actor and deadline, and what happens otherwise.
type Duty struct {
	// Who must do What until By.
	Who  string    `json:"who"`
	What string    `json:"what"`
	By   time.Time `json:"by,omitzero"`
	// Look says that nothing ends at By.
	Look bool `json:"look,omitempty"`
	// Else says what follows otherwise.
	Else string `json:"else,omitempty"`
	// Overdue says that By had passed at the point.
	Overdue bool `json:"overdue,omitempty"`
}

// frame collects the information at a point, without the reason to show it.
func (s *Span) frame(ctx context.Context, p point, focus *aim, rules view.Rules) (*Frame, error) {
	f := &Frame{To: s.To(), Time: p.at, Focus: focus.String()}
	f.Nth, f.Of = focus.upTo(p.pos, s.begin), focus.len(s)
	if p.pos < s.begin {
		return f, nil
	}
	r := s.record(p.pos)
	f.Record = r
	f.Seq, f.Stored, f.Type, f.Actor, f.At = r.Seq, r.Stored, typeOf(&r), r.Fact.Actor, r.Fact.At
	f.Error = r.Unreadable()
	if json.Valid(r.Raw) {
		f.Fact = r.Raw
	}
	ref := view.RefOf(&r)
	f.About = name(ref, &r)
	if f.Decision = s.inputs(p.pos, r.Fact.By); ref.Kind == 0 {
		return f, nil
	}
	was, is := s.fold(ref, p.pos-1), s.fold(ref, p.pos)
	changes, err := changed(was, is, s.chains[ref].upTo(p.pos-1) > 0)
	if err != nil {
		return nil, err
	}
	for _, c := range changes {
		f.Changed = append(f.Changed, Changed{ref.String(), c})
	}
	s.counts(f, p.pos)
	if is.Task != nil {
		if f.Decision, err = s.decision(ctx, p, &r, was.Task, is.Task); err != nil {
			return nil, err
		}
	}
	f.Owed, err = s.owed(ctx, ref, p.pos-1, p, rules)
	return f, err
}

// name describes the subject of a fact in words.
func name(ref view.Ref, r *events.Record) string {
	if ref.Kind != 0 {
		return ref.String()
	}
	if !r.IsFact() {
		return ""
	}
	return r.Kind.String() + " " + r.Fact.About()
}

// changed returns the changed fields of a subject; for a new one, all its fields.
func changed(was, is view.Item, there bool) ([]view.Change, error) {
	changes, err := view.DiffItems(was, is)
	if err != nil || there {
		return changes, err
	}
	for i := range changes {
		changes[i].Was = nil
	}
	return changes, nil
}

// counts returns the numbers of tasks that a fact has changed.
func (s *Span) counts(f *Frame, pos int) {
	was, is := s.facts[pos].was, s.facts[pos].is
	if was == is {
		return
	}
	var places []place
	for _, at := range []stand{was, is} {
		if at.there && (was.queue != is.queue || was.state != is.state || was.there != is.there) {
			places = append(places, place{queue: at.queue, state: at.state})
		}
	}
	for _, at := range []stand{was, is} {
		if at.node != 0 && was.node != is.node {
			places = append(places, place{node: at.node})
		}
	}
	before, after := s.tallyAt(pos-1, places), s.tallyAt(pos, places)
	for i, p := range places {
		c := Count{Name: s.words.say(p.queue), State: p.state, Was: before[i], Is: after[i]}
		if p.node == 0 {
			f.Queues = append(f.Queues, c)
			continue
		}
		c.Name, c.State = s.words.say(p.node), task.Running
		c.Slots = s.fold(view.Node(node.ID(c.Name)), pos).Node.Slots
		f.Nodes = append(f.Nodes, c)
	}
}

// owed is the duty on a subject after a fact, and at a point.
func (s *Span) owed(ctx context.Context, ref view.Ref, before int, p point, rules view.Rules) (*Owed, error) {
	was, err := s.duty(ctx, ref, before, p.at, rules)
	if err != nil {
		return nil, err
	}
	is, err := s.duty(ctx, ref, p.pos, p.at, rules)
	if err != nil || was == nil && is == nil {
		return nil, err
	}
	return &Owed{Of: ref.String(), Before: was, After: is}, nil
}

// duty is the duty on a subject after a fact, judged at a time; nil if it does not exist, or if
// there is none.
func (s *Span) duty(ctx context.Context, ref view.Ref, pos int, at time.Time, rules view.Rules) (*Duty, error) {
	if c := s.chains[ref]; c == nil || c.upTo(pos) == 0 {
		return nil, nil
	}
	item := s.fold(ref, pos)
	switch {
	case item.Task != nil && !item.Task.State.Terminal():
		d, err := view.Owed(ctx, s.world(pos, pos, at), item.Task, rules)
		return &Duty{d.Who, d.What, d.By, d.Look, d.Else, !d.Look && d.Overdue(at)}, err
	case item.Node != nil:
		d := node.Owes(*item.Node, rules.Node)
		if d.Who == "nobody" && d.Else == "" {
			return nil, nil
		}
		return &Duty{Who: d.Who, What: d.What, By: d.By, Else: d.Else, Overdue: !d.By.IsZero() && at.After(d.By)}, nil
	}
	return nil, nil
}

// inputs is a decision with what it names itself; nil if it names nothing.
func (s *Span) inputs(pos int, by *task.By) *Decision {
	if by == nil {
		return nil
	}
	d := &Decision{Rule: by.Rule, By: by, Seen: by.Seen}
	if by.Seen > 0 {
		d.Behind = pos - s.after(by.Seen)
	}
	return d
}

// decision returns the decision in a fact about a task; nil if it records none.
func (s *Span) decision(ctx context.Context, p point, r *events.Record, was, is *task.Task) (*Decision, error) {
	by := r.Fact.By
	claim, claimed := r.Fact.Event.(task.AttemptStarted)
	if by == nil && !claimed {
		return nil, nil
	}
	d, seen := s.inputs(p.pos, by), p.pos-1
	if d == nil {
		d = &Decision{}
	}
	if d.Seen > 0 {
		seen = s.after(d.Seen) - 1
	}
	if was.Seq == 0 { // a birth
		was = is
	}
	judged, at := p.pos-1, p.at
	if was == is {
		judged = p.pos
	}
	world := s.world(judged, seen, at)
	plan, err := view.PlanTask(ctx, world, was.ID, at)
	if err != nil {
		return nil, fmt.Errorf("#%d: %w", r.Seq, err)
	}
	if was.Waiting() {
		d.NoNode = plan.NoNode
		nodes := s.nodesAt(seen)
		for _, v := range plan.Nodes {
			d.Nodes = append(d.Nodes, s.alternative(v, nodes, p.pos-1, claimed && claim.Node == string(v.Node)))
		}
	}
	d.Rules, err = answers(ctx, world, was, &plan, d.Rule)
	return d, err
}

// alternative is a node with its running attempts by then.
func (s *Span) alternative(v node.Verdict, nodes []node.Node, pos int, taken bool) Alternative {
	a := Alternative{Verdict: v, Taken: taken}
	a.Running = s.tallyAt(pos, []place{{node: s.words.number[string(v.Node)]}})[0]
	for i := range nodes {
		if nodes[i].ID == v.Node {
			a.Slots = nodes[i].Slots
		}
	}
	return a
}

// answers returns the answers of a task's rules in a world, with those of its plan; decided is the
// rule that decided.
func answers(ctx context.Context, v view.View, t *task.Task, plan *view.Plan, decided string) ([]Answered, error) {
	if t.Spec == nil {
		return nil, nil
	}
	circuit := ""
	if t.Spec.Guarded() {
		item, err := v.Get(ctx, view.Breaker(t.Job))
		if err != nil {
			return nil, err
		}
		circuit = strings.TrimSuffix(string(item.Breaker.State)+": "+item.Breaker.Reason, ": ")
	}
	may := 0
	for i := range plan.Nodes {
		if plan.Nodes[i].Rule == "" {
			may++
		}
	}
	place := fmt.Sprintf("%d of %d nodes may claim it", may, len(plan.Nodes))
	told := map[string]string{ // these know more than the spec
		value.Breaker: circuit, value.Window: strings.Join(plan.Windows, "; "), "place": strings.TrimSuffix(place+"; "+plan.Prefers, "; "),
	}
	var all []Answered
	for i := range job.Rules {
		r := &job.Rules[i]
		if !r.Has(t.Spec) {
			continue
		}
		a := Answered{r.Name, r.Question, told[r.Name], r.Name == decided}
		switch {
		case a.Answer != "":
		case r.Question == job.Quota:
			a.Answer = "not recorded; its grant is an event of its own"
		case r.Words != nil:
			a.Answer = strings.Join(r.Words(t.Spec), "; ")
		}
		all = append(all, a)
	}
	return all, nil
}
