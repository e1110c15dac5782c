// Package child runs the child processes of tasks, each with whatever it
// starts, and leaves nothing behind.
//
// Every child leads a process group of its own. [Runner.Run] returns when the
// child has been waited for and its group is gone; a child that does not stop
// when asked is killed. Should the worker itself vanish, however that came
// about, the kernel kills its children, and a guard process kills what those
// had started ([GuardMain]).
//
// A process that leaves its group (a daemon, setsid) outlives the task that
// started it, but not the worker. The guard knows processes by a variable of
// their environment: one that has cleared it, and shares its group with none
// that has not, outlives a killed worker. Only a control group could hold all,
// and this package makes none.
//
// A child's standard input stays open, and empty until a CANCEL message comes:
// a program that reads it to the end waits for ever.
//
// The package judges nothing: which task runs, how often, what its messages
// mean and what becomes of its result are its caller's concern. It is the only
// one of the module that starts processes. It is made for Linux; elsewhere it
// runs processes, but nothing outlasts the worker to clean up after it.
package child
