package job

import (
	"fmt"
	"slices"
	"strings"

	"millrace/task/limit"
	"millrace/task/value"
)

// Question is the kind of question that a rule answers. The kind determines where it is answered.
type Question string

// The four questions.
const (
	// Condition: what must have happened before a task may start? It opens once per turn and has no
	// places.
	Condition Question = "condition"
	// Quota: is there a place? The limiter of package quota gives out places; a breaker gives out
	// trials.
	Quota Question = "quota"
	// Valve: may tasks of a queue flow now? The fetcher of offers obeys it.
	Valve Question = "valve"
	// Choice: which node takes a task? It is answered where a node accepts an offer.
	Choice Question = "choice"
)

// Rule is a field of a job that may keep a task from starting. Each rule's decision is a function
// in its own file. The code that offers, claims, explains, counts and verifies tasks finds the
// rules in this table. The other reasons for a birth to wait, its needs and its signal, are holds.
type Rule struct {
	// Name is the field in a job file. If the rule postpones tasks, it is also their reason, the
	// rule that the decision names, and the rule of the metric.
	Name     string
	Question Question
	// Has tells whether a spec has the rule. Check refuses a spec with an invalid rule.
	Has   func(*Spec) bool
	Check func(*Spec) error
	// Copy copies the rule from one spec to another.
	Copy func(to, from *Spec)
	// Least sets the rule of a spec to a valid value, so that each of its fields can be set alone.
	Least func(*Spec)
	// Keys returns the keys of a spec's rule, which are expanded with the values that a task is
	// given; nil if the rule has none.
	Keys func(*Spec) []limit.Key
	// Words says what the rule of a spec allows; nil if that depends on more than the spec.
	Words func(*Spec) []string
	// Then says what the timer does for a task that the rule has postponed; "" if the rule
	// postpones none.
	Then string
}

// Decided tells whether the log records decisions that follow from the rule.
func (r *Rule) Decided() bool { return r.Then != "" || r.Question == Quota }

// Rules lists all rules, in the order in which faults are reported. Each entry names its field of a
// spec once.
var Rules = []Rule{
	rule(Rule{Name: value.Breaker, Question: Quota, Then: "the timer offers it when it is due"},
		func(s *Spec) **limit.Breaker { return &s.Breaker }, &limit.Breaker{Failures: 1}, (*limit.Breaker).Validate,
		func(b *limit.Breaker) []string { return []string{b.Words()} }),
	rule(Rule{Name: value.Window, Question: Condition, Then: "the timer offers it when its window opens"},
		func(s *Spec) *string { return &s.Window }, "any", func(name string) error { return value.ValidWindow(value.Window, name) }, nil),
	rule(Rule{Name: "place", Question: Choice},
		func(s *Spec) *Place { return &s.Place }, Place{Nodes: []string{"any"}}, func(p Place) error { return p.Validate() }, nil),
	bounds(Rule{Name: value.PerNode, Question: Choice, Then: "the timer offers it again, to any node that has a place for it"},
		func(s *Spec) *limit.PerNodes { return &s.PerNode }, limit.PerNodes{{Max: 1}}),
	rule(Rule{Name: "slots", Question: Choice},
		func(s *Spec) *int { return &s.Slots }, 1, validSlots, func(n int) []string { return []string{fmt.Sprintf("takes %d", n)} }),
	bounds(Rule{Name: "concurrency", Question: Quota}, func(s *Spec) *limit.Concurrencies { return &s.Concurrency }, limit.Concurrencies{{Max: 1}}),
	bounds(Rule{Name: "budget", Question: Quota}, func(s *Spec) *limit.Budgets { return &s.Budget }, limit.Budgets{{Starts: 1}}),
	bounds(Rule{Name: "rate", Question: Quota}, func(s *Spec) *limit.Rates { return &s.Rate }, limit.Rates{{Limit: 1}}),
}

// rule fills in an entry by the field of a spec that is the rule: the least value that it may have,
// whether a value is valid and, unless nil, what one allows in words.
func rule[T any](r Rule, field func(*Spec) *T, least T, valid func(T) error, words func(T) []string) Rule {
	r.Has = func(s *Spec) bool { return isSet(field(s)) }
	r.Check = func(s *Spec) error { return valid(*field(s)) }
	r.Copy = func(to, from *Spec) { *field(to) = *field(from) }
	r.Least = func(s *Spec) { *field(s) = least }
	if words != nil {
		r.Words = func(s *Spec) []string { return words(*field(s)) }
	}
	return r
}

