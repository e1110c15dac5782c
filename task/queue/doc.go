// Package queue holds the settings that operators give a queue: its pause, how many of its tasks
// may run and wait, how often they start, in which hours, and who is told of them. Facts add up to a
// [Queue], and commands are decided as they are for tasks. It does not hold or order the tasks.
package queue
