// Package history shows the log as it is: fact by fact.
package history

import "millrace/cmd/millrace/reach"

// Commands are those about facts, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