// bounds is [rule] for a list of bounds.
func bounds[T interface {
	Validate(field string) error
	Keys(field string) []limit.Key
	Words() []string
}](r Rule, field func(*Spec) *T, least T) Rule {
	r.Keys = func(s *Spec) []limit.Key { return (*field(s)).Keys(r.Name) }
	return rule(r, field, least, func(all T) error { return all.Validate(r.Name) }, T.Words)
}

// Overrides are the rules of a spec that a submission may replace, each as a whole. An empty list
// removes a bound.
type Overrides struct {
	// Slots is how many slots of a node a task takes.
	Slots int `json:"slots,omitempty"`
	// PerNode bounds how many run on one node, Concurrency how many run at one time, Budget how much
	// may run within a time, and Rate how often one may start.
	PerNode     limit.PerNodes      `json:"per_node,omitzero"`
	Concurrency limit.Concurrencies `json:"concurrency,omitzero"`
	Budget      limit.Budgets       `json:"budget,omitzero"`
	Rate        limit.Rates         `json:"rate,omitzero"`
}

// Onto replaces the rules of a spec that are set, and tells whether there are any.
func (o *Overrides) Onto(s *Spec) bool {
	set := replace(&s.Slots, o.Slots, o.Slots != 0)
	set = replace(&s.PerNode, o.PerNode, o.PerNode != nil) || set
	set = replace(&s.Concurrency, o.Concurrency, o.Concurrency != nil) || set
	set = replace(&s.Budget, o.Budget, o.Budget != nil) || set
	set = replace(&s.Rate, o.Rate, o.Rate != nil) || set
	return set
}

func replace[T any](is *T, by T, set bool) bool {
	if set {
		*is = by
	}
	return set
}

// OwnKeys has each key of a spec begin with an owner, and gives that to each limit without one, so that tasks of others
// share none of them. A key that begins with a slash stays, for all share it.
func (s *Spec) OwnKeys(owner string) {
	own := func(key *string, may bool) {
		switch {
		case *key == "" && may:
			*key = owner
		case *key != "" && !strings.HasPrefix(*key, "/"):
			*key = owner + "/" + *key
		}
	}
	own(&s.Unique.Key, false)
	if s.Collapse != nil {
		own(&s.Collapse.Key, false)
	}
	for i := range s.PerNode {
		own(&s.PerNode[i].Key, true)
	}
	for i := range s.Concurrency {
		own(&s.Concurrency[i].Key, true)
	}
	for i := range s.Budget {
		own(&s.Budget[i].Key, true)
	}
	for i := range s.Rate {
		own(&s.Rate[i].Key, true)
	}
}

// Postpones returns the rule with a name, if it postpones tasks.
func Postpones(name string) (*Rule, bool) {
	i := slices.IndexFunc(Rules, func(r Rule) bool { return r.Name == name && r.Then != "" })
	if i < 0 {
		return nil, false
	}
	return &Rules[i], true
}

// Postponing returns the names of the rules that postpone tasks.
func Postponing() []string {
	var names []string
	for i := range Rules {
		if Rules[i].Then != "" {
			names = append(names, Rules[i].Name)
		}
	}
	return names
}

// Ruled returns the parts of a spec that its rules use, and nothing else; nil if it has no rules.
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

// Unkeyed returns the spec without the rules that depend on the values a task is given.
func (s *Spec) Unkeyed() Spec {
	is := *s
	for i := range Rules {
		if Rules[i].Keys != nil {
			Rules[i].Copy(&is, &Spec{})
		}
	}
	return is
}

// validateRules refuses invalid rules.
func (s *Spec) validateRules() error {
	var all error
	for i := range Rules {
		if r := &Rules[i]; r.Has(s) {
			all = value.JoinFaults(all, r.Check(s))
		}
	}
	return all
}

// Limited tells whether limits must admit the tasks of a spec. A parent's limits apply to its
// children instead.
func (s *Spec) Limited() bool {
	return s != nil && (len(s.Concurrency) > 0 || len(s.Budget) > 0 || len(s.Rate) > 0) && !s.Parental()
}

// Guarded tells whether a breaker may keep the tasks of a spec from starting.
func (s *Spec) Guarded() bool { return s != nil && s.Breaker != nil }

// Windows returns the windows that a spec and its steps name, each once.
func (s *Spec) Windows() []string {
	var all []string
	s.whole(func(s *Spec) {
		if s.Window != "" && !slices.Contains(all, s.Window) {
			all = append(all, s.Window)
		}
	})
	return all
}
