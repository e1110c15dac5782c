// Package queue holds the settings that operators give a queue: its pause, how many of its tasks
// may run and wait, how often they start, and in which hours. Facts add up to a [Queue], and
// commands are decided as they are for tasks. It does not hold or order the tasks.
package queue
