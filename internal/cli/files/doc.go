// Package files moves bundles of files to a server and back.
package files

import "millrace/internal/cli/connect"

// Commands are the commands of this package, for one run.
type Commands struct{ *connect.App }

// Of returns the commands of a run.
func Of(a *connect.App) *Commands { return &Commands{a} }
