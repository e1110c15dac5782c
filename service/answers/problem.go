package answers

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/outputs"
	link "millrace/events/jet/request"
	"millrace/events/jet/rights"
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

// Problem describes what is wrong with a request, in the form of RFC 9457. Over NATS its status is
// the code of the error.
type Problem struct {
	// Type is the URI of the kind of problem: "urn:millrace:" and a word.
	Type string `json:"type"`
	// Title describes the kind in words; Status is the HTTP status.
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail describes this occurrence.
	Detail string `json:"detail"`
	// Next says what the caller can do.
	Next string `json:"next"`
	// Revision is the current one if a change was based on an older one, and Changes are the
	// changes since.
	Revision uint64        `json:"revision,omitempty"`
	Changes  []view.Change `json:"changes,omitempty"`
}

// kind is a kind of problem.
type kind struct {
	name, title string
	status      int
	next        string
	is          func(error) bool
}

// Errors of requests over HTTP alone.
var (
	ErrWho          = errors.New("the request names no caller that the server knows")
	ErrRole         = errors.New("the role of the caller does not allow that")
	ErrConfirm      = errors.New("the link lets this browser in under a name that it may not have now")
	ErrOrigin       = errors.New("the request comes from a page of another origin")
	ErrHost         = errors.New("the service does not answer under this name")
	ErrPlain        = errors.New("the request comes from another machine without TLS")
	ErrNothing      = errors.New("there is nothing here")
	ErrMethod       = errors.New("this cannot be done here")
	ErrSlow         = errors.New("the body has not come in time")
	ErrMedia        = errors.New("the body is not JSON")
	ErrArchiveMedia = errors.New("the body is no tar archive")
	ErrTooMany      = errors.New("there are as many followers as may be")
	ErrTooLarge     = tooLarge{errors.New("the body is too large")}
)

// TooOften: a caller over HTTP asks more often than it may. It may ask again after After.
type TooOften struct {
	Caller string
	// Rate is how many requests a second it may send.
	Rate  float64
	After time.Duration
}

// Error implements error.
func (e *TooOften) Error() string {
	return fmt.Sprintf("%s sends more than %g requests a second", e.Caller, e.Rate)
}

// kinds lists the kinds of problems: the first one that matches an error counts.
var kinds = []kind{
	{"too-large", "It is too large", 413, "send or ask for less at once; of lists the limit makes a page smaller", as[tooLarge]},
	{"busy", "The service has too much in hand", 503, "try again in a moment, with fewer requests at the same time", either(as[busy], oneOf(outputs.ErrSweeping))},
	{"rate", "The caller asks too often", 429, "wait for as many seconds as the header Retry-After says; one request can submit, cancel or retry many tasks, and a follower hears of news without asking", as[*TooOften]},
	{"no-room", "The log takes no messages", 507, "make room where the NATS server keeps its data, or raise its storage limit; docs/operations.md has a section on that",
		func(err error) bool {
			_, full := link.Full(err)
			return full || errors.Is(err, events.ErrMute) || errors.Is(err, files.ErrFull) || errors.Is(err, syscall.ENOSPC)
		}},
	{"who", "The server does not know the caller", 401, "send the header \"Authorization: Bearer\" with a token: on the machine of the server that in http.token of its data directory, elsewhere one that `millrace token add` has made", oneOf(ErrWho)},
	{"role", "The role does not allow that", 403, "ask with a token of another role, or have an operator do it", oneOf(ErrRole)},
	{"not-asked", "Others are asked for this", 403, "have one of those approve or reject it whom the detail names", oneOf(job.ErrNotAsked)},
	{"confirm", "Another page may have led here", 403, "enter if you have asked for this link yourself; else close the page", oneOf(ErrConfirm)},
	{"origin", "The request comes from another site", 403, "send it from a page of this service, or from a program with a token", oneOf(ErrOrigin)},
	{"host", "The service does not answer under this name", 421, "ask under the address that the server prints, or have the server list the name with --http-name", oneOf(ErrHost)},
	{"plain", "The request comes without TLS", 403, "ask by the proxy in front of the service, or have the server speak TLS with --http-cert and --http-key", oneOf(ErrPlain)},
	{"nothing-here", "There is nothing here", 404, "/openapi.json has all that there is", oneOf(ErrNothing)},
	{"method", "This cannot be done here", 405, "the header Allow names what can; /openapi.json has all that there is", oneOf(ErrMethod)},
	{"slow", "The request has come too slowly", 408, "send it at once, within 20 s; of files the service takes more time", oneOf(ErrSlow)},
	{"media", "The body is not JSON", 415, "send JSON, with the header \"Content-Type: application/json\"", oneOf(ErrMedia)},
	{"no-archive", "The body is no archive", 415, "send a tar archive, with the header \"Content-Type: application/x-tar\", or application/gzip if it is compressed", oneOf(ErrArchiveMedia)},
	{"followers", "There are as many followers as may be", 503, "follow less at a time, or read without following", oneOf(ErrTooMany)},
	{"bad-request", "The request cannot be meant like that", 400, "change what the detail names; /openapi.json has all requests",
		either(either(as[badRequest], as[*schedule.Refusal]), oneOf(client.ErrInvalid, view.ErrQuery, definitions.ErrBadJob,
			events.ErrTooLarge, node.ErrBadLabel, node.ErrOwnLabel, task.ErrLongDefinition,
			schedule.ErrNeverOpen))},
	{"no-task", "There is no such task", 404, "look for it in the list of tasks", oneOf(task.ErrUnknown)},
	{"no-job", "There is no such job", 404, "look for it in the list of jobs, or apply one", oneOf(definitions.ErrNoJob)},
	{"no-schedule", "There is no such schedule", 404, "look for it in the list of schedules", oneOf(definitions.ErrNoSchedule)},
	{"no-monitor", "There is no such monitor", 404, "make one with `millrace monitor add NAME --cron …`, or ping one of the list of schedules", oneOf(errNoMonitor)},
	{"no-calendar", "There is no such calendar", 404, "look for it in the list of calendars", oneOf(definitions.ErrNoCalendar)},
	{"no-files", "There are no such files", 404, "push them with `millrace files push`", oneOf(definitions.ErrNoBundle, client.ErrNoVersion)},
	{"no-file", "There is no such file", 404, "look for it in the list of the version", oneOf(errNoFile)},
	{"no-queue", "There is no such queue", 404, "look for it in the list of queues; a queue comes into being with its first task, its first setting, or a worker that serves it", oneOf(client.ErrNoQueue)},
	{"no-node", "There is no such node", 404, "look for it in the list of nodes", oneOf(node.ErrUnknown)},
	{"no-message", "There is no such message in the log", 404, "look for it in the list of dead letters", oneOf(client.ErrNoMessage)},
	{"key-taken", "Another task has the unique key", 409, "wait for that task, cancel it, or submit with another key", as[*events.Taken]},
	{"id-taken", "The id has a task that does something else", 409, "choose another id, or leave it out", oneOf(client.ErrOther)},
	{"need-old", "A task that it needs is older than what the log keeps", 410, "leave that need out: the task has ended, and the log has forgotten how", oneOf(events.ErrNeedForgotten)},
	{"id-old", "The id is older than what the log keeps", 410, "choose a new id, or leave it out: under this one a task may have run already", oneOf(events.ErrForgotten)},
	{"ended", "The task has ended", 409, "ask why it did, or retry it", oneOf(task.ErrEnded)},
	{"overlap", "The overlap of the schedule has no room", 409, "ask again when the task that the detail names has ended, or without respect_overlap", as[*client.Busy]},
	{"job-in-use", "Schedules make tasks of the job", 409, "remove the schedules that the detail names first", as[*client.InUse]},
	{"overtaken", "It has changed since it was looked at", 412, "look at what it is now, put your change into that, and send it with the present revision", oneOf(value.ErrOvertaken)},
	{"changed", "Another caller has changed it at the same moment", 409, "look at what it is now, and ask again if yours is still wanted", oneOf(definitions.ErrChanged)},
	{"not-now", "Its state does not allow that", 409, "look at its state, and ask why it is there",
		oneOf(task.ErrRunning, task.ErrShared, task.ErrNotWaiting, task.ErrNotHeld, task.ErrNotDead, client.ErrReadable, node.ErrRetired, node.ErrAlive)},
	{"queue-full", "As many wait as may", 429, "submit again when fewer tasks wait", oneOf(queue.ErrFull, jet.ErrManySelectors, jet.ErrManyQueues)},
	{"cut-off", "Who asked has gone, or the service ends", 503, "look whether it was done before you ask again; submitting again under the same id is safe", oneOf(context.Canceled)},
	{"unknown-outcome", "The NATS server has not answered in time", 504, "look whether it was done before you ask again; submitting again under the same id is safe",
		oneOf(context.DeadlineExceeded, events.ErrUnknown)},
}

