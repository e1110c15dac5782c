// Package once holds tests of one promise: what is asked for is done once and in time, whether a
// submission, a tick, a step, a rate or a window asks, and under wrong clocks too.
package once
