// Package definition holds what is defined under a name (jobs, schedules, calendars, bundles, tokens) as pure functions:
// what each change makes of it, which change may follow, when a copy of it is written anew. What was decided on
// the ticks of a schedule are facts about a definition, too.
package definition
