// Package scheduler enforces deadlines: it finds tasks and nodes whose next step is overdue, and
// records what follows.
//
// It holds no truth of its own. A read model tells it what may be late. It then reads the task from
// the log, decides, and records the decision by compare-and-set. So any number of schedulers can
// run at once, and each can die at any moment. While none runs, offered work continues. The
// scheduler starts no task itself: workers do.
//
// It decides which of several schedulers goes first with a subject, tracks what a
// scheduler has left to others, and tells whether a scheduler is fit to go first. It only saves
// repeated work: the log's compare-and-set keeps decisions correct without it.
//
// It drops the output and records of ended tasks when their time is over. That time
// depends on the end of the task; the job sets it, or else the settings of a server. The package
// holds no truth and needs no leader: it replaces the dropped data by a message that says so, with
// a count, and a second keeper that finds the message does nothing. It does not touch the log.
package scheduler
