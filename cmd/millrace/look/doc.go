// Package look shows tasks: what they are, were and wait for.
package look

import "millrace/cmd/millrace/reach"

// Commands are those that look at tasks, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
