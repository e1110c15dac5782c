// Package bench measures Millrace against what is below it: tasks that do
// nothing against the bare loop of JetStream messages that a task cannot do
// without, processes against plain fork and exec. Both sides of a ratio come
// from the same run against the same server, in turn, so that a ratio survives a
// noisy machine where a figure does not.
package bench
