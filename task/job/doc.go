// Package job has what a job says: what to run ([Spec], [Run], [Step]), where ([Place]), when again
// ([Retry]), under which rules ([Rules]) and at which ticks ([Schedule]). It says what of that can be, and
// what follows from a text alone. What becomes of tasks says package task.
package job
