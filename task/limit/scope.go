package limit

import (
	"strings"
	"time"

	"millrace/task/placement"
	"millrace/task/value"
)

// Scope names a group of limits that share no counter with other scopes: the limits of a job; the
// limits of tasks without a job in a queue, with the queue's rate; or one key common to all jobs.
// The name of a counter determines its scope. Each scope has its own chain of admissions. A task
// may have counters in several scopes.
type Scope string

// ScopeOf returns the scope of a counter: "job.<job>", "queue.<queue>", or "key.<mark>" for a key
// common to all jobs. It is one or two tokens of a subject for any name.
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
		rest = WithoutTime(rest)
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

// WithoutTime removes the period that the name of a second rate with the same key ends with.
func WithoutTime(rate string) string {
	if at := strings.LastIndexByte(rate, '@'); at > 0 {
		if _, err := time.ParseDuration(rate[at+1:]); err == nil {
			return rate[:at]
		}
	}
	return rate
}

// ScopeNamed makes a scope from a name. A birth that bypassed all checks may have any name; it must
// not keep other tasks from being admitted.
func ScopeNamed(kind, name string) Scope {
	if placement.ValidQueue(name) != nil {
		return Scope("key." + value.Mark(kind+name))
	}
	return Scope(kind + name)
}
