// Package definition holds the rules of named definitions (jobs, schedules, calendars, bundles,
// tokens) as pure functions: the effect of each change, which change may follow, and when to
// rewrite a copy. Decisions on the ticks of a schedule are facts about its definition, too. It does
// not parse the definitions.
package definition
