// Package whatif repeats every decision of a log under other settings, with the rules of package
// verify, and reports what would have been different, when, and the consequences. It does not guess
// how the world would have reacted: it reports from where on that is unknown, and for which tasks.
//
// A [Player] plays the tasks from such a moment on, with a model of the durations of attempts, and
// reports how far the model is from the recorded times.
//
// A [Simulation] plays tasks in simulated time. The real scheduler and the rules by which workers
// claim, on a log in memory, decide what becomes of them; the clock moves from one event to the
// next. What people and machines do, and how long attempts run, is a script of the caller.
//
// The package reads no clock, does no I/O and writes nothing.
package whatif
