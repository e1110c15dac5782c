// Package process runs the attempts of tasks as programs: it prepares the place of each, starts the
// program there through package child, handles its output, and turns its end into an outcome.
//
// A task may ask that its attempt outlive the worker. A second process of this program, the shim,
// then stays beside the attempt ([ShimMain]) and writes down its output until a worker attends it
// again.
package process
