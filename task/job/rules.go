package job

import (
	"slices"

	"millrace/task/reason"
	"millrace/task/value"
)

// Question is what a rule answers. Its kind says where it is answered.
type Question string

// The four questions.
const (
	// Condition asks what must have happened before a task may start: it opens once per turn, and has no places.
	Condition Question = "condition"
	// Quota asks whether there is a place: the limiter of package quota gives places out, or a breaker's trials.
	Quota Question = "quota"
	// Valve asks whether what waits in a queue flows now: whoever fetches offers goes by it.
	Valve Question = "valve"
	// Choice asks who takes a task: it is answered where an offer is accepted.
	Choice Question = "choice"
)

// Rule is a field of a job by which a task may be kept from starting. What it says is a function in a file of its own;
// who offers, claims, explains, counts and verifies tasks knows the rules from this table. What a birth waits for
// besides, its needs and its signal, are holds.
type Rule struct {
	// Name is the field in a job file. If the rule postpones tasks it is their reason as well, the rule
	// that the decision names, and the rule of the metric.
	Name     string
	Question Question
	// Has tells whether a spec has the rule, and Check refuses a spec whose rule cannot be.
	Has   func(*Spec) bool
	Check func(*Spec) error
	// Copy takes the rule over from one spec to another.
	Copy func(to, from *Spec)
	// Keyed says that keys of the rule are filled in from what a task is given.
	Keyed bool
	// Then says what the timer does for a task that the rule has postponed; "" if it postpones none.
	Then string
}

// Rules are all of them, in the order in which faults are listed.
var Rules = []Rule{
	{
		Name: reason.Breaker, Question: Quota, Then: "the timer offers it when it is due",
		Has:   func(s *Spec) bool { return s.Breaker != nil },
		Check: func(s *Spec) error { return s.Breaker.Validate() },
		Copy:  func(to, from *Spec) { to.Breaker = from.Breaker },
	},
	{
		Name: reason.Window, Question: Condition, Then: "the timer offers it when its window opens",
		Has:   func(s *Spec) bool { return s.Window != "" },
		Check: func(s *Spec) error { return value.ValidWindow("window", s.Window) },
		Copy:  func(to, from *Spec) { to.Window = from.Window },
	},
	{
		Name: "place", Question: Choice,
		Has:   func(s *Spec) bool { return isSet(&s.Place) },
		Check: func(s *Spec) error { return s.Place.Validate() },
		Copy:  func(to, from *Spec) { to.Place = from.Place },
	},
	{
		Name: reason.PerNode, Question: Choice, Keyed: true, Then: "the timer offers it again, to any node that has a place for it",
		Has:   func(s *Spec) bool { return len(s.PerNode) > 0 },
		Check: func(s *Spec) error { return s.PerNode.Validate() },
		Copy:  func(to, from *Spec) { to.PerNode = from.PerNode },
	},
	{
		Name: "slots", Question: Choice,
		Has:   func(s *Spec) bool { return s.Slots != 0 },
		Check: (*Spec).validateSlots,
		Copy:  func(to, from *Spec) { to.Slots = from.Slots },
	},
	{
		Name: "concurrency", Question: Quota, Keyed: true,
		Has:   func(s *Spec) bool { return len(s.Concurrency) > 0 },
		Check: func(s *Spec) error { return s.Concurrency.Validate() },
		Copy:  func(to, from *Spec) { to.Concurrency = from.Concurrency },
	},
	{
		Name: "budget", Question: Quota, Keyed: true,
		Has:   func(s *Spec) bool { return len(s.Budget) > 0 },
		Check: func(s *Spec) error { return s.Budget.Validate() },
		Copy:  func(to, from *Spec) { to.Budget = from.Budget },
	},
	{
		Name: "rate", Question: Quota, Keyed: true,
		Has:   func(s *Spec) bool { return len(s.Rate) > 0 },
		Check: func(s *Spec) error { return s.Rate.Validate() },
		Copy:  func(to, from *Spec) { to.Rate = from.Rate },
	},
}

// Postpones is the rule of a name, if it postpones tasks.
func Postpones(name string) (*Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name && r.Then != "" })
	if i < 0 {
		return nil, false
	}
	return &Rules[i], true
}

// Postponing are the names of the rules that postpone tasks.
func Postponing() []string {
	var names []string
	for i := range Rules {
		if Rules[i].Then != "" {
			names = append(names, Rules[i].Name)
		}
	}
	return names
}

// Ruled is what of a spec its rules go by, and nothing else; nil if it has none.
func (s *Spec) Ruled() *Spec {
	var is *Spec
	for i := range Rules {
		if r := &Rules[i]; r.Has(s) {
			if is == nil {
				is = &Spec{}
			}
			r.Copy(is, s)
		}
	}
	return is
}

// Unkeyed is the spec without the rules that depend on what a task is given.
func (s *Spec) Unkeyed() Spec {
	is := *s
	for i := range Rules {
		if Rules[i].Keyed {
			Rules[i].Copy(&is, &Spec{})
		}
	}
	return is
}

// validateRules refuses rules that cannot be.
func (s *Spec) validateRules() error {
	var all error
	for i := range Rules {
		if r := &Rules[i]; r.Has(s) {
			all = value.JoinFaults(all, r.Check(s))
		}
	}
	return all
}

// Limited tells whether a limit has to admit the tasks of a spec.
func (s *Spec) Limited() bool {
	return s != nil && (len(s.Concurrency) > 0 || len(s.Budget) > 0 || len(s.Rate) > 0) && !s.Parental() // its children stand under them
}

// Windows are the windows that a spec and its steps name.
func (s *Spec) Windows() []string {
	var all []string
	s.whole(func(s *Spec) {
		if s.Window != "" {
			all = append(all, s.Window)
		}
	})
	return all
}
