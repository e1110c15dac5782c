// Package queue holds what operators say about a queue: that it is paused, how many of its tasks may
// run and wait, how often they start, and in which hours. Facts add up to a [Queue], and a command
// is decided as one about a task is.
package queue
