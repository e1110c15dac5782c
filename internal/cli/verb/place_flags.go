package verb

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"millrace/internal/cli/settings"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/placement"
	"millrace/task/value"
)

// placeFlags say where a task may run, besides named nodes.
type placeFlags struct {
	labels string
	avoid  []string
	all    bool
	each   bool
	nodes  int
	spread string
	late   string
	slots  int
	sticky string
	prefer []string
	wait   settings.Span
}

func (p *placeFlags) flags(fs *pflag.FlagSet, spread string) {
	fs.StringVar(&p.labels, "labels", "", "only on nodes whose labels this `selector` chooses: 'zone in (eu,us),gpu,!spot,mem>=16' (--label is of the task)")
	fs.StringSliceVar(&p.avoid, "avoid", nil, "not on this `node` (repeat it)")
	fs.BoolVar(&p.all, "all-nodes", false, "a task on every node that takes work, or on each --node")
	fs.BoolVar(&p.each, "each", false, "a task on each --node instead of one on any of them")
	settings.Count(fs, &p.nodes, "on", "", "one task on each of a `number` of different nodes that match")
	fs.StringVar(&p.spread, spread, "", "`label` over whose values those of --on are spread")
	fs.StringVar(&p.late, "late", "", "`what` to do about nodes that come while a task for --all-nodes is open: "+strings.Join(job.Lates, " or "))
	fs.StringVar(&p.sticky, "sticky", "", "prefer the `node` that ran before: the job, the last attempt, or a key such as {params.customer}")
	fs.StringArrayVar(&p.prefer, "prefer", nil, "prefer nodes that this `selector` chooses, with a weight before a colon: 10:gpu (repeat it)")
	p.wait.Least = time.Millisecond
	fs.Var(&p.wait, "prefer-wait", "how long it is left to preferred nodes (default 10s)")
	settings.Count(fs, &p.slots, "slots", "", "number of `slots` of a worker that it takes (default that of the job, or 1)")
}

// put copies the flags into a submission.
func (p *placeFlags) put(fs *pflag.FlagSet, s *birth.Submission) error {
	labels, err := placement.ParseSelector(p.labels)
	if err != nil {
		return fmt.Errorf("--labels: %w", err)
	}
	place := job.Place{Labels: labels, Avoid: p.avoid, Each: p.each, Count: p.nodes, Spread: p.spread, Late: p.late}
	place.Sticky, place.PreferWait = p.sticky, value.Duration(p.wait.D)
	for _, text := range p.prefer {
		f, err := parsePreference(text)
		if err != nil {
			return fmt.Errorf("--prefer: %w", err)
		}
		place.Prefer = append(place.Prefer, f)
	}
	if p.all {
		place.Mode = job.PlaceAll
	}
	switch {
	case fs.Changed("on") && p.nodes < 1:
		return fmt.Errorf("--on is %d, want 1 or more", p.nodes)
	case fs.Changed("slots") && p.slots < 1:
		return fmt.Errorf("--slots is %d, want 1 or more", p.slots)
	}
	s.Slots = p.slots
	if place.Mode != "" || len(labels)+len(p.avoid) > 0 || p.each || p.nodes > 0 || p.spread != "" || p.late != "" || place.Prefers() || p.wait.D != 0 {
		if len(s.Nodes) > 0 {
			place.Nodes, s.Nodes = s.Nodes, nil
		}
		s.Place = &place
	}
	return nil
}

// parsePreference parses a selector, with its weight before a colon.
func parsePreference(text string) (job.Preference, error) {
	var f job.Preference
	if weight, rest, ok := strings.Cut(text, ":"); ok {
		n, err := strconv.Atoi(weight)
		if err != nil || n < 1 {
			return f, fmt.Errorf("%q: want a selector, or WEIGHT:SELECTOR with a weight from 1", text)
		}
		f.Weight, text = n, rest
	}
	var err error
	f.Labels, err = placement.ParseSelector(text)
	return f, err
}
