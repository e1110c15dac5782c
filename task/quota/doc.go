// Package quota decides which tasks their limits admit: places under a bound, starts of a rate, budgets of a
// period. It is told of every change and decides, as pure functions do, from what it was told ([Limiter]). What
// a limit is, and by which counters it counts, package task says.
package quota
