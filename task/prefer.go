package task

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/limit"
	"millrace/task/value"
	"millrace/task/where"
)

// Preference is a choice of nodes that are better than others, but not the only ones.
type Preference struct {
	// Labels choose them.
	Labels where.Selector `json:"labels"`
	// Weight is what a node gains by being chosen, 1 to [MaxPreferWeight]; a node's weights add up. Default 1.
	Weight int `json:"weight,omitempty"`
}

// What [Place.Sticky] may be besides a key.
const (
	StickyJob     = "job"     // the node on which a task of the job started last
	StickyAttempt = "attempt" // the node of the task's last attempt
)

// Bounds of preferences.
const (
	MaxPrefer       = 4
	MaxPreferWeight = 1000
)

// DefaultPreferWait is how long a task that names no time is left to the nodes that it prefers.
const DefaultPreferWait = 10 * time.Second

// Ran says on which node a task started last, of those that share a name ([Work.StickyName]). It is a
// memory and no truth: whoever starts such a task writes it anew, and without it any node will do.
type Ran struct {
	Name string    `json:"name"`
	Node string    `json:"node"`
	At   time.Time `json:"at"`
}

// Peer is a node that takes new work of a task's kind.
type Peer struct {
	Node   string
	Labels map[string]string
	// At is the last fact of the node that is known.
	At uint64
}

func (p *Peer) known() Known { return Known{p.Node, p.At} }

// HandOver leaves a task that waits under an offer to nodes that it prefers, or that it does not avoid, once in a turn.
type HandOver struct {
	To where.Route
	// Asked is what To asks of nodes; nil for the own route of one.
	Asked *where.Asked
	// Wait is how long it is left to them. Default: place.prefer_wait.
	Wait time.Duration
	// After is the turn that the offer was made for.
	After  uint64
	Reason string
	// Self left it, to Peer rather than to any other; Ran is the node on which it, its job or its key ran last.
	Self, Peer Known
	Ran        string
}

// Handed says that a task that waits was left to nodes that it prefers.
type Handed struct {
	// Home is where it waited before, and goes back to.
	Home where.Route `json:"home"`
	// Until is when it goes back; zero if it has.
	Until time.Time `json:"until,omitzero"`
	// Asked is what that route asks of nodes; nil if that follows from the spec.
	Asked *where.Asked `json:"asked,omitzero"`
}

func (HandOver) isCommand() {}

// Prefers tells whether some of the nodes that may run a task are better than others.
func (p *Place) Prefers() bool { return p.Sticky != "" || len(p.Prefer) > 0 }

// unprefer has all nodes be as good as any other.
func (p *Place) unprefer() { p.Sticky, p.Prefer, p.PreferWait = "", nil, 0 }

// preferWait is PreferWait or its default.
func (p *Place) preferWait() time.Duration {
	if p.PreferWait == 0 {
		return DefaultPreferWait
	}
	return p.PreferWait.Std()
}

// StickyName is what tasks have in common that stick to one node; "" if this one does not, or
// only to itself. The error says that the key names something that the task was not given.
func (w *Work) StickyName() (string, error) {
	key := ""
	switch {
	case w.Spec == nil || w.Spec.Place.Sticky == "" || w.Spec.Place.Sticky == StickyAttempt:
		return "", nil
	case w.Spec.Place.Sticky != StickyJob:
		key = w.Spec.Place.Sticky
	}
	name, err := w.counter("sticky:", "sticky:", key)
	if err != nil {
		return "", fmt.Errorf("place.sticky: %w", err)
	}
	return name, nil
}

// Score is what a node with these labels gains by the preferences, and the requirements of those that
// choose it.
func (p *Place) Score(labels map[string]string) (score int, met where.Selector) {
	for _, f := range p.Prefer {
		if f.Labels.Refuses(labels) == nil {
			score, met = score+max(f.Weight, 1), append(met, f.Labels...)
		}
	}
	return score, met
}

