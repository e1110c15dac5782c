// Package millrace is the Go API of Millrace, a task scheduler whose whole state is a log. So far it has no content of
// its own: programs submit and wait with package service/client, and run tasks with package worker.
package millrace
