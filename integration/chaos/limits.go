package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// Limits of a load have keys shared by all tasks. A limit counts tasks, and this code reports what
// actually ran: a place is free in the log only after all of an attempt has ended outside the log.

// labelLimit is the label that names a task's limit.
const labelLimit = "limit"

// bounds returns the limits of a load with that many tasks per second, by the value of the label,
// each with the chance in a hundred that a task has it. Tasks other than short ones only wait: a
// task that a limit refuses or cancels shows nothing else.
func bounds(rate float64) []bound {
	places := max(1, int(math.Ceil(rate/10)))
	how := limit.Rate{Limit: places, Burst: 2 * places, Key: "/rate"}
	return []bound{
		{label: "wait", chance: 12, any: true, places: limit.Concurrency{Max: 2 * places, Key: "/wait"}},
		{label: "skip", chance: 10, places: limit.Concurrency{Max: places, Key: "/skip", OnLimit: limit.Skip}},
		{label: "fail", chance: 6, places: limit.Concurrency{Max: places, Key: "/fail", OnLimit: limit.Fail}},
		{label: "cancel-old", chance: 8, places: limit.Concurrency{Max: places, Key: "/cancel-old", OnLimit: limit.CancelOld}},
		{label: "rate", chance: 6, rate: how},
		{label: "both", chance: 5, places: limit.Concurrency{Max: places, Key: "/both"}, rate: how},
	}
}

type bound struct {
	label  string
	chance int
	any    bool // for tasks of all kinds
	places limit.Concurrency
	rate   limit.Rate
}

// set puts a task under the limit.
func (b *bound) set(s *birth.Submission) {
	if b.places.Max > 0 {
		s.Spec.Concurrency = []limit.Concurrency{b.places}
	}
	if b.rate.Limit > 0 {
		s.Spec.Rate = []limit.Rate{b.rate}
	}
	s.Labels[labelLimit] = b.label
}

// restrain puts some of the orders under limits. Tasks that compete for one place run longer, so
// that they do meet.
func restrain(orders []order, seed uint64, rate float64) {
	chance := rand.New(rand.NewPCG(seed, 2))
	all := bounds(rate)
	for i := range orders {
		s := &orders[i].submission
		long := time.Duration(300+chance.IntN(1500)) * time.Millisecond
		k := chance.IntN(100)
		for j := range all {
			b := &all[j]
			if k -= b.chance; k >= 0 {
				continue
			}
			short := s.Labels["kind"] == "short"
			if short && b.places.Max > 0 && !b.any {
				s.Spec.Run.Argv = []string{"sleep", fmt.Sprintf("%.3f", long.Seconds())}
			}
			if short || b.any {
				b.set(s)
			}
			break
		}
	}
}

// LimitsReport is what limits have shown.
type LimitsReport struct {
	// Tasks is how many tasks under limits ran, and Most how many ran at a time under each key.
	Tasks int            `json:"tasks"`
	Most  map[string]int `json:"most"`
	// Refused is how many ended because a limit had no place, Replaced how many were stopped to
	// make place for another, both by the log.
	Refused  int `json:"refused"`
	Replaced int `json:"replaced"`
	// Exceeded is how often more ran than a limit allows, or one too early.
	Exceeded int `json:"exceeded"`
}

// count counts what limits have refused, or stopped.
func (l *LimitsReport) count(records []events.Record) {
	for i := range records {
		switch e := records[i].Fact.Event.(type) {
		case task.GivenUp:
			if e.Reason == value.Limit {
				l.Refused++
			}
		case task.CancelConfirmed:
			if e.Code == value.Limit {
				l.Refused++
			}
		case task.CancelRequested:
			if by := records[i].Fact.By; by != nil && by.Rule == task.RuleLimit {
				l.Replaced++
			}
		}
	}
}

// limited is a task that was submitted under limits.
type limited struct {
	spec *job.Spec
	// asked is when it was first submitted, in seconds since the machine started.
	asked float64
}

// apartRates is more than the clocks of two schedulers may differ.
const apartRates = 0.25 // seconds

// judgeLimits checks what ran against the limits of the tasks. A suspended worker cannot stop what
// it runs, so that counts only until the suspension; see [witnesses.judge].
func judgeLimits(all []*Stint, tasks map[task.ID]limited, suspended func(*Stint) float64) (r LimitsReport, broken []string) {
	r.Most = map[string]int{}
	byKey, rated := map[string][]*Stint{}, map[string][]float64{}
	first := map[task.ID]float64{}
	for _, s := range all {
		l, known := tasks[s.Task]
		if !known {
			continue
		}
		if at, ran := first[s.Task]; !ran || s.Began < at {
			first[s.Task] = s.Began
		}
		for _, c := range l.spec.Concurrency {
			byKey[c.Key] = append(byKey[c.Key], s)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		most, found := crowd(byKey[key], tasks, suspended)
		r.Most[key] = most
		broken = append(broken, found...)
	}
	asked, how := map[string][]float64{}, map[string]limit.Rate{}
	for id, l := range tasks {
		for _, rate := range l.spec.Rate {
			asked[rate.Key], how[rate.Key] = append(asked[rate.Key], l.asked), rate
			if at, ran := first[id]; ran {
				rated[rate.Key] = append(rated[rate.Key], at)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rated)) {
		if early := hasty(asked[key], rated[key], how[key]); early != "" {
			broken = append(broken, fmt.Sprintf("the rate %s was exceeded: %s", key, early))
		}
	}
	r.Tasks, r.Exceeded = len(first), len(broken)
	return r, broken
}

// crowd returns how many tasks under one key ran at a time, and when that was more than the limit
// of one that began.
func crowd(stints []*Stint, tasks map[task.ID]limited, suspended func(*Stint) float64) (most int, broken []string) {
	slices.SortFunc(stints, func(a, b *Stint) int { return cmp.Compare(a.Began, b.Began) })
	var running []*Stint
	for _, s := range stints {
		running = slices.DeleteFunc(running, func(o *Stint) bool { return min(o.Last, suspended(o)) <= s.Began })
		running = append(running, s)
		ids := map[task.ID]bool{}
		for _, o := range running {
			ids[o.Task] = true
		}
		c := tasks[s.Task].spec.Concurrency[0]
		if most = max(most, len(ids)); len(ids) <= c.Max {
			continue
		}
		var words []string
		for _, o := range running {
			words = append(words, fmt.Sprintf("%s (%s on %s)", o.Task, o.Who, o.Node))
		}
		broken = append(broken, fmt.Sprintf("the limit %s of %d was exceeded: %d ran at once when %s began: %s", c.Key, c.Max, len(ids), s.Task, strings.Join(words, ", ")))
	}
	return most, broken
}

// hasty reports a start that came sooner than a rate allows: a task is admitted as soon as it is
// asked for and the rate allows it, at the earliest, and starts then or later.
func hasty(asked, starts []float64, rate limit.Rate) string {
	slices.Sort(asked)
	slices.Sort(starts)
	every := cmp.Or(rate.Per.Std(), time.Second).Seconds() / float64(rate.Limit)
	spare := float64(max(rate.Burst, 1)-1) * every
	used := math.Inf(-1)
	for n, start := range starts {
		admitted := max(asked[n], used-spare)
		used = max(used, admitted) + every
		if start < admitted-apartRates {
			return fmt.Sprintf("start number %d came %.2fs before it could have been admitted", n+1, admitted-start)
		}
	}
	return ""
}
