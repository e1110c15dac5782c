// Package scheduler keeps the deadlines: it finds tasks and nodes of which
// somebody should have heard by now and records what follows.
//
// It holds no truth. What it believes to be late it reads from a read model; it
// reads the task from the log again before it decides, and the decision is
// recorded by compare-and-set. So any number of schedulers can run at once, each
// can die at any moment, and while there is none, work that is offered goes on.
package scheduler
