// Package simulate plays tasks in simulated time. The real scheduler and the rules by which workers
// claim, on a log in memory, decide what becomes of them; the clock moves from one event to the
// next. What people and machines do, and how long attempts run, is a script of the caller.
package simulate
