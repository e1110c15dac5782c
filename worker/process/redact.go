package process

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"millrace/ipc"
	"millrace/task/value"
)

// Redacted is written in place of a secret.
const Redacted = "[secret]"

const (
	// minRedacted is the length of the shortest secret that is redacted, in bytes: a shorter one
	// would match everywhere.
	minRedacted = 4
	// minRedactedLine is the same for one line of a secret of several lines.
	minRedactedLine = 8
)

// redactor replaces secrets in the output of a process. A nil redactor replaces nothing.
type redactor struct {
	plain *strings.Replacer
	json  *strings.Replacer // for text within JSON, where a secret may be escaped
	find  [][]byte          // all spellings, for a quick check whether there is any
}

// newRedactor returns nil if there is nothing to look for.
func newRedactor(secrets []string) *redactor {
	var values []string
	for _, s := range secrets {
		if len(s) >= minRedacted {
			values = append(values, s)
		}
		if strings.Contains(s, "\n") { // its lines arrive one by one
			for line := range strings.Lines(s) {
				if line = strings.TrimRight(line, "\r\n"); len(line) >= minRedactedLine {
					values = append(values, line)
				}
			}
		}
	}
	if len(values) == 0 {
		return nil
	}
	// The longest first: one may be part of another.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	r := &redactor{}
	var plain, escaped []string
	for _, v := range values {
		plain = append(plain, v, Redacted)
		for _, e := range spellings(v) {
			escaped = append(escaped, e, Redacted)
			r.find = append(r.find, []byte(e))
		}
	}
	r.plain, r.json = strings.NewReplacer(plain...), strings.NewReplacer(escaped...)
	return r
}

// spellings returns the forms that a value takes within a JSON text.
func spellings(v string) []string {
	all := []string{v}
	quoted, err := json.Marshal(v) // escapes <, > and &
	if err == nil {
		all = append(all, strings.Trim(string(quoted), `"`))
	}
	if quoted, err = value.JSON(v); err == nil {
		all = append(all, strings.Trim(string(quoted), `"`))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// finds tells whether there may be a secret in a text.
func (r *redactor) finds(text []byte) bool {
	return r != nil && slices.ContainsFunc(r.find, func(f []byte) bool { return bytes.Contains(text, f) })
}

// line is text without secrets.
func (r *redactor) line(text string) string {
	if r == nil {
		return text
	}
	return r.plain.Replace(text)
}

// lines returns l without secrets. Several lines are redacted one by one, as if they had arrived
// so: a secret of several lines must not reduce their number.
func (r *redactor) lines(l ipc.Line) ipc.Line {
	if !r.finds(l.Text) {
		return l
	}
	clean := make([]byte, 0, len(l.Text)+1)
	l.Each(func(one ipc.Line) {
		clean = append(append(clean, r.plain.Replace(string(one.Text))...), '\n')
	})
	l.Text = clean[:len(clean)-1]
	return l
}

// payload returns JSON without secrets. It reports false if the result would not be JSON: a secret
// was more than part of a string.
func (r *redactor) payload(payload json.RawMessage) (json.RawMessage, bool) {
	if !r.finds(payload) {
		return payload, true
	}
	clean := json.RawMessage(r.json.Replace(string(payload)))
	return clean, json.Valid(clean)
}
