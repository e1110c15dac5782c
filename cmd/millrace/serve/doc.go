// Package serve holds the processes that stay: millrace dev, server and worker.
package serve

import "millrace/cmd/millrace/reach"

// Commands are those that start processes, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
