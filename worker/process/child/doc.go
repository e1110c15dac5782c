// Package child runs the child processes of tasks, each with everything that it starts, and leaves
// nothing behind.
//
// Every child leads a process group of its own. [Runner.Run] returns when the child has been waited
// for and its group is gone; a child that does not stop when asked is killed. If the worker itself
// dies, for whatever reason, the kernel kills its children, and a guard process kills what those
// had started ([GuardMain]).
//
// A process that leaves its group (a daemon, setsid) outlives the task that started it, but not the
// worker. The guard knows processes by a variable of their environment. A process that has cleared
// it outlives a killed worker, unless a process of its group still has the variable. Only a control
// group could hold every process, and the guard uses none.
//
// A child's standard input stays open, and empty until a CANCEL message comes: a program that reads
// it to the end waits for ever.
//
// The package decides nothing about tasks: which one runs, how often, what its messages mean and
// what becomes of its result are the caller's concern. It is the only package of the module that
// starts processes. It is made for Linux; elsewhere it runs processes, but no guard cleans up after
// a killed worker.
package child
