package term

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/outputs"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
	"millrace/internal/files"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Exit codes; the page "millrace help exit-codes" explains them.
const (
	ExitOK       = 0
	ExitError    = 1
	ExitUsage    = 2
	ExitNotFound = 3
	ExitNoServer = 4
	ExitRefused  = 5
	ExitTimeout  = 6
	ExitMute     = 7
	ExitWorse    = 8

	// Outcomes of an awaited task, beside its own code; the numbers are those of timeout(1) and of
	// a shell.
	ExitTaskTimeout  = 124
	ExitTaskAbnormal = 125
	ExitInterrupted  = 130
	signalled        = 128 // plus the number of the signal
)

// ExitPage is the page "millrace help exit-codes".
const ExitPage = `Every command of millrace ends with one of these codes:

  0    it did what was asked
  1    an error that has no code of its own
  2    the command line, the settings or the input is wrong
  3    the thing that the command names does not exist
  4    no NATS server, or no millrace server, answered
  5    refused: the state of the task, node, queue, job or directory does not allow it,
       or this user of the NATS server may not do it
  6    the time to wait ran out; for a node, the command prints the reason
  7    the log takes no messages, mostly because a disk or a storage limit is full; "server" and
       "dev" end with it if their NATS server does not come back although there is room
  8    "bench --baseline": a figure is worse than it was, beyond noise

"run --wait", "run --follow", "task wait" and "task retry --wait" end as the task did:

  0    finished
  1-255  error: the exit code of its process; 1 if it has none
  126  error: its program may not be executed, or is none for that machine
  127  error: there is no such program on its node
  128+N  error: its process was ended by signal N: 137 is SIGKILL, 139 SIGSEGV, 143 SIGTERM
  124  error: it ran longer than its timeout
  125  abnormal: it was not started in time, or its node was lost too often
  130  cancelled

Of several tasks, the first one that did not finish decides. Ctrl-C while
waiting ends with 130; the task goes on.

"task diff" ends as diff does: 0 without a difference, 1 with one, 2 if it could not compare.

"replay" ends with 1 if its last search found nothing, with 3 if its file is damaged. So do "incident
show" and, unless the command that it runs has another code, "incident open".

"upgrade check" ends with 0 if an upgrade is safe, and with 1 if it is not.

"whatif" ends with 2 if a decision comes out differently under its own settings.

"verify" ends as a monitoring plug-in does:

  0    OK: every promise that was checked is kept
  1    WARNING: kept, but something in the log was not understood or not checked
  2    CRITICAL: a promise is broken
  3    UNKNOWN: it could not check, for instance because of a wrong flag`

// Fault is an error with its exit code and hint.
type Fault struct {
	Code int
	// Err is the error; nil if everything has been printed.
	Err error
	// Hint is a line that says what to do next; "" if Err says it.
	Hint string
}

func (f *Fault) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit code %d", f.Code)
	}
	return f.Err.Error()
}

func (f *Fault) Unwrap() error { return f.Err }

// ExitWith ends the command with a code and without a message.
func ExitWith(code int) error {
	if code == ExitOK {
		return nil
	}
	return &Fault{Code: code}
}

// Misuse is an error in what was typed, with the command's usage.
func Misuse(c *cobra.Command, format string, args ...any) error {
	return &Fault{Code: ExitUsage, Err: fmt.Errorf(format, args...), Hint: "usage: " + usageLine(c)}
}

// Hint formats a line that says what to do next.
func Hint(format string, args ...any) string { return "hint: " + fmt.Sprintf(format, args...) }

