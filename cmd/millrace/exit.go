package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/files/tree"
	"millrace/jet"
	"millrace/jet/embed"
	"millrace/node"
	"millrace/task"
	"millrace/task/schedule"
	"millrace/view"
)

// Exit codes; the page "millrace help exit-codes" explains them.
const (
	exitOK       = 0
	exitError    = 1
	exitUsage    = 2
	exitNotFound = 3
	exitNoServer = 4
	exitRefused  = 5
	exitTimeout  = 6
	exitMute     = 7

	// What a task that was waited for can come to, beside its own code; the
	// numbers are those of timeout(1) and of a shell.
	exitTaskTimeout  = 124
	exitTaskAbnormal = 125
	exitInterrupted  = 130
)

const exitCodesPage = `Every command of millrace ends with one of these codes:

  0    it did what was asked
  1    an error that has no code of its own
  2    the command line, the settings or the input cannot be meant like that
  3    what was asked for does not exist
  4    no NATS server, or no millrace server, answered
  5    refused: the task, node, queue, job or directory is not in a state that allows it,
       or this user of the NATS server may not do it
  6    the time given to wait ran out; of a node, the reason was printed
  7    the log takes no messages, mostly because a disk or a storage limit is full; "server" and
       "dev" end with it if their NATS server does not come back though there is room

"run --wait", "run --follow", "task wait" and "task retry --wait" end as the task did:

  0    finished
  1-255  error: the exit code of its process; 1 if it has none
  124  error: it ran longer than its timeout
  125  abnormal: it was not started in time, or its node was lost too often
  130  cancelled

Of several tasks, the first one that did not finish decides. Ctrl-C while
waiting ends with 130; the task goes on.

"task diff" ends as diff does: 0 without a difference, 1 with one, 2 if that cannot be said.

"verify" ends as a monitoring plug-in does:

  0    OK: every promise that was checked is kept
  1    WARNING: kept, but something in the log was not understood or not checked
  2    CRITICAL: a promise is broken
  3    UNKNOWN: it could not be checked, also because of a wrong flag`

// fault is an error together with what the command makes of it.
type fault struct {
	code int
	// err is what is wrong; nil if everything has been said.
	err error
	// hint is a line that says what to do next; "" if err says it.
	hint string
}

func (f *fault) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *fault) Unwrap() error { return f.err }

// exit ends the command with a code and without a word.
func exit(code int) error {
	if code == exitOK {
		return nil
	}
	return &fault{code: code}
}

// misuse is an error in what was typed, with the usage of the command it was typed for.
func misuse(c *cobra.Command, format string, args ...any) error {
	return &fault{code: exitUsage, err: fmt.Errorf(format, args...), hint: "usage: " + usageLine(c)}
}

func hint(format string, args ...any) string { return "hint: " + fmt.Sprintf(format, args...) }

