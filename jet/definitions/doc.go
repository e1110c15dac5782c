// Package definitions keeps what people define, each on a chain of the log: jobs, schedules, calendars, tokens and the names of bundles.
// It stores, reads and removes them, tells who follows what has changed, and keeps the copies for people as the log has them.
package definitions
