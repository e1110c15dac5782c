// Package certify holds what millrace verify says of a log.
package certify

import "millrace/cmd/millrace/reach"

// Commands are those that say whether promises were kept, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
