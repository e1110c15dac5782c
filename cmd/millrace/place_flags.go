package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"millrace/task"
)

// placeFlags say where a task may run, besides the nodes that are named.
type placeFlags struct {
	labels string
	avoid  []string
	all    bool
	each   bool
	nodes  int
	spread string
	late   string
	slots  int
}

func (p *placeFlags) flags(fs *pflag.FlagSet) {
	fs.StringVar(&p.labels, "labels", "", "only on nodes that this `selector` chooses: 'zone in (eu,us),gpu,!spot,mem>=16'")
	fs.StringSliceVar(&p.avoid, "avoid", nil, "not on this `node` (repeat it)")
	fs.BoolVar(&p.all, "all-nodes", false, "a task on every node that takes work, or on each --node")
	fs.BoolVar(&p.each, "each", false, "a task on each --node instead of one on any of them")
	fs.IntVar(&p.nodes, "on", 0, "a task on so many different nodes, `N`, that match")
	fs.StringVar(&p.spread, "spread", "", "`label` over whose values those of --on are spread")
	fs.StringVar(&p.late, "late", "", "nodes that come while a task for --all-nodes is open: "+strings.Join(task.Lates, " or "))
	fs.IntVar(&p.slots, "slots", 0, "how many `slots` of a worker it takes (default that of the job, or 1)")
}

// put writes what was given into a submission.
func (p *placeFlags) put(s *task.Submission) error {
	labels, err := task.ParseSelector(p.labels)
	if err != nil {
		return fmt.Errorf("--labels: %w", err)
	}
	place := task.Place{Labels: labels, Avoid: p.avoid, Each: p.each, Count: p.nodes, Spread: p.spread, Late: p.late}
	if p.all {
		place.Mode = task.PlaceAll
	}
	switch {
	case p.nodes < 0:
		return fmt.Errorf("--on is %d, want 1 or more", p.nodes)
	case p.slots < 0:
		return fmt.Errorf("--slots is %d, want 1 or more", p.slots)
	}
	s.Slots = p.slots
	if place.Mode != "" || len(labels)+len(p.avoid) > 0 || p.each || p.nodes > 0 || p.spread != "" || p.late != "" {
		if len(s.Nodes) > 0 {
			place.Nodes, s.Nodes = s.Nodes, nil
		}
		s.Place = &place
	}
	return nil
}
