// Package nodes shows the nodes and gives them orders.
package nodes

import "millrace/cmd/millrace/reach"

// Commands are the commands of this package, for one run.
type Commands struct{ *reach.App }

// Of returns the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
