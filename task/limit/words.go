package limit

import (
	"fmt"
	"strings"

	"millrace/task/value"
)

// Words describes in words what a limit bounds, by its name; see [Counter.Name]. It is "" for an
// invalid name.
func Words(name string) string {
	if queue, ok := QueueOf(name); ok {
		return "starts in queue " + queue + ", whatever runs there"
	}
	kind, rest, _ := strings.Cut(name, ":")
	what := map[string]string{"job": "tasks under way", "queue": "tasks under way", "key": "tasks under way", "rate": "starts"}[kind]
	if p, ok := PeriodOf(name); ok {
		_, rest, _ = strings.Cut(rest, ":")
		what = fmt.Sprintf("starts and run time in a %s (%s)", p.per, p.zone)
	}
	if what == "" || rest == "" {
		return ""
	}
	scope, key, keyed := strings.Cut(rest, "/")
	scope, _, _ = strings.Cut(scope, "@") // the period of a second rate
	queue, jobless := strings.CutPrefix(scope, "queue.")
	if kind == "queue" {
		queue, jobless = scope, true
	}
	switch {
	case jobless:
		what += " without a job in queue " + queue
	case scope == "":
		return what + " of all jobs with the key /" + key
	default:
		what += " of job " + scope
	}
	if keyed {
		what += " with the key " + key
	}
	return what
}

// Words describes in words what the bound allows.
func (p PerNode) Words() string { return atMost(p.Max, p.Key) }

func atMost(n int, key string) string {
	if key == "" {
		return fmt.Sprintf("at most %d of them", n)
	}
	return fmt.Sprintf("at most %d with the key %s", n, key)
}

// Words describes in words what the limit allows.
func (c Concurrency) Words() string {
	text := atMost(c.Max, c.Key) + " at once"
	if c.OnLimit != "" && c.OnLimit != Wait {
		text += ", otherwise " + c.OnLimit
	}
	return text
}

// Words describes in words what the rate allows.
func (r Rate) Words() string {
	text := fmt.Sprintf("%d in %v", r.Limit, value.Duration(r.Within()))
	if r.Burst > 1 {
		text += fmt.Sprintf(", %d at once", r.Burst)
	}
	if r.Key != "" {
		text += " with the key " + r.Key
	}
	return text
}
