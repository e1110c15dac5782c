// Package definitions keeps the definitions of operators, each on a chain of the log: jobs,
// schedules, calendars, tokens and the names of bundles. It stores, reads and removes them, reports
// changes to followers, and keeps the copies in the bucket equal to the log.
package definitions
