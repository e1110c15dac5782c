// Package job holds the contents of a job: what to run ([Spec], [Run], [Step]), where ([Place]),
// when to retry ([Retry]), under which rules ([Rules]) and at which ticks ([Schedule]). It
// validates these fields and derives what follows from their text alone. It does not decide what
// happens to tasks: package task does.
package job
