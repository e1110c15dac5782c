// Package process runs the child processes of tasks, each with whatever it
// starts, and leaves nothing behind.
//
// Every child leads a process group of its own. [Runner.Run] returns when the
// child has been waited for and its group is gone; a child that does not stop
// when asked is killed. Should the worker itself vanish, however that came
// about, the kernel kills its children, and a guard process kills what those
// had started ([GuardMain]).
//
// A process that leaves its group (a daemon, setsid) outlives the task that
// started it, but not the worker. One that also clears its environment escapes
// the guard; only a control group could hold it, and this package makes none.
//
// The package judges nothing: which task runs, how often, what its messages
// mean and what becomes of its result are its caller's concern. It is the only
// one of the module that starts processes. It is made for Linux; elsewhere it
// runs processes, but nothing outlasts the worker to clean up after it.
package process
