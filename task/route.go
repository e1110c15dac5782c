package task

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"

	"millrace/task/job"
	"millrace/task/placement"
)

// FallbackQueue is the queue to which a task is released.
func (w *Work) FallbackQueue() string {
	if w.Spec != nil && w.Spec.Place.Queue != "" {
		return w.Spec.Place.Queue
	}
	if w.Asked != nil && w.Asked.Queue != "" {
		return w.Asked.Queue
	}
	return placement.DefaultQueue
}

// QueueName is the display name of the queue in which the task waits. For a queue of nodes with
// certain labels it is the queue that these nodes serve, and for the route of one node it is the
// name from [placement.NodeQueue].
func (w *Work) QueueName() string {
	if w.Route.Selected() {
		return w.FallbackQueue()
	}
	return w.Route.Queue()
}

// Names tells whether the work waits on a node's own route, or on that of a selector that has the
// node's name.
func (w *Work) Names(node string) bool {
	if on, own := w.Route.Node(); own {
		return on == node
	}
	_, needs := w.Asks()
	return needs.Names(node)
}

// WaitsIn is the display name of where the task waits: the name of its queue, or "node w3" if it is
// meant for one node.
func (w *Work) WaitsIn() string {
	if on, own := w.Route.Node(); own {
		return "node " + on
	}
	return w.QueueName()
}

// Fallback is the route to which a task is released: its shared queue, or the nodes in that queue
// with enough slots.
func (t *Task) Fallback() placement.Route {
	queue := t.FallbackQueue()
	if room := t.Spec.Room(); len(room) > 0 {
		return placement.SelectorRoute(queue, room, t.Route.Priority())
	}
	return placement.QueueRoute(queue, t.Route.Priority())
}

// FellBack tells whether the task waits in its shared queue, or for the nodes of that queue that
// can run it.
func (t *Task) FellBack() bool {
	if t.Route == t.Fallback() {
		return true
	}
	if t.Spec.Means() == "" {
		return false
	}
	asked := placement.Asked{Queue: t.FallbackQueue(), Needs: t.Spec.Room()}.With(placement.Requirement{Key: t.Spec.Means(), Op: placement.OpExists})
	return t.Route == asked.Route(t.Route.Priority())
}

// PassOn moves a task that waits under an offer to the nodes that can run it.
type PassOn struct {
	// To is the route where the task waits for those nodes. Asked is what that route requires of
	// nodes; nil if it is not a selector's route.
	To    placement.Route
	Asked *placement.Asked
	// After is the turn for which the offer was made.
	After  uint64
	Reason string
	// Self is the node that passes the task on.
	Self Known
}

func (PassOn) isCommand() {}

func passOn(t *Task, c PassOn) (Event, error) {
	switch {
	case t.State.Terminal():
		return nil, ErrEnded
	case t.State != Pending || t.Turn != c.After:
		return nil, ErrStale
	}
	if err := c.To.Validate(); err != nil {
		return nil, err
	}
	return Reassigned{From: t.Route, To: c.To, Asked: c.Asked, Reason: c.Reason}, nil
}

// moved takes over the route to which a fact moves the task, and what that route requires of nodes.
func (t *Task) moved(e Reassigned) {
	asked := e.Asked
	switch {
	case asked != nil || !e.To.Selected():
	case e.To.Queue() == t.Route.Queue(): // another priority
		asked = t.Asked
	case t.Handed != nil && e.To.Queue() == t.Handed.Home.Queue():
		asked = t.Handed.Asked
	}
	t.handed(e)
	t.Route, t.Asked = e.To, asked
}

// Asks returns what the task's present route requires of a node: to serve the queue and to match
// the selector. On a node's own route and in a plain queue the selector is empty.
func (w *Work) Asks() (queue string, needs placement.Selector) {
	if a := w.Asked; a != nil && w.Route.Selected() && placement.SelectorQueue(a.Queue, a.Needs) == w.Route.Queue() {
		return a.Queue, a.Needs
	}
	if !w.Route.Selected() || w.Spec == nil {
		return w.Route.Queue(), nil
	}
	if p := &w.Spec.Place; p.Named() {
		if needs = job.NamedNeeds(p.Nodes, w.Spec); placement.SelectorQueue("", needs) == w.Route.Queue() {
			return "", needs
		}
	}
	queue = w.Spec.Place.Queue
	if queue == "" {
		queue = placement.DefaultQueue
	}
	if needs = w.Spec.Needs(); placement.SelectorQueue(queue, needs) == w.Route.Queue() {
		return queue, needs
	}
	if preferred, ok := w.Spec.Preferred(queue, w.Route); ok {
		return queue, preferred
	}
	needs = w.Spec.Room() // it has fallen back, or was released
	return queue, needs
}

// HandOver leaves a task that waits under an offer to better nodes: to those that it prefers, or to
// any on which it has not failed. It does so once per turn.
type HandOver struct {
	To placement.Route
	// Asked is what To requires of nodes; nil for a node's own route.
	Asked *placement.Asked
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
	Home placement.Route `json:"home" redact:"keep"`
	// Until is when it returns; zero if it has.
	Until time.Time `json:"until,omitzero"`
	// Asked is what that route requires of nodes; nil if that follows from the spec.
	Asked *placement.Asked `json:"asked,omitzero"`
}

func (HandOver) isCommand() {}

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
	return Reassigned{
		From:   t.Route,
		To:     c.To,
		Asked:  c.Asked,
		Reason: c.Reason,
		Until:  now.Add(cmp.Or(c.Wait, t.Spec.Place.PreferredFor())),
	}, nil
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

// avoid records a node on which an attempt has failed, if the task's policy is to avoid such nodes.
func (t *Task) avoid(node string) {
	if t.Spec == nil || !t.Spec.Retry.AvoidNode || node == "" || slices.Contains(t.Avoids, node) {
		return
	}
	t.Avoids = append(slices.Clone(t.Avoids), node) // earlier folds share the old slice
	if n := len(t.Avoids); n > placement.MaxValues {
		t.Avoids = t.Avoids[n-placement.MaxValues:]
	}
}

// CancelWaiting is [Cancel] for a task only while it waits.
type CancelWaiting struct{ Reason string }

func (CancelWaiting) isCommand() {}

// Prioritize gives a waiting task another priority.
type Prioritize struct {
	Priority int
	Reason   string
}

func (Prioritize) isCommand() {}

func prioritize(t *Task, c Prioritize) (Event, error) {
	if err := placement.ValidPriority(c.Priority); err != nil {
		return nil, err
	}
	return reassign(t, Reassign{From: t.Route, To: t.Route.At(c.Priority), Reason: c.Reason})
}

// Lane is the lane in which the task waits when it is offered.
func (w *Work) Lane() placement.Lane {
	l := placement.Lane{Queue: w.Route.Queue(), Priority: w.Route.Priority()}
	if w.FairKey != "" {
		h := fnv.New32a()
		h.Write([]byte(w.FairKey))
		l.Number = int(h.Sum32()%placement.Lanes) + 1
	}
	return l
}
