// Package scheduler enforces deadlines: it finds tasks and nodes whose next step is overdue, and
// records what follows.
//
// It holds no truth of its own. A read model tells it what may be late. It then reads the task from
// the log, decides, and records the decision by compare-and-set. So any number of schedulers can
// run at once, and each can die at any moment. While none runs, offered work continues. The
// scheduler starts no task itself: workers do.
package scheduler
