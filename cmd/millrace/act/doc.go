// Package act changes tasks: cancels, retries, releases and dismisses them.
package act

import "millrace/cmd/millrace/reach"

// Commands are those that change tasks, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
