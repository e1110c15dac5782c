package jobfile

import (
	"slices"
	"strings"

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
