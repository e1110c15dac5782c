package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task/placement"
	"millrace/task/value"
)

// Place says where a task may run. The zero value means: on any node that serves its queue.
//
// A task with one named node is born on that node's own route, whether or not the node is known.
// With several named nodes it is born on a route from which all of them pull: the first free one
// takes it, in order of preference. Millrace does not use an earlier list of nodes. While none of
// them takes new work, NoNode decides, with a fact.
//
// A task that requires labels, avoids nodes or costs more than one slot is born on the route of a
// selector ([placement.SelectorRoute]), from which only matching nodes pull. Names of nodes beside
// labels become part of the selector. The claim checks the selector again with the node's labels of
// that moment.
//
// A task for each of several nodes is a parent ([Spec.Parental]).
type Place struct {
	// Mode is any, nodes or all. Default: nodes if Nodes are named, else any.
	Mode string `json:"mode,omitempty" redact:"word" words:"any,nodes,all"`
	// Nodes are the nodes that may run it, in order of preference: a free one, and of several free
	// ones the first in the list. With Labels or Avoid, only those that match. At most
	// [MaxPlaceNodes].
	Nodes []string `json:"nodes,omitempty" redact:"keep" names:"node"`
	// Each asks for one task on each of Nodes instead of one on any of them.
	Each bool `json:"each,omitempty"`
	// Labels select among the nodes that serve the queue. Default: all of them.
	Labels placement.Selector `json:"labels,omitempty"`
	// Avoid are nodes that must not run it. At most [MaxPlaceNodes].
	Avoid []string `json:"avoid,omitempty" redact:"keep" names:"node"`
	// Count asks for this many tasks on different matching nodes. Default: one task without a
	// parent. At most [MaxChildren].
	Count int `json:"count,omitempty"`
	// Spread is a label over whose values these nodes are spread. Default: nodes are taken by name.
	Spread string `json:"spread,omitempty" redact:"keep" read:"line"`
	// Late says whether a task for all nodes gets children on nodes that come while it is open:
	// [LateIgnore], the default, or [LateInclude].
	Late string `json:"late,omitempty" redact:"word" words:"ignore,include"`
	// Sticky prefers the node on which it ran before: [StickyJob], [StickyAttempt], or a key like
	// that of [limit.Concurrency], with {params.NAME} or {labels.NAME} in it, for the node on which
	// a task with that key started last.
	Sticky string `json:"sticky,omitempty" redact:"template" read:"line"`
	// Prefer are nodes that are better than others. Sticky comes first. At most [MaxPrefer].
	Prefer []Preference `json:"prefer,omitempty" alone:"none" like:"{labels: {zone: eu}, weight: 10}"`
	// PreferWait is how long a task is left to preferred nodes that take work. Afterwards any node
	// may claim it. Default [DefaultPreferWait].
	PreferWait value.Duration `json:"prefer_wait,omitempty"`
	// NoNode is what happens while none of its nodes takes new work. Default expire.
	NoNode string `json:"no_node,omitempty" redact:"word" words:"expire,wait,fallback,fail"`
	// Queue is the shared queue for release and fallback. Nodes chosen by labels must serve it.
	// Default: the job's queue.
	Queue string `json:"queue,omitempty" redact:"keep" names:"queue"`
}

// Modes of [Place].
const (
	PlaceAny   = "any"
	PlaceNodes = "nodes"
	PlaceAll   = "all"
)

// PlaceModes lists them.
var PlaceModes = value.WordsOf[Place]("mode")

// Values of Late: what a task for all nodes does about nodes that come later.
const (
	LateIgnore  = "ignore"  // it is for the nodes that took work when it was expanded
	LateInclude = "include" // until it has ended, each new node gets a child
)

// Lates lists them.
var Lates = value.WordsOf[Place]("late")

// Values of NoNode: what happens to a task while none of its nodes takes new work.
const (
	// NoNodeExpire keeps it until a node comes, and ends it abnormal/expired when timeout.pending
	// passes, else the start deadline of the servers, if there is one.
	NoNodeExpire = "expire"
	// NoNodeWait keeps it until a node comes, at most for timeout.pending.
	NoNodeWait = "wait"
	// NoNodeFallback moves it to the shared queue.
	NoNodeFallback = "fallback"
	// NoNodeFail ends it abnormal/unplaceable.
	NoNodeFail = "fail"
)

// NoNodes lists the policies.
var NoNodes = value.WordsOf[Place]("no_node")

// MaxPlaceNodes is how many nodes a task may name.
const MaxPlaceNodes = 64

// Targeted tells whether the place names nodes.
func (p *Place) Targeted() bool { return len(p.Nodes) > 0 }

// selective tells whether the place selects nodes by labels or avoids some.
func (p *Place) selective() bool { return len(p.Labels)+len(p.Avoid) > 0 }

// Named tells whether the place chooses nodes by name alone, in any queue.
func (p *Place) Named() bool { return p.Targeted() && !p.selective() }

// fans tells whether it asks for a task on each of several nodes.
func (p *Place) fans() bool { return p.Mode == PlaceAll || p.Each || p.Count > 0 }

// Idle refuses what says nothing where it stands, in a spec or one of its steps. Earlier versions
// stored such specs.
func (s *Spec) Idle() error {
	if p := &s.Place; p.Queue != "" && !p.Targeted() && !p.selective() && !p.fans() {
		return errors.New("place.queue is for the nodes that place chooses, and it chooses none: set queue instead")
	}
	for i := range s.Steps {
		if err := s.Steps[i].Idle(); err != nil {
			return fmt.Errorf("steps[%d].%w", i, err)
		}
	}
	return nil
}

