package task

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/task/job"
	"millrace/task/value"
	"millrace/task/where"
)

// Ran says on which node a task started last, among the tasks that share a name
// ([Work.StickyName]). It is a hint, not a fact: the worker that starts such a task overwrites it,
// and without it any node will do.
type Ran struct {
	Name string    `json:"name"`
	Node string    `json:"node"`
	At   time.Time `json:"at"`
}

// Peer is a node that takes new work of a task's kind.
type Peer struct {
	Node   string
	Labels map[string]string
	// At is the last known fact of the node.
	At uint64
}

func (p *Peer) known() Known { return Known{p.Node, p.At} }

// HandOver leaves a task that waits under an offer to nodes that it prefers, or that it does not
// avoid, once per turn.
type HandOver struct {
	To where.Route
	// Asked is what To requires of nodes; nil for a node's own route.
	Asked *where.Asked
	// Wait is how long the task is left to them. Default: place.prefer_wait.
	Wait time.Duration
	// After is the turn for which the offer was made.
	After  uint64
	Reason string
	// Self left it, to Peer in preference to all others. Ran is the node on which it, its job or
	// its key ran last.
	Self, Peer Known
	Ran        string
}

// Handed records that a waiting task was left to nodes that it prefers.
type Handed struct {
	// Home is the route where it waited before, and to which it returns.
	Home where.Route `json:"home"`
	// Until is when it returns; zero if it has.
	Until time.Time `json:"until,omitzero"`
	// Asked is what that route requires of nodes; nil if that follows from the spec.
	Asked *where.Asked `json:"asked,omitzero"`
}

func (HandOver) isCommand() {}

// StickyName is the name that tasks share which stick to one node; "" if this task does not stick,
// or only to its own last node. The error says that the key names a value that the task was not
// given.
func (w *Work) StickyName() (string, error) {
	key := ""
	switch {
	case w.Spec == nil || w.Spec.Place.Sticky == "" || w.Spec.Place.Sticky == job.StickyAttempt:
		return "", nil
	case w.Spec.Place.Sticky != job.StickyJob:
		key = w.Spec.Place.Sticky
	}
	name, err := w.counter("sticky:", "sticky:", key)
	if err != nil {
		return "", fmt.Errorf("place.sticky: %w", err)
	}
	return name, nil
}

// HandsOver says to which node the offered node self leaves the task. First comes the node that ran
// it, its job or its key last (ran, "" if unknown), then the nodes that the task's preferences
// choose. A node on which the task has failed leaves it to any other, if the policy is to avoid
// that node. Others are the nodes that take new work of its kind. False means that self starts the
// task.
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
	if p.Sticky == job.StickyAttempt {
		ran = t.Node
	}
	wait := value.Duration(p.PreferredFor())
	if p.Sticky != "" && ran != "" {
		if ran == self.Node && !shuns {
			return HandOver{}, false
		}
		if i := slices.IndexFunc(others, func(o Peer) bool { return o.Node == ran }); i >= 0 {
			return HandOver{Self: self.known(), Peer: others[i].known(), Ran: ran, To: where.NodeRoute(ran, t.Route.Priority()), After: t.Turn, Reason: fmt.Sprintf("%s ran %s last, and has %v to claim it", ran, p.StickyWords(), wait)}, true
		}
	}
	mine, _ := p.Score(self.Labels)
	if shuns {
		mine = -1 // any other node is better
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
		c.Wait = t.Spec.Retry.ShunnedFor()
		c.Reason = fmt.Sprintf("it failed on %s; other nodes have %v to claim it", strings.Join(t.Avoids, ", "), value.Duration(c.Wait))
	}
	return c, true
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
	return Reassigned{From: t.Route, To: c.To, Asked: c.Asked, Reason: c.Reason, Until: now.Add(cmp.Or(c.Wait, t.Spec.Place.PreferredFor()))}, nil
}

// handed records a move of a task that prefers nodes.
func (t *Task) handed(e Reassigned) {
	switch {
	case !e.Until.IsZero():
		t.Handed = &Handed{Home: t.Route, Until: e.Until, Asked: t.Asked}
	case t.Handed != nil && e.To.Queue() != t.Route.Queue():
		t.Handed = &Handed{Home: t.Handed.Home, Asked: t.Handed.Asked} // a new value, because earlier folds share the old one
	}
}

// turnHome returns the task to its former route: preferred nodes come first only within one turn.
func (t *Task) turnHome() {
	if t.Handed != nil && !t.Handed.Until.IsZero() {
		t.Route, t.Asked = t.Handed.Home.At(t.Route.Priority()), t.Handed.Asked
	}
	t.Handed = nil
}

// PreferredUntil is until when the task is left to preferred nodes; zero if it is not.
func (t *Task) PreferredUntil() time.Time {
	if t.Handed == nil || t.State != Pending {
		return time.Time{}
	}
	return t.Handed.Until
}

// handedDuty says which component must act on a task that is left to nodes that it prefers.
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

// avoid records a node on which an attempt has failed, if the task's policy is to avoid such nodes.
func (t *Task) avoid(node string) {
	if t.Spec == nil || !t.Spec.Retry.AvoidNode || node == "" || slices.Contains(t.Avoids, node) {
		return
	}
	t.Avoids = append(slices.Clone(t.Avoids), node) // earlier folds share the old slice
	if n := len(t.Avoids); n > where.MaxValues {
		t.Avoids = t.Avoids[n-where.MaxValues:]
	}
}

// Shuns tells whether a node leaves the task to other nodes, because an attempt failed there and
// the task's policy is to avoid that node. It does so once per turn. A task on a node's own route
// shuns no node, because no other node pulls from there.
func (t *Task) Shuns(node string) bool {
	if t.State != Pending || t.Spec == nil || t.Handed != nil || !t.Spec.Retry.AvoidNode || !slices.Contains(t.Avoids, node) {
		return false
	}
	_, own := t.Route.Node()
	return !own
}

// shunned says in words which nodes leave the task to others, and for how long.
func (t *Task) shunned() string {
	if !t.Shuns(t.FailedOn) {
		return ""
	}
	nodes, leave := "node "+t.FailedOn, "leaves"
	if len(t.Avoids) > 1 {
		nodes, leave = "nodes "+strings.Join(t.Avoids, ", "), "leave"
	}
	return fmt.Sprintf("; %s, where it failed, %s it to the others for up to %v", nodes, leave, value.Duration(t.Spec.Retry.ShunnedFor()))
}
