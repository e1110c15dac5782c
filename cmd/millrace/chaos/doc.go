// Package chaos breaks a Millrace of its own on purpose, while it works, and
// tells from its log what came of it: whether a promise was broken, and how long
// it took to notice a fault, to take work over and to come back.
//
// What is broken, and when, is a pure function of a seed ([Plan]); what came of
// it is a pure function of the log, of the acknowledged submissions and of the
// times of the faults ([Measure], judge). Between the two stands [Run], which
// starts the processes, each behind a proxy of its own, and ends them.
package chaos
