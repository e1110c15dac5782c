// Package ticks checks a log against the promises about schedules: a tick gets at most one decision
// and one task (I-6), and repeating each decision on a tick gives the same result (I-11).
package ticks