// HandsOver says to whom a node that was offered the task leaves it: to the node that ran it, its
// job or its key last (ran, "" if nobody knows), else to those that its preferences choose; and a
// node on which it has failed to any other, if its policy is to avoid that. The
// others are nodes that take new work of its kind. False means that the node starts it itself.
func (t *Task) HandsOver(self Peer, others []Peer, ran string) (HandOver, bool) {
	shuns := t.Shuns(self.Node)
	if t.Spec == nil || t.Handed != nil || t.State != Pending || !t.Spec.Place.Prefers() && !shuns {
		return HandOver{}, false
	}
	var but []where.Requirement // those on which it has failed
	if _, own := t.Route.Node(); len(t.Avoids) > 0 && !own {
		others = slices.DeleteFunc(slices.Clone(others), func(o Peer) bool { return slices.Contains(t.Avoids, o.Node) })
		but = []where.Requirement{{Key: where.LabelNode, Op: where.OpNotIn, Values: t.Avoids}}
	}
	p := &t.Spec.Place
	if p.Sticky == StickyAttempt {
		ran = t.Node
	}
	wait := value.Duration(p.preferWait())
	if p.Sticky != "" && ran != "" {
		if ran == self.Node && !shuns {
			return HandOver{}, false
		}
		if i := slices.IndexFunc(others, func(o Peer) bool { return o.Node == ran }); i >= 0 {
			return HandOver{Self: self.known(), Peer: others[i].known(), Ran: ran, To: where.NodeRoute(ran, t.Route.Priority()), After: t.Turn, Reason: fmt.Sprintf("%s ran %s last, and has %v to claim it", ran, p.stickyWords(), wait)}, true
		}
	}
	mine, _ := p.Score(self.Labels)
	if shuns {
		mine = -1 // anybody is better
	}
	best, met, peer := mine, where.Selector(nil), Known{}
	for _, o := range others {
		if score, chosen := p.Score(o.Labels); score > best {
			best, met, peer = score, chosen, o.known()
		}
	}
	if best == mine {
		return HandOver{}, false
	}
	asked := t.asked()
	to := asked.With(append(met, but...)...)
	c := HandOver{To: to.Route(t.Route.Priority()), Asked: to, After: t.Turn, Self: self.known(), Peer: peer, Ran: ran,
		Reason: fmt.Sprintf("nodes with %s are preferred, weight %d against %d of %s, and have %v to claim it", met, best, mine, self.Node, wait)}
	if shuns {
		c.Wait = t.Spec.Retry.avoidWait()
		c.Reason = fmt.Sprintf("it failed on %s; other nodes have %v to claim it", strings.Join(t.Avoids, ", "), value.Duration(c.Wait))
	}
	return c, true
}

// stickyWords say of what the node is that the task sticks to.
func (p *Place) stickyWords() string {
	switch p.Sticky {
	case StickyJob:
		return "its job"
	case StickyAttempt:
		return "it"
	}
	return "its key"
}

// preferred is the selector of the task's preferences that makes this route; false if none does.
func (s *Spec) preferred(queue string, route where.Route) (where.Selector, bool) {
	terms := s.Place.Prefer
	if len(terms) > MaxPrefer { // not one that this version wrote
		terms = nil
	}
	for set := 1; set < 1<<len(terms); set++ {
		needs := s.Needs()
		for i := range terms {
			if set&(1<<i) != 0 {
				needs = append(needs, terms[i].Labels...)
			}
		}
		if where.SelectorQueue(queue, needs) == route.Queue() {
			return needs, true
		}
	}
	return nil, false
}

func handOver(t *Task, c HandOver, now time.Time) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case t.State != Pending || t.Turn != c.After || t.Handed != nil || t.Spec == nil:
		return nil, ErrStale
	}
	if err := c.To.Validate(); err != nil {
		return nil, err
	}
	return Reassigned{From: t.Route, To: c.To, Asked: c.Asked, Reason: c.Reason, Until: now.Add(cmp.Or(c.Wait, t.Spec.Place.preferWait()))}, nil
}

// handed keeps what a move means for a task that prefers nodes.
func (t *Task) handed(e Reassigned) {
	switch {
	case !e.Until.IsZero():
		t.Handed = &Handed{Home: t.Route, Until: e.Until, Asked: t.Asked}
	case t.Handed != nil && e.To.Queue() != t.Route.Queue():
		t.Handed = &Handed{Home: t.Handed.Home, Asked: t.Handed.Asked} // shared by what was folded before, so not changed
	}
}

// turnHome ends what was said about preferred nodes: a new turn is for all again.
func (t *Task) turnHome() {
	if t.Handed != nil && !t.Handed.Until.IsZero() {
		t.Route, t.Asked = t.Handed.Home.At(t.Route.Priority()), t.Handed.Asked
	}
	t.Handed = nil
}

