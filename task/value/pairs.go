package value

import (
	"fmt"
	"strings"
	"unicode"
)

// Pair is a name with its value.
type Pair struct{ Name, Value string }

// Quoted tells whether the value begins and ends with the same quote.
func (p Pair) Quoted() bool {
	n := len(p.Value)
	return n > 1 && (p.Value[0] == '"' || p.Value[0] == '\'') && p.Value[n-1] == p.Value[0]
}

// Pairs parses lines NAME=value, as docker's --env-file does. The value is everything behind the
// first =, up to the end of the line (LF or CRLF), as it stands: quotes, backslashes, dollar signs,
// # and spaces are part of it. Spaces before a name, empty lines, lines that begin with #, and a
// byte order mark at the beginning are left out. A name is not empty and holds no space. The pairs
// are in the order of the lines, and names may repeat. An error names the first line that is none
// of this, or that holds a zero byte, and never holds any of the text, which may be a password.
func Pairs(text string) (all []Pair, err error) {
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		n++
		line, ended := strings.CutSuffix(line, "\n")
		if ended {
			line = strings.TrimSuffix(line, "\r")
		}
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		spaced := strings.ContainsFunc(name, unicode.IsSpace)
		switch {
		case strings.ContainsRune(line, 0):
			return nil, fmt.Errorf("line %d holds a zero byte", n)
		case found && strings.HasPrefix(name, "export") && spaced:
			return nil, fmt.Errorf("line %d begins with export: want lines NAME=value, without it", n)
		case !found || name == "" || spaced:
			return nil, fmt.Errorf("line %d cannot be read: want lines NAME=value, without spaces before the =, and each value on one line", n)
		}
		all = append(all, Pair{name, value})
	}
	return all, nil
}
