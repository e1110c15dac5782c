// Package bench measures Millrace against what is below it: tasks that do nothing against the bare
// loop of JetStream messages that no task can do without, processes against plain fork and exec.
// Both sides of a ratio come from the same run against the same server, in turn, so a ratio stays
// meaningful on a noisy machine where a single figure does not.
package bench
