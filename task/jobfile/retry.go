package jobfile

import (
	"slices"
	"strings"

	"millrace/task/breaker"
	"millrace/task/job"
)

// failure reads an entry of retry.on: a class, or exit codes.
func (r *reader) failure(v entry) string {
	if v.kind != text || !strings.Contains(v.text, "=") {
		return r.oneOf(v, job.Classes)
	}
	if err := job.ValidFailure(v.text); err != nil {
		r.refuse(v, "%v", err)
	}
	return v.text
}

// yes reads true or false.
func (r *reader) yes(v entry) bool {
	if v.kind != boolean {
		r.want(v, "true or false")
		return false
	}
	return slices.Contains([]string{"true", "True", "TRUE"}, v.text)
}

func (r *reader) breaker(v entry) *breaker.Breaker {
	var b breaker.Breaker
	r.object(v, "a mapping such as {failures: 5, within: 1m}", r.fields(&b, setters{"on_open": r.words(&b.OnOpen, breaker.OnOpens)}))
	return &b
}
