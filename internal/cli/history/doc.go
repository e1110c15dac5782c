// Package history shows the log fact by fact, verifies it, steps through it and writes incident files.
//
// It holds the command that steps through the past.
//
// The full screen for stepping through a log has three parts: a [Model], which
// keys and results of commands change; [View], which draws it; and [Run], which carries keys,
// commands and pictures between a terminal and a session. All content comes from the session: the
// screen holds no rules.
//
// It holds the commands for incident files: files with a span of the log, to be taken
// elsewhere.
package history

import "millrace/internal/cli/connect"

// Commands are the commands of this package, for one run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }
