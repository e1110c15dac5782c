// Package bundles moves bundles of files to a server and back.
package bundles

import "millrace/cmd/millrace/reach"

// Commands are the commands of this package, for one run.
type Commands struct{ *reach.App }

// Of returns the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
