// Package bench measures Millrace against what is below it: tasks that do nothing against the bare
// loop of JetStream messages that no task can do without, processes against plain fork and exec.
// Both sides of a ratio come from the same run against the same server, in turn, so a ratio stays
// meaningful on a noisy machine where a single figure does not.
//
// The floor is the least that JetStream can do for a task: publish its birth, pull it, publish
// a claim and an end by compare-and-set, acknowledge. It has no rules and keeps no state;
// benchmarks compare Millrace with it. It is as lean as we can write it: callbacks throughout, no
// goroutine per task, and no allocation per task that can be avoided.
package bench
