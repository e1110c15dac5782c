package job

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/value"
)

// Preference is a choice of nodes that are better than others; the others may still run the task.
type Preference struct {
	// Labels select the nodes.
	Labels placement.Selector `json:"labels"`
	// Weight is added to the score of a selected node, 1 to [MaxPreferWeight]. Default 1.
	Weight int `json:"weight,omitempty"`
}

// Values of [Place.Sticky] other than a key.
const (
	StickyJob     = "job"     // the node on which a task of the job started last
	StickyAttempt = "attempt" // the node of the task's last attempt
)

// Bounds of preferences.
const (
	MaxPrefer       = 4
	MaxPreferWeight = 1000
)

// DefaultPreferWait is how long a task without its own time is left to preferred nodes.
const DefaultPreferWait = 10 * time.Second

// Prefers tells whether the place prefers some of its nodes to others.
func (p *Place) Prefers() bool { return p.Sticky != "" || len(p.Prefer) > 0 }

// Unprefer removes all preferences.
func (p *Place) Unprefer() { p.Sticky, p.Prefer, p.PreferWait = "", nil, 0 }

// PreferredFor returns PreferWait or its default.
func (p *Place) PreferredFor() time.Duration {
	if p.PreferWait == 0 {
		return DefaultPreferWait
	}
	return p.PreferWait.Std()
}

// Score returns the sum of weights for a node with these labels, and the requirements of the
// preferences that select it.
func (p *Place) Score(labels map[string]string) (score int, met placement.Selector) {
	for _, f := range p.Prefer {
		if f.Labels.Refuses(labels) == nil {
			score, met = score+max(f.Weight, 1), append(met, f.Labels...)
		}
	}
	return score, met
}

// StickyWords names in words what the task shares with the node that it sticks to.
func (p *Place) StickyWords() string {
	switch p.Sticky {
	case StickyJob:
		return "its job"
	case StickyAttempt:
		return "it"
	}
	return "its key"
}

// Preferred returns the selector of the task's preferences that makes this route; false if none
// does.
func (s *Spec) Preferred(queue string, route placement.Route) (placement.Selector, bool) {
	terms := s.Place.Prefer
	if len(terms) > MaxPrefer { // not a spec that this version wrote
		terms = nil
	}
	for set := 1; set < 1<<len(terms); set++ {
		needs := s.Needs()
		for i := range terms {
			if set&(1<<i) != 0 {
				needs = append(needs, terms[i].Labels...)
			}
		}
		if placement.SelectorQueue(queue, needs) == route.Queue() {
			return needs, true
		}
	}
	return nil, false
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
		if asked += len(f.Labels); asked > placement.MaxRequirements-2 { // avoid and slots are requirements, too
			return fmt.Errorf("place.labels and place.prefer have more than %d requirements together", placement.MaxRequirements-2)
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

// PreferWords says in words which nodes are preferred, and for how long the task is left to them;
// "" if there are none.
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
	return fmt.Sprintf("%s; after %v any of its nodes", strings.Join(parts, ", then "), value.Duration(p.PreferredFor()))
}
