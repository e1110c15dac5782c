package output

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// Match selects lines. The zero value selects all.
type Match struct {
	// Text is a part of the line, compared without regard to case.
	Text string
	// Level selects entries at least as grave: one of [Levels]. Lines on stderr count as error.
	Level string
}

// Levels returns the levels of log entries, the gravest last.
func Levels() []string { return []string{"debug", "info", "warn", "error"} }

// Validate refuses an unknown level.
func (m Match) Validate() error {
	if m.Level != "" && !slices.Contains(Levels(), m.Level) {
		return fmt.Errorf("level is %q, want %s", m.Level, strings.Join(Levels(), ", "))
	}
	return nil
}

// Line tells whether a line matches.
func (m Match) Line(l *Line) bool {
	if m.Level != "" && !slices.Contains(m.levels(), levelOf(l)) {
		return false
	}
	return m.Text == "" || strings.Contains(strings.ToLower(l.Text), strings.ToLower(m.Text))
}

// levels are the sufficiently grave levels.
func (m Match) levels() []string { return Levels()[slices.Index(Levels(), m.Level):] }

func levelOf(l *Line) string {
	if l.Stream == Stderr {
		return "error"
	}
	return l.Level
}

// May tells whether a batch may hold a matching line, without decoding it: body is the batch as
// [Lines.AppendJSON] writes it. A search reads ten times as many lines in the same time.
func (m Match) May(body []byte) bool {
	if m.Level != "" && !bytes.Contains(body, []byte(`"stream":"stderr"`)) &&
		!slices.ContainsFunc(m.levels(), func(level string) bool { return bytes.Contains(body, []byte(`"level":"`+level+`"`)) }) {
		return false
	}
	return strings.ContainsFunc(m.Text, escaped) || bytes.Contains(bytes.ToLower(body), []byte(strings.ToLower(m.Text)))
}

// escaped tells whether JSON may spell a character differently.
func escaped(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) }
