// Package turns decides which of several schedulers goes first with a subject, tracks what a
// scheduler has left to others, and tells whether a scheduler is fit to go first. It only saves
// repeated work: the log's compare-and-set keeps decisions correct without it.
package turns
