package wording

import (
	"cmp"
	"fmt"
	"strings"

	"millrace/internal/cli/term"
	"millrace/task"
)

// StepsText names steps of a function, with what each gave.
func StepsText(steps []task.Step) string {
	var parts []string
	for i := range steps {
		parts = append(parts, StepText(&steps[i]))
	}
	return strings.Join(parts, "; ")
}

// StepText names a step of a function, with what it gave.
func StepText(s *task.Step) string {
	text := s.Kind
	if s.Name != "" {
		text += " " + s.Name
	}
	switch {
	case s.Open:
		return fmt.Sprintf("%s failed in try %d, and is tried again: %s", text, s.Tries, term.Cut(s.Error, 200))
	case s.Error != "":
		return fmt.Sprintf("%s failed: %s", text, term.Cut(s.Error, 200))
	}
	return text + cmp.Or(gave(s), " is done")
}

func gave(s *task.Step) string {
	if len(s.Result) == 0 {
		return ""
	}
	return " gave " + term.Cut(string(s.Result), 80)
}
