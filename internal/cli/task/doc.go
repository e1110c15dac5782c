// Package task shows tasks: their state, their past, what they wait for, and what they print and
// produce.
package task

import "millrace/internal/cli/connect"

// Commands are the commands of this package, for one run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }
