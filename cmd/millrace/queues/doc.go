// Package queues shows queues and the limits of work, and changes what of a queue may run.
package queues

import "millrace/cmd/millrace/reach"

// Commands are those about queues and limits, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