// faultOf finds the exit code and the hint for an error of any layer; nil for none.
func faultOf(err error) *fault {
	var f *fault
	var said *jet.ServiceError
	letter := letterFault(err)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case letter != nil:
		return letter
	case errors.As(err, new(*jet.Denied)):
		return denied(err)
	case errors.Is(err, context.Canceled):
		return &fault{code: exitInterrupted}
	case errors.As(err, &said):
		return &fault{code: serviceCode(said.Code), err: err}
	case full(err):
		return &fault{code: exitMute, err: err, hint: hint("the storage limit of the stream, the account or the NATS server is reached: raise it, or make room; docs/operations.md has a section on that")}
	case errors.Is(err, events.ErrMute):
		return &fault{code: exitMute, err: err, hint: hint("make room on the disk of the NATS server; docs/operations.md has a section on that")}
	case errors.Is(err, task.ErrUnknown):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace task ls` lists the tasks there are")}
	case errors.Is(err, client.ErrInvalid), errors.Is(err, view.ErrQuery), errors.Is(err, client.ErrOptions):
		return &fault{code: exitUsage, err: err}
	case errors.Is(err, jet.ErrNoJob):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace job ls` lists the jobs there are, `millrace job apply -f FILE` adds one")}
	case errors.Is(err, jet.ErrNoBundle), errors.Is(err, tree.ErrNoVersion):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace files ls` lists the names there are, `millrace files push DIR --name NAME` adds one")}
	case errors.Is(err, jet.ErrChanged):
		return &fault{code: exitRefused, err: err, hint: hint("`millrace job history NAME` or `millrace schedule show NAME` shows the changes; apply yours again if it is still wanted")}
	case errors.Is(err, jet.ErrNoCalendar):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace calendar ls` lists the calendars there are, `millrace calendar apply FILE` adds one")}
	case errors.Is(err, task.ErrLongDefinition), errors.Is(err, schedule.ErrNeverOpen):
		return &fault{code: exitUsage, err: err}
	case errors.Is(err, jet.ErrSweeping):
		return &fault{code: exitRefused, err: err}
	case errors.Is(err, jet.ErrNoSchedule):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace schedule ls` lists the schedules there are, `millrace schedule add` adds one")}
	case errors.Is(err, node.ErrUnknown):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace node ls` lists the nodes there are")}
	case errors.Is(err, node.ErrRetired):
		return &fault{code: exitRefused, err: err, hint: hint("a worker that starts under its name begins a new life")}
	case errors.Is(err, node.ErrAlive):
		return &fault{code: exitRefused, err: err, hint: hint("`millrace node drain` takes work from it, SIGTERM ends its worker")}
	case errors.Is(err, task.ErrEnded):
		return &fault{code: exitRefused, err: err, hint: hint("`millrace task why` says how it ended, `millrace task retry` gives it another life")}
	case errors.Is(err, task.ErrRunning), errors.Is(err, task.ErrShared), errors.Is(err, task.ErrNotWaiting), errors.Is(err, task.ErrNotHeld):
		return &fault{code: exitRefused, err: err}
	case errors.Is(err, task.ErrQueueFull), errors.Is(err, jet.ErrManySelectors):
		return &fault{code: exitRefused, err: err}
	case errors.Is(err, client.ErrNoQueue):
		return &fault{code: exitNotFound, err: err, hint: hint("`millrace queue ls` lists the queues there are")}
	case errors.As(err, new(*events.Taken)):
		return &fault{code: exitRefused, err: err, hint: hint("wait for that task, cancel it, or submit with another key")}
	case errors.Is(err, client.ErrOther):
		return &fault{code: exitRefused, err: err, hint: hint("`millrace task show` says what it does; choose another id, or leave --id out")}
	case errors.Is(err, embed.ErrLocked):
		return &fault{code: exitRefused, err: err, hint: hint("use the one that runs (commands find it by themselves), or name another directory with --data")}
	case errors.Is(err, embed.ErrShared):
		return &fault{code: exitRefused, err: err, hint: hint("name a directory of its own with --data")}
	case errors.Is(err, embed.ErrExposed), errors.Is(err, embed.ErrPlain):
		return &fault{code: exitUsage, err: err, hint: hint("listen on 127.0.0.1, or set a user and password, or a token, and TLS")}
	case errors.Is(err, jet.ErrNoService), errors.Is(err, jet.ErrNoJetStream), errors.Is(err, jet.ErrNoMillrace):
		return &fault{code: exitNoServer, err: err}
	case client.Denied(err):
		return &fault{code: exitNoServer, err: err, hint: hint(whoYouAre)}
	case client.Unreachable(err):
		return &fault{code: exitNoServer, err: err, hint: hint("the server did not answer: is it up? --timeout or $NATS_TIMEOUT gives it longer")}
	}
	return &fault{code: exitError, err: err}
}

// denied says how the user gets a right that it lacks.
func denied(err error) *fault {
	lacks, _ := errors.AsType[*jet.Denied](err)
	if lacks.Listening && strings.HasPrefix(lacks.Subject, "_INBOX") {
		return &fault{code: exitRefused, err: err, hint: hint("this user has inboxes of its own: name them with --inbox-prefix or $NATS_INBOX_PREFIX")}
	}
	return &fault{code: exitRefused, err: err, hint: hint("`millrace nats permissions` prints what each role needs: grant it to this user of the NATS server, or be another one")}
}

// full tells whether an error is the NATS server's word that there is no room.
func full(err error) bool {
	_, is := jet.Full(err)
	return is
}

// serviceCode is the exit code for an error code of a millrace server.
func serviceCode(code string) int {
	switch code {
	case "400":
		return exitUsage
	case "404":
		return exitNotFound
	case "409", "429":
		return exitRefused
	case "507":
		return exitMute
	}
	return exitError
}

// taskExit is the exit code of a command that waited for a task.
func taskExit(t task.Task) int {
	switch t.State {
	case task.Finished:
		return exitOK
	case task.Cancelled:
		return exitInterrupted
	case task.Abnormal:
		return exitTaskAbnormal
	}
	switch {
	case t.Reason == task.ReasonTimeout:
		return exitTaskTimeout
	case t.Exit != nil && *t.Exit > 0 && *t.Exit < 256:
		return *t.Exit
	}
	return exitError
}
