// Package embed runs a NATS server inside this process: with a data directory that no other process
// uses, a credential of its own, and a guard that restarts it after a full disk.
//
// It is for `millrace dev` and `millrace server`, and for tests. Only this package links the NATS
// server, so programs that only submit or run tasks do not carry one.
package embed
