// Package job stores, shows and changes jobs, calendars, schedules, the files that they name, tokens, queues, nodes and
// limits: what an operator sets up.
package job

import "millrace/internal/cli/connect"

// Commands are the commands of this package, for one run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }
