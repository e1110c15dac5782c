// Package queue shows queues and limits, and changes how many tasks of a queue may run.
package queue

import "millrace/internal/cli/connect"

// Commands are the commands of this package, for one run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }
