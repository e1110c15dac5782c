package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"millrace/task"
	"millrace/task/value"
)

// Result says how a process ended.
type Result struct {
	// Exit is the exit code, or nil if there is none: it was ended by a signal, or never started.
	// For a program that is missing it is 127, for one that cannot be executed 126, as in a shell.
	Exit *int
	// Signal is the name of the signal that ended it, such as "SIGKILL", or empty.
	Signal string
	// Class is empty after an exit with 0, else [value.Exit] (another code), [value.Killed] (a
	// signal) or [value.System] (it could not be started). If Stopped is set, Class says only how
	// the process ended; [context.Cause] says why it had to.
	Class string
	// Message explains the end to people, and what to do. Empty after an exit with 0.
	Message string
	// Usage covers the process and those of its children that it waited for.
	Usage task.Usage
	// Stopped tells whether the process was asked or made to end because the context was done. It
	// is false if the process had already ended by then. It is also true if the context was done
	// before the start, which then did not take place.
	Stopped bool
	// Survivors is how many processes of the group were still alive when Run gave up on them, some
	// seconds after SIGKILL. Above 0 means that the kernel cannot end them now (a dead network
	// disk, say): the task's end cannot be confirmed.
	Survivors int
	// Stop is how long it took from the end of the process itself, or from the request to end,
	// until nothing of its group was left.
	Stop time.Duration
	// Unread is how many messages were dropped because the process did not read them.
	Unread int
}

func refused(message string) Result {
	return Result{Class: value.System, Message: message}
}

// unstarted is the result of a program that could not be started. It has the exit code that a shell
// would give: 127 if there is none, 126 if it cannot be executed.
func unstarted(c *Command, err error, message string) Result {
	r, code := refused(message), 0
	if dir, failed := os.Stat(c.Dir); c.Dir != "" && (failed != nil || !dir.IsDir()) {
		return r // it says nothing about the program
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		code = 127
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.ENOEXEC):
		code = 126
	default:
		return r
	}
	r.Exit = &code
	return r
}

// NotStarted is the result of a process that was stopped before it began, because ctx had ended.
func NotStarted(ctx context.Context) Result {
	return Result{Class: value.Killed, Stopped: true, Message: fmt.Sprintf("not started: %v", context.Cause(ctx))}
}

func ended(ctx context.Context, program string, status syscall.WaitStatus, usage syscall.Rusage, stopped bool) Result {
	r := Result{Stopped: stopped, Usage: task.Usage{
		UserTime:   value.Duration(usage.Utime.Nano()),
		SystemTime: value.Duration(usage.Stime.Nano()),
		MaxMemory:  maxMemory(&usage),
		Read:       usage.Inblock * blockSize,
		Written:    usage.Oublock * blockSize,
	}}
	how := ""
	if status.Signaled() {
		r.Class = value.Killed
		r.Signal = unix.SignalName(status.Signal())
		r.Usage.Signal = r.Signal
		how = "ended by " + r.Signal
	} else {
		code := status.ExitStatus()
		r.Exit = &code
		if code != 0 {
			r.Class = value.Exit
			how = fmt.Sprintf("exited with code %d", code)
		}
	}
	switch {
	case stopped && how == "":
		r.Message = fmt.Sprintf("stopped (%v): %s exited with code 0", context.Cause(ctx), program)
	case stopped:
		r.Message = fmt.Sprintf("stopped (%v): %s %s", context.Cause(ctx), program, how)
	case how != "":
		r.Message = fmt.Sprintf("%s %s: %s", program, how, r.advice())
	}
	return r
}

// seeOutput is the advice when nothing else is known about a failure.
const seeOutput = "see its last output"

// WithLastLine returns the message of a failure with the last line that the program printed; last
// is "" if it printed none.
func WithLastLine(message, last string) string {
	before, vague := strings.CutSuffix(message, seeOutput)
	switch {
	case last == "" && vague && strings.HasSuffix(before, ": "):
		return before + "it printed nothing"
	case last == "":
		return message
	case !vague:
		return message + "; its last line: " + last
	case strings.HasSuffix(before, "; "):
		return before + "its last line: " + last
	}
	return before + last
}

// maxMemory returns the largest resident set in bytes, or 0 if unknown. The kernel counts the
// memory of the starting process, too, since the two share it until the exec; so a figure up to our
// own means nothing.
func maxMemory(usage *syscall.Rusage) int64 {
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) == nil && usage.Maxrss <= own.Maxrss {
		return 0
	}
	return usage.Maxrss * maxrssUnit
}

// blockSize is the unit in which the kernel counts what goes to and from disks.
const blockSize = 512

// advice says what to do about an unexpected end.
func (r *Result) advice() string {
	switch {
	case r.Signal == "SIGKILL":
		return "not by Millrace; if memory ran out the kernel log says so, else ask who did it"
	case r.Signal != "":
		return "not by Millrace; " + seeOutput
	case *r.Exit == 126:
		return "a shell says so of a program that may not be executed; chmod +x it"
	case *r.Exit == 127:
		return "a shell says so of a program that it cannot find; install it on this node, or correct its name or PATH"
	case *r.Exit > 128 && *r.Exit < 128+65 && unix.SignalName(syscall.Signal(*r.Exit-128)) != "":
		return fmt.Sprintf("a shell says so of a program ended by %s; "+seeOutput, unix.SignalName(syscall.Signal(*r.Exit-128)))
	}
	return seeOutput
}