// failed is the kind of errors that match no other.
var failed = kind{
	name:   "failed",
	title:  "It has failed",
	status: 500,
	next:   "look into the log of the server; if it says nothing of the cause, report it",
}

func as[E error](err error) bool { return errors.As(err, new(E)) }

func oneOf(targets ...error) func(error) bool {
	return func(err error) bool {
		for _, target := range targets {
			if errors.Is(err, target) {
				return true
			}
		}
		return false
	}
}

func either(a, b func(error) bool) func(error) bool {
	return func(err error) bool { return a(err) || b(err) }
}

// ProblemOf describes the error of a refused request.
func ProblemOf(err error) Problem {
	of := failed
	for _, k := range kinds {
		if k.is(err) {
			of = k
			break
		}
	}
	p := Problem{Type: "urn:millrace:" + of.name, Title: of.title, Status: of.status, Detail: err.Error(), Next: of.next}
	var since *client.Overtaken
	if errors.As(err, &since) {
		p.Revision, p.Changes = since.Revision, since.Changes
	}
	return p
}

// Refusal is a kind of problem.
type Refusal struct {
	// Name is the last word of its type, and Title describes it.
	Name, Title string
	// Status is the HTTP status.
	Status int
}

// RefusalNamed returns a kind of problem. It panics if there is none of the name.
func RefusalNamed(name string) Refusal {
	for _, k := range append(kinds, failed) {
		if k.name == name {
			return Refusal{k.name, k.title, k.status}
		}
	}
	value.Assert(false, "api: there is no problem %s", name)
	return Refusal{}
}

// Refusals returns the kinds of problems with which the service may refuse a request, whichever way
// the request comes.
func (e *Endpoint) Refusals() (all []Refusal) {
	names := append([]string{"bad-request", "too-large", "busy", "cut-off", "unknown-outcome", "failed"}, e.refused...)
	if e.Verb.Access() != rights.Reading {
		names = append(names, "no-room")
	}
	for _, name := range names {
		all = append(all, RefusalNamed(name))
	}
	return all
}

// codeOf returns the status of a problem, for a message's header.
func codeOf(err error) string { return strconv.Itoa(ProblemOf(err).Status) }

// badRequest is the error of a wrong request.
type badRequest struct{ error }
