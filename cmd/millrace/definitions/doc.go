// Package definitions stores, shows and changes jobs, calendars, schedules and tokens.
package definitions

import "millrace/cmd/millrace/reach"

// Commands are those about definitions, of one run.
type Commands struct{ *reach.App }

// Of are the commands of a run.
func Of(a *reach.App) *Commands { return &Commands{a} }