// Validate refuses an invalid place and names the field.
func (p *Place) Validate() error {
	if p.Mode != "" && !slices.Contains(PlaceModes, p.Mode) {
		return fmt.Errorf("place.mode is %q, want one of %s", p.Mode, strings.Join(PlaceModes, ", "))
	}
	switch {
	case p.Mode == PlaceNodes && len(p.Nodes) == 0:
		return errors.New("place.nodes: name at least one node, or leave place.mode out")
	case p.Mode == PlaceAny && len(p.Nodes) > 0:
		return errors.New("place.mode is \"any\", and place.nodes names some; leave one of them out")
	case len(p.Nodes) > 0 && p.fans() && p.selective():
		return errors.New("place asks for a task on each of place.nodes, whatever these are; leave place.labels and place.avoid out, or place.nodes")
	case p.Each && len(p.Nodes) == 0:
		return errors.New("place.each asks for a task on each of place.nodes, and none are named")
	case p.Count < 0 || p.Count > MaxChildren:
		return fmt.Errorf("place.count is %d, want 1 to %d", p.Count, MaxChildren)
	case p.Count > 0 && (p.Mode == PlaceAll || len(p.Nodes) > 0):
		return errors.New("place.count takes so many of the nodes that match; leave place.nodes and mode all out, or name the nodes with place.each")
	case p.Spread != "" && p.Count == 0:
		return errors.New("place.spread says over which label place.count nodes are spread; set place.count")
	case p.Late != "" && !slices.Contains(Lates, p.Late):
		return fmt.Errorf("place.late is %q, want %s or %s", p.Late, LateIgnore, LateInclude)
	case p.Late != "" && (p.Mode != PlaceAll || len(p.Nodes) > 0):
		return errors.New("place.late is for a task on all nodes; set place.mode to all and name none")
	case p.NoNode != "" && !slices.Contains(NoNodes, p.NoNode):
		return fmt.Errorf("place.no_node is %q, want one of %s", p.NoNode, strings.Join(NoNodes, ", "))
	case p.NoNode != "" && len(p.Nodes) == 0 && !p.selective() && !p.fans():
		return errors.New("place.no_node says what to do without the nodes that place chooses, and it chooses none: set nodes, labels, avoid, count or mode all")
	}
	if err := p.Labels.Validate(); err != nil {
		return fmt.Errorf("place.%w", err)
	}
	if err := p.validatePreference(); err != nil {
		return err
	}
	if err := validNodes("place.nodes", p.Nodes); err != nil {
		return err
	}
	if err := validNodes("place.avoid", p.Avoid); err != nil {
		return err
	}
	if p.Queue != "" {
		if err := value.ValidName("queue", p.Queue); err != nil {
			return fmt.Errorf("place.queue: %w", err)
		}
	}
	return nil
}

func validNodes(field string, nodes []string) error {
	if len(nodes) > MaxPlaceNodes {
		return fmt.Errorf("%s: %d nodes, want at most %d", field, len(nodes), MaxPlaceNodes)
	}
	for i, n := range nodes {
		if err := value.ValidName("node", n); err != nil {
			return fmt.Errorf("%s: %w", field, err)
		}
		if slices.Contains(nodes[:i], n) {
			return fmt.Errorf("%s: %q is named twice", field, n)
		}
	}
	return nil
}

// HomeRoute is the route on which a task of a spec in this queue is born.
func (s *Spec) HomeRoute(queue string, priority int) placement.Route {
	switch {
	case s.Parental():
		return placement.QueueRoute(queue, priority) // its children have routes; no node claims the parent
	case s.Place.Named() && len(s.Place.Nodes) == 1:
		return placement.NodeRoute(s.Place.Nodes[0], priority)
	case s.Place.Named():
		asked := placement.Asked{Needs: NamedNeeds(s.Place.Nodes, s)}
		return asked.Route(priority)
	case s.Place.selective() || len(s.Room()) > 0:
		return placement.SelectorRoute(queue, s.Needs(), priority)
	}
	return placement.QueueRoute(queue, priority)
}

// With returns the place with the set fields of another in place of its own.
func (p Place) With(set *Place) Place {
	if set.Mode != "" || len(set.Nodes) > 0 || set.Each || len(set.Labels) > 0 || set.Count != 0 {
		p.Mode, p.Nodes, p.Each, p.Labels, p.Count, p.Spread, p.Late = set.Mode, set.Nodes, set.Each, set.Labels, set.Count, "", ""
		if p.fans() || p.Targeted() {
			p.Unprefer() // it is for each of several nodes, or for named ones
		}
		if p.fans() && p.Targeted() {
			p.Avoid = nil // for exactly these nodes
		}
	}
	if len(set.Avoid) > 0 {
		p.Avoid = set.Avoid
	}
	if len(set.Prefer) > 0 {
		p.Prefer = set.Prefer
	}
	if set.PreferWait != 0 {
		p.PreferWait = set.PreferWait
	}
	for _, text := range []struct{ is, to *string }{
		{&p.Spread, &set.Spread}, {&p.Late, &set.Late}, {&p.NoNode, &set.NoNode}, {&p.Queue, &set.Queue}, {&p.Sticky, &set.Sticky},
	} {
		if *text.to != "" {
			*text.is = *text.to
		}
	}
	return p
}
