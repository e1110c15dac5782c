// Package embed runs a NATS server inside this process: with a data directory that no other process
// uses, a credential of its own, and a guard that starts it again after a full disk.
//
// It is for `millrace dev` and `millrace server`, and for tests. It alone links the NATS server, so that
// programs that only submit tasks, or run them, do not carry one.
package embed
