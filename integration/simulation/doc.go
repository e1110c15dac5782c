// Package simulation plays histories: clients, workers and schedulers run their real code on an
// in-memory log and a clock that only the test moves. Meanwhile answers are lost, writes arrive
// late, processes are killed and stopped, and strangers write on the chains. After every step the
// package reads the promises off the log again, without the rules that are under test.
//
// Every actor is a coroutine: it stops before each call that it makes on the log, and only the
// seeded simulator lets one of them continue. So a seed determines a history, and a history that
// breaks a promise can be played again.
//
// The package has only tests. They need no server, and no real time passes:
//
//	go test ./integration/simulation                             # 100 histories
//	go test ./integration/simulation -histories 100000
//	go test ./integration/simulation -run TestSimulation -v -seed 7  # one, with its trace
package simulation
