package findings

import (
	"fmt"
	"slices"
	"strings"

	"millrace/task/value"
)

// Rule is one of the promises I-1 to I-11.
type Rule int

// The promises. Each check documents what its promise means for a log alone.
const (
	Deadlines   Rule = iota + 1 // I-1
	OneEnd                      // I-2
	OneEpoch                    // I-3
	Limits                      // I-4
	ExitSeen                    // I-5
	OneTask                     // I-6
	CauseFirst                  // I-7
	ReadModel                   // I-8
	Survival                    // I-9
	NoScheduler                 // I-10
	Decisions                   // I-11

	end
)

var promises = [end]struct{ text, things string }{
	Deadlines:   {"no task that has not ended is past its deadline", "deadlines"},
	OneEnd:      {"every accepted submission reaches exactly one end", "tasks"},
	OneEpoch:    {"no two live epochs of a task are accepted, and at most one result is", "epochs"},
	Limits:      {"a limit is never exceeded by accepted epochs", "epochs"},
	ExitSeen:    {"cancelled implies that the exit was seen", "cancelled lives"},
	OneTask:     {"a schedule makes one task per planned run", "ticks"},
	CauseFirst:  {"cause precedes effect", "references"},
	ReadModel:   {"the read model equals the fold", "rows"},
	Survival:    {"acknowledged submissions survive", "submissions"},
	NoScheduler: {"nothing waits for a scheduler that is not needed", "offers"},
	Decisions:   {"every decision can be made again", "decisions"},
}

// Rules lists all rules.
func Rules() []Rule {
	all := make([]Rule, 0, end-1)
	for r := Rule(1); r < end; r++ {
		all = append(all, r)
	}
	return all
}

func (r Rule) String() string { return fmt.Sprintf("I-%d", int(r)) }

// Promise is the rule in words.
func (r Rule) Promise() string { return promises[r].text }

// MarshalText writes the rule as its name.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (r *Rule) UnmarshalText(text []byte) (err error) {
	*r, err = ParseRule(string(text))
	return err
}

// ParseRule parses I-1 to I-11, in either case. The error lists the rules.
func ParseRule(s string) (Rule, error) {
	all := Rules()
	if i := slices.IndexFunc(all, func(r Rule) bool { return strings.EqualFold(s, r.String()) }); i >= 0 {
		return all[i], nil
	}
	return 0, fmt.Errorf("there is no rule %q; there are %s", s, value.List(all))
}