// PreferredUntil is until when the task is left to the nodes that it prefers; zero if it is not.
func (t *Task) PreferredUntil() time.Time {
	if t.Handed == nil || t.State != Pending {
		return time.Time{}
	}
	return t.Handed.Until
}

// handedDuty says who must act on a task that is left to nodes that it prefers.
func handedDuty(t Task, around Surroundings, s Settings) Duty {
	home := t.Handed.Home.At(t.Route.Priority())
	on, own := t.Route.Node()
	who := "node " + on
	if !own {
		_, needs := t.Asks()
		who = fmt.Sprintf("%s with %s", oneOf(around.Serving, "node", "nodes"), needs)
	}
	if around.Serving == 0 {
		since := unservedSince(t, around)
		return Duty{
			Who: "scheduler", What: fmt.Sprintf("give it back to all of its nodes: those that it was left to take no work since %s", value.Clock(since)),
			By: since, Else: "the sweep of any scheduler moves it",
			Command: Reassign{From: t.Route, To: home, Reason: "no node that it was left to takes new work"},
		}
	}
	d := Duty{
		Who: who, What: "claim it: " + t.Message,
		By: t.Handed.Until, Else: "any of its nodes may claim it: it goes back to where it was",
		Command: Reassign{From: t.Route, To: home, Reason: "the nodes that it was left to have not claimed it in time"},
	}
	if !t.StartBy.IsZero() && t.StartBy.Before(d.By) {
		return awaited(t, around, s, d)
	}
	return d
}

func (p *Place) validatePreference() error {
	switch {
	case !p.Prefers() && p.PreferWait != 0:
		return errors.New("place.prefer_wait says how long a task is left to the nodes that it prefers, and it prefers none: set place.sticky or place.prefer")
	case !p.Prefers():
		return nil
	case p.PreferWait < 0:
		return fmt.Errorf("place.prefer_wait is %v, want 0 or more", p.PreferWait)
	case len(p.Nodes) > 0:
		return errors.New("place.nodes is in the order of preference; leave place.sticky and place.prefer out")
	case p.fans():
		return errors.New("place.sticky and place.prefer are for one task on one node; leave place.mode all and place.count out")
	case len(p.Prefer) > MaxPrefer:
		return fmt.Errorf("place.prefer has %d entries, want at most %d", len(p.Prefer), MaxPrefer)
	}
	asked := len(p.Labels)
	for i, f := range p.Prefer {
		if asked += len(f.Labels); asked > where.MaxRequirements-2 { // avoid and slots are requirements, too
			return fmt.Errorf("place.labels and place.prefer have more than %d requirements together", where.MaxRequirements-2)
		}
		if f.Weight < 0 || f.Weight > MaxPreferWeight {
			return fmt.Errorf("place.prefer[%d].weight is %d, want 1 to %d", i, f.Weight, MaxPreferWeight)
		}
		if len(f.Labels) == 0 {
			return fmt.Errorf("place.prefer[%d].labels: name at least one requirement", i)
		}
		if err := f.Labels.Validate(); err != nil {
			return fmt.Errorf("place.prefer[%d].%w", i, err)
		}
	}
	if p.Sticky == "" || p.Sticky == StickyJob || p.Sticky == StickyAttempt {
		return nil
	}
	if !strings.Contains(p.Sticky, "{") {
		return fmt.Errorf("place.sticky is %q, want %s, %s, or a key such as {params.customer}", p.Sticky, StickyJob, StickyAttempt)
	}
	return limit.ValidKey("place.sticky", p.Sticky)
}

// PreferWords say which nodes are preferred, and for how long the task is left to them; "" if none are.
func (p *Place) PreferWords() string {
	if !p.Prefers() {
		return ""
	}
	var parts []string
	switch p.Sticky {
	case "":
	case StickyJob:
		parts = append(parts, "the node on which its job ran last")
	case StickyAttempt:
		parts = append(parts, "the node of its last attempt")
	default:
		parts = append(parts, "the node on which "+p.Sticky+" ran last")
	}
	for _, f := range p.Prefer {
		parts = append(parts, fmt.Sprintf("nodes with %s (weight %d)", f.Labels, max(f.Weight, 1)))
	}
	return fmt.Sprintf("%s; after %v any of its nodes", strings.Join(parts, ", then "), value.Duration(p.preferWait()))
}
