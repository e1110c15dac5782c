package files

import (
	"fmt"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// IgnoreFile is the file in a pushed folder that lists what to leave out, in the form of a
// .gitignore.
const IgnoreFile = ".millraceignore"

// Ignore says what to leave out of a bundle. The zero value leaves out nothing.
type Ignore struct{ rules []rule }

type rule struct {
	pattern string
	dirOnly bool
	keep    bool
}

// ParseIgnore parses lines of a .gitignore: a pattern without a slash matches at any depth, one
// with a slash from the root, ** matches any directories, a final slash matches directories only,
// and ! re-includes. The last matching rule counts, and nothing below a directory that is left out
// can be re-included. The error names the line.
func ParseIgnore(lines ...string) (Ignore, error) {
	var ig Ignore
	for _, line := range lines {
		p := strings.TrimRight(line, " \t\r")
		if p == "" || p[0] == '#' {
			continue
		}
		var r rule
		if p[0] == '!' {
			r.keep, p = true, p[1:]
		}
		p = strings.TrimPrefix(p, `\`) // of \# and \!
		if strings.HasSuffix(p, "/") {
			r.dirOnly, p = true, strings.TrimRight(p, "/")
		}
		switch anchored := strings.Contains(p, "/"); {
		case anchored:
			p = strings.TrimPrefix(p, "/")
		default:
			p = "**/" + p
		}
		if r.pattern = p; p == "" || p == "**/" || !doublestar.ValidatePattern(p) {
			return Ignore{}, fmt.Errorf("the pattern %q cannot be understood", line)
		}
		ig.rules = append(ig.rules, r)
	}
	return ig, nil
}

// Match tells whether a path is left out. The caller asks for the directories above it first.
func (ig Ignore) Match(path string, dir bool) bool {
	out := false
	for _, r := range ig.rules {
		if (!r.dirOnly || dir) && doublestar.MatchUnvalidated(r.pattern, path) {
			out = !r.keep
		}
	}
	return out
}

// Glob tells whether a path matches one of some patterns, in which ** matches any directories. A
// pattern that names a directory matches everything below it.
func Glob(patterns []string, path string) bool {
	for _, p := range patterns {
		p = strings.TrimSuffix(strings.TrimPrefix(p, "./"), "/")
		if doublestar.MatchUnvalidated(p, path) || doublestar.MatchUnvalidated(p+"/**", path) {
			return true
		}
	}
	return false
}