// FaultOf returns the exit code and the hint for an error of any layer; nil for none.
func FaultOf(err error) *Fault {
	var f *Fault
	var said *jet.ServiceError
	letter := letterFault(err)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &f):
		return f
	case letter != nil:
		return letter
	case errors.As(err, new(*rights.Lacking)):
		return &Fault{Code: ExitRefused, Err: err}
	case errors.As(err, new(*request.Denied)):
		return denied(err)
	case errors.Is(err, context.Canceled):
		return &Fault{Code: ExitInterrupted}
	case errors.As(err, &said):
		return &Fault{Code: serviceCode(said.Code), Err: err}
	case full(err):
		return &Fault{Code: ExitMute, Err: err, Hint: Hint("the storage limit of the stream, the account or the NATS server is reached: raise it, or make room; docs/operations.md has a section on that")}
	case errors.Is(err, events.ErrMute):
		return &Fault{Code: ExitMute, Err: err, Hint: Hint("make room on the disk of the NATS server; docs/operations.md has a section on that")}
	case errors.Is(err, task.ErrUnknown):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace task ls` lists the tasks there are")}
	case errors.Is(err, client.ErrInvalid), errors.Is(err, view.ErrQuery), errors.Is(err, client.ErrOptions):
		return &Fault{Code: ExitUsage, Err: err}
	case errors.Is(err, definitions.ErrNoJob):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace job ls` lists the jobs there are, `millrace job apply -f FILE` adds one")}
	case errors.Is(err, definitions.ErrNoBundle), errors.Is(err, files.ErrNoVersion):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace files ls` lists the names there are, `millrace files push DIR --name NAME` adds one")}
	case errors.Is(err, value.ErrOvertaken):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("look at what it is now, put your change into that, and give its revision to --if-revision")}
	case errors.Is(err, definitions.ErrChanged):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace job history NAME` or `millrace schedule show NAME` shows the changes; apply yours again if it is still wanted")}
	case errors.Is(err, definitions.ErrNoCalendar):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace calendar ls` lists the calendars there are, `millrace calendar apply FILE` adds one")}
	case errors.Is(err, definitions.ErrNoToken):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace token ls` lists the tokens there are")}
	case errors.Is(err, definitions.ErrTokenExists):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("--replace makes another one of this name, and the old one is refused from then on")}
	case errors.Is(err, task.ErrLongDefinition), errors.Is(err, schedule.ErrNeverOpen), errors.Is(err, definitions.ErrBadToken), errors.As(err, new(*schedule.Refusal)):
		return &Fault{Code: ExitUsage, Err: err}
	case errors.As(err, new(*client.InUse)):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace schedule rm NAME` removes one")}
	case errors.Is(err, outputs.ErrSweeping):
		return &Fault{Code: ExitRefused, Err: err}
	case errors.Is(err, definitions.ErrNoSchedule):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace schedule ls` lists the schedules there are, `millrace schedule add` adds one")}
	case errors.Is(err, node.ErrUnknown):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace node ls` lists the nodes there are")}
	case errors.Is(err, node.ErrRetired):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("a worker that starts under its name begins a new life")}
	case errors.Is(err, node.ErrAlive):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace node drain` takes work from it, SIGTERM ends its worker")}
	case errors.Is(err, task.ErrNotHeld):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace task why` says what it waits for")}
	case errors.Is(err, task.ErrEnded):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace task why` says how it ended, `millrace task retry` gives it another life")}
	case errors.Is(err, task.ErrRunning), errors.Is(err, task.ErrShared), errors.Is(err, task.ErrNotWaiting), errors.Is(err, job.ErrNotAsked):
		return &Fault{Code: ExitRefused, Err: err}
	case errors.Is(err, queue.ErrFull), errors.Is(err, jet.ErrManySelectors), errors.Is(err, jet.ErrManyQueues):
		return &Fault{Code: ExitRefused, Err: err}
	case errors.Is(err, client.ErrNoQueue):
		return &Fault{Code: ExitNotFound, Err: err, Hint: Hint("`millrace queue ls` lists the queues there are")}
	case errors.As(err, new(*events.Taken)):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("wait for that task, cancel it, or submit with another key")}
	case errors.Is(err, events.ErrNeedForgotten):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("leave that need out: the task has ended, and the log has forgotten how")}
	case errors.Is(err, events.ErrForgotten):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("choose a new id, or leave it out: under this one a task may have run already")}
	case errors.Is(err, client.ErrOther):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace task show` says what it does; choose another id, or leave --id out")}
	case errors.Is(err, streams.ErrRestoring):
		return &Fault{Code: ExitRefused, Err: err}
	case errors.Is(err, jet.ErrNoService), errors.Is(err, jet.ErrNoJetStream), errors.Is(err, jet.ErrNoMillrace):
		return &Fault{Code: ExitNoServer, Err: err}
	case client.Denied(err):
		return &Fault{Code: ExitNoServer, Err: err, Hint: Hint(WhoYouAre)}
	case errors.Is(err, events.ErrGone):
		return &Fault{Code: ExitNoServer, Err: err, Hint: Hint("the NATS server has closed the connection, and this command can go on no more: run it again")}
	case client.Unreachable(err):
		return &Fault{Code: ExitNoServer, Err: err, Hint: Hint("the server did not answer: is it up? --timeout or $NATS_TIMEOUT gives it longer")}
	}
	return &Fault{Code: ExitError, Err: err}
}

// denied says how the user gets a missing right.
func denied(err error) *Fault {
	lacks, _ := errors.AsType[*request.Denied](err)
	if lacks.Listening && strings.HasPrefix(lacks.Subject, "_INBOX") {
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("this user has inboxes of its own: name them with --inbox-prefix or $NATS_INBOX_PREFIX")}
	}
	return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace nats permissions` prints what each role needs: grant it to this user of the NATS server, or be another one")}
}

