// Package nodes shows the nodes and gives them orders.
package nodes

import "millrace/cmd/millrace/reach"

// Commands are those about nodes, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
