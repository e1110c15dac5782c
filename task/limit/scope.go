package limit

import (
	"strings"
	"time"

	"millrace/task/value"
	"millrace/task/where"
)

// Scope names limits that share no counter with any others: what a job declares, what is declared for
// what runs in a queue without a job with the rate of that queue, or what has one key that is common to all jobs.
// Each counter is of one scope, which its name alone tells, and the admissions of each scope have a chain of their own. A
// task may stand under counters of several.
type Scope string

// ScopeOf is the scope of a counter: "job.<job>", "queue.<queue>", or "key.<mark>" for a key that is common to
// all jobs. It is one token or two of a subject, whatever the name.
func ScopeOf(counter string) Scope {
	if queue, ok := QueueOf(counter); ok {
		queue, _, _ = strings.Cut(queue, "/")
		return ScopeNamed("queue.", queue)
	}
	kind, rest, _ := strings.Cut(counter, ":")
	switch kind {
	case "job":
		return ScopeNamed("job.", rest)
	case "queue":
		return ScopeNamed("queue.", rest)
	case "rate":
		rest = withoutTime(rest)
	case "budget":
		_, rest, _ = strings.Cut(rest, ":") // the period
	}
	if strings.HasPrefix(rest, "/") {
		return Scope("key." + value.Mark(rest))
	}
	of, _, _ := strings.Cut(rest, "/")
	if queue, ok := strings.CutPrefix(of, "queue."); ok {
		return ScopeNamed("queue.", queue)
	}
	return ScopeNamed("job.", of)
}

// withoutTime is the name of a rate without the time that a second one with the same key has behind it.
func withoutTime(rate string) string {
	if at := strings.LastIndexByte(rate, '@'); at > 0 {
		if _, err := time.ParseDuration(rate[at+1:]); err == nil {
			return rate[:at]
		}
	}
	return rate
}

// ScopeNamed makes a scope of a name. A birth that was written past all checks may bear any; it
// must not keep others from being admitted.
func ScopeNamed(kind, name string) Scope {
	if where.ValidQueue(name) != nil {
		return Scope("key." + value.Mark(kind+name))
	}
	return Scope(kind + name)
}
