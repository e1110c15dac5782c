// Package quota decides which tasks their limits admit: places under a bound, starts of a rate,
// budgets of a period. The caller tells a [Limiter] of every change; the limiter decides from that
// alone, reads no clock and records nothing. Package task/limit defines the limits and their
// counters. A [Book] is what one scheduler knows of tasks under limits, with its decisions about them.
package quota
