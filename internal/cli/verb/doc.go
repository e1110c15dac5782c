// Package verb has the commands that make tasks, and change them. Most are part of the service's
// entries: package answers declares how a verb is typed, and this package does what all such commands
// share. They find what their arguments name, ask the user, act within a time, go on after a failure
// and print. What they do is what the service does, with the user's own rights. Those that do not fit
// are here beside them: run, copy, plan and dlq.
package verb

import "millrace/internal/cli/connect"

// Commands are the commands of this package, for one run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }
