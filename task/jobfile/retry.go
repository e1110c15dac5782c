package jobfile

import (
	"slices"
	"strings"

	"millrace/task"
)

// failure reads an entry of retry.on: a class, or exit codes.
func (r *reader) failure(v value) string {
	if v.kind != text || !strings.Contains(v.text, "=") {
		return r.oneOf(v, task.Classes)
	}
	if err := task.ValidFailure(v.text); err != nil {
		r.refuse(v, "%v", err)
	}
	return v.text
}

// yes reads what is true or false.
func (r *reader) yes(v value) bool {
	if v.kind != boolean {
		r.want(v, "true or false")
		return false
	}
	return slices.Contains([]string{"true", "True", "TRUE"}, v.text)
}

func (r *reader) breaker(v value) *task.Breaker {
	var b task.Breaker
	r.object(v, "a mapping such as {failures: 5, within: 1m}", setters{
		"failures":  func(v value) { b.Failures = r.whole(v) },
		"within":    func(v value) { b.Within = r.duration(v) },
		"cooldown":  func(v value) { b.Cooldown = r.duration(v) },
		"half_open": func(v value) { b.HalfOpen = r.whole(v) },
		"on_open":   func(v value) { b.OnOpen = r.oneOf(v, task.OnOpens) },
	})
	return &b
}
