// Package programs holds tests of a promise: programs of tasks are heard, and go where they can
// run.
package programs
