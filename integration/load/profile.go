// Package load describes loads and judges how a system handles them: which tasks come when, what
// became of them, whether that is worse than before, and a page that shows it. It is pure: package
// bench makes the tasks and reads the log.
package load

import (
	"fmt"
	"time"
)

// Kind says what one arrival brings.
type Kind string

// The kinds of arrivals.
const (
	Noop    Kind = "no-op"   // a task that does nothing
	Program Kind = "program" // a process that ends at once
	Retry   Kind = "retry"   // a task whose first attempt fails
	Limited Kind = "limited" // a task with a key; one per key runs at a time
	Fan     Kind = "fan-out" // a task, many that need it, and one that needs all of those
	Tick    Kind = "tick"    // a due schedule
)

// Spacings of arrivals.
const (
	Poisson = "poisson" // as from many independent users
	Even    = "even"    // at equal intervals
)

// Spacings lists them all, the default first.
var Spacings = []string{Poisson, Even}

// Profile describes a load.
type Profile struct {
	Name, About string
	// Rate is the average number of arrivals per second; For is how long they come by default.
	Rate float64
	For  time.Duration
	// Wave says how the rate varies: stretches that repeat. Default: it does not.
	Wave []Stretch
	// Mix says what arrives.
	Mix []Share
	// Ahead is how long before its time an arrival is submitted to the server.
	Ahead time.Duration
}

// Stretch is a part of a wave. The mean of Of over a wave is 1.
type Stretch struct {
	For time.Duration
	Of  float64 // times the average rate
}

// Share is the share of one kind in a load. The shares of a profile add up to 1.
type Share struct {
	Kind Kind
	Of   float64
}

var mix = []Share{{Noop, 0.5}, {Program, 0.2}, {Retry, 0.15}, {Limited, 0.15}}

// Profiles lists all profiles.
var Profiles = []Profile{
	{Name: "burst", About: "no-op tasks; four fifths of them in one second of five", Rate: 1000, For: 30 * time.Second,
		Wave: []Stretch{{time.Second, 4}, {4 * time.Second, 0.25}}, Mix: []Share{{Noop, 1}}},
	{Name: "steady", About: "no-op tasks at one rate", Rate: 1000, For: 30 * time.Second, Mix: []Share{{Noop, 1}}},
	{Name: "mixed", About: "no-op tasks, short programs, retries and limits", Rate: 200, For: 30 * time.Second, Mix: mix},
	{Name: "fanout", About: "a task, many that need it, one that needs all of those", Rate: 10, For: 30 * time.Second, Mix: []Share{{Fan, 1}}},
	{Name: "schedules", About: "schedules, each due once", Rate: 200, For: 30 * time.Second, Mix: []Share{{Tick, 1}}, Ahead: 10 * time.Second},
	{Name: "long-haul", About: "mixed, slowly and for long, to see what grows", Rate: 50, For: time.Hour, Mix: mix},
}

// Names returns the names of all profiles.
func Names() []string {
	names := make([]string, len(Profiles))
	for i := range Profiles {
		names[i] = Profiles[i].Name
	}
	return names
}

// Plan is one run of a profile.
type Plan struct {
	Profile
	Spacing string
}

// NewPlan returns a run of a profile; a rate or duration of 0 is the profile's.
func NewPlan(name string, rate float64, d time.Duration, spacing string) (Plan, error) {
	for _, p := range Profiles {
		if p.Name != name {
			continue
		}
		if rate != 0 {
			p.Rate = rate
		}
		if d != 0 {
			p.For = d
		}
		if !(p.Rate > 0 && p.Rate <= 1e6) {
			return Plan{}, fmt.Errorf("a rate of %v arrivals a second: want more than 0, at most a million", p.Rate)
		}
		if p.For < 0 || p.For > 7*24*time.Hour {
			return Plan{}, fmt.Errorf("a load for %v: want more than 0, at most a week", p.For)
		}
		return Plan{Profile: p, Spacing: spacing}, nil
	}
	return Plan{}, fmt.Errorf("there is no profile %q", name)
}