// full tells whether an error means that the NATS server has no room.
func full(err error) bool {
	_, is := request.Full(err)
	return is
}

// serviceCode returns the exit code for an error code of a millrace server.
func serviceCode(code string) int {
	switch code {
	case "400":
		return ExitUsage
	case "404":
		return ExitNotFound
	case "403", "409", "410", "412", "429":
		return ExitRefused
	case "507":
		return ExitMute
	}
	return ExitError
}

// ExitOfTask returns the exit code of a command that waited for a task.
func ExitOfTask(t task.Task) int {
	switch t.State {
	case task.Finished:
		return ExitOK
	case task.Cancelled:
		return ExitInterrupted
	case task.Abnormal:
		return ExitTaskAbnormal
	}
	switch {
	case t.Reason == value.Timeout:
		return ExitTaskTimeout
	case t.Usage != nil && unix.SignalNum(t.Usage.Signal) > 0:
		return signalled + int(unix.SignalNum(t.Usage.Signal))
	case t.Exit != nil && *t.Exit > 0 && *t.Exit < 256:
		return *t.Exit
	}
	return ExitError
}

func usageLine(c *cobra.Command) string {
	if c.HasAvailableSubCommands() {
		return c.CommandPath() + " COMMAND; `" + c.CommandPath() + " --help` lists them"
	}
	return c.UseLine()
}

// letterFault explains why something cannot be dismissed; nil if the error is another one.
func letterFault(err error) *Fault {
	switch {
	case errors.Is(err, task.ErrNotDead):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace dlq ls` lists what can be dismissed")}
	case errors.Is(err, client.ErrReadable):
		return &Fault{Code: ExitRefused, Err: err, Hint: Hint("`millrace events show SEQ` prints it")}
	case errors.Is(err, client.ErrNoMessage):
		return &Fault{Code: ExitNotFound, Err: err}
	}
	return nil
}

// WhoYouAre is the advice when a server does not accept the credentials.
const WhoYouAre = "say who you are with --creds, --nkey, --token-file, --user and --password-file, or --context"

// MisuseOf marks an error as one in what was typed.
func MisuseOf(err error) error { return &Fault{Code: ExitUsage, Err: err} }
