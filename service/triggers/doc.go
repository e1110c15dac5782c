// Package triggers makes tasks of jobs because something has happened: another job's task has
// ended, a message has come from NATS, or a file is there.
//
// A trigger is a field of a job (on), so it is known to all servers. The id of the task follows from the job
// and from the event that says what happened, so two servers, or one that was killed, make one task. Its birth
// names the cause, which [view.Chain] follows.
package triggers
