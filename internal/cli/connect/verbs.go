package connect

import (
	"slices"

	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// verbOf returns the request to the service by which a command does its work for users who may not read
// the log: viewers and submitters. Any other command, "", takes the role operator, and so do parts of
// these for which the service has no request.
func verbOf(command string) rights.Verb {
	for _, e := range answers.Endpoints() {
		if slices.Contains(e.Asked, command) {
			return e.Verb
		}
	}
	return ""
}
