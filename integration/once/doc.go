// Package once holds tests of a promise: what is asked for is done once and in time, whatever asks:
// submissions, ticks, steps, rates and windows, under clocks that are wrong.
package once
