// Package follow waits for tasks and shows what they print.
package follow

import "millrace/cmd/millrace/reach"

// Commands are those that follow tasks, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
