// Package chaos breaks a Millrace of its own on purpose, while it works, and judges by its log what
// followed: whether a promise was broken, and how long it took to notice a fault, to take work over
// and to recover.
//
// The faults and their times are a pure function of a seed ([Plan]); the result is a pure function
// of the log, of the acknowledged submissions and of the times of the faults ([Measure], judge). In
// between, [Run] starts the processes, each behind a proxy of its own, and ends them.
//
// A [Proxy] is a TCP proxy that misbehaves on request: it cuts connections, delays what they
// carry, slows them down, or keeps one end alive when the other is gone. It does not interpret what
// it carries.
package chaos
