package crawler

import (
	"cmp"
	"strings"
)

// robots holds the rules of a robots.txt (RFC 9309) that apply to this program.
// The zero value allows everything.
type robots []rule

type rule struct {
	allow bool
	// pattern is the beginning of a path, escaped; * stands for any text, and $ at the end for the
	// end.
	pattern string
}

// parseRobots reads the rules for the product token agent: those of all groups
// that name it, or if none does, those of all groups for "*".
func parseRobots(text, agent string) robots {
	var own, anyone robots
	named := false // a group names agent
	var forAgent, forAnyone, inRules bool
	for line := range strings.Lines(strings.TrimPrefix(text, "\uFEFF")) {
		line, _, _ = strings.Cut(line, "#")
		key, value, found := strings.Cut(line, ":")
		if !found {
			continue
		}
		value = strings.TrimSpace(value)
		switch key := strings.ToLower(strings.TrimSpace(key)); key {
		case "user-agent":
			if inRules { // the line begins another group
				forAgent, forAnyone, inRules = false, false, false
			}
			forAgent = forAgent || strings.EqualFold(token(value), agent)
			forAnyone = forAnyone || value == "*"
			named = named || forAgent
		case "allow", "disallow":
			inRules = true
			if value == "" {
				continue // an empty rule means nothing
			}
			r := rule{key == "allow", escape(value)}
			if forAgent {
				own = append(own, r)
			}
			if forAnyone {
				anyone = append(anyone, r)
			}
		}
	}
	if named {
		return own
	}
	return anyone
}

// token is the product token that begins a user agent's name, as in "Crawl/1.0 (x)".
func token(name string) string {
	if end := strings.IndexAny(name, "/ \t"); end >= 0 {
		return name[:end]
	}
	return name
}

// allows tells whether a path with its query, escaped, may be fetched: the longest matching rule
// decides, and of two equally long ones the one that allows.
func (r robots) allows(path string) bool {
	best := rule{allow: true}
	for _, rule := range r {
		if !matches(rule.pattern, path) {
			continue
		}
		switch longer := cmp.Compare(len(rule.pattern), len(best.pattern)); {
		case longer > 0:
			best = rule
		case longer == 0:
			best.allow = best.allow || rule.allow
		}
	}
	return best.allow
}

// matches takes time linear in the path for each * of the pattern, whatever a site writes into its
// rules.
func matches(pattern, path string) bool {
	pattern, toEnd := strings.CutSuffix(pattern, "$")
	first, rest, wild := strings.Cut(pattern, "*")
	path, ok := strings.CutPrefix(path, first)
	for ok && wild {
		first, rest, wild = strings.Cut(rest, "*")
		if !wild && toEnd {
			return strings.HasSuffix(path, first)
		}
		_, path, ok = strings.Cut(path, first)
	}
	return ok && (!toEnd || path == "")
}
