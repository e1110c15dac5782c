// Package follow waits for tasks and shows what they print.
package follow

import "millrace/cmd/millrace/reach"

// Commands are the commands of this package, for one run.
type Commands struct{ *reach.App }

// Of returns the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
