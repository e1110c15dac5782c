package rights

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os/user"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/task/value"
)

// Verb is a request to the service: a noun, a dot and a verb.
type Verb string

// The verbs.
const (
	TaskSubmit  Verb = "task.submit"
	TaskGet     Verb = "task.get"
	TaskList    Verb = "task.list"
	TaskPlan    Verb = "task.plan"
	TaskCopy    Verb = "task.copy"
	TaskCancel  Verb = "task.cancel"
	TaskRelease Verb = "task.release"
	TaskSignal  Verb = "task.signal"
	TaskRetry   Verb = "task.retry"
	TaskBulk    Verb = "task.bulk" // several submissions
	TaskEdit    Verb = "task.edit"
	TaskWait    Verb = "task.wait"
	TaskWhy     Verb = "task.why"
	TaskTree    Verb = "task.tree"
	TaskDiff    Verb = "task.diff"
	TaskEvents  Verb = "task.events"
	TaskOutput  Verb = "task.output"
	TaskRecords Verb = "task.records"
	TaskFiles   Verb = "task.artifacts"
	TaskTrace   Verb = "task.trace"

	// What a submitter asks of the tasks that it has submitted.
	OwnWait    Verb = "own.wait"
	OwnWhy     Verb = "own.why"
	OwnOutput  Verb = "own.output"
	OwnRecords Verb = "own.records"

	TasksCancel  Verb = "tasks.cancel" // those that a filter chooses
	TasksRetry   Verb = "tasks.retry"
	TasksSignal  Verb = "tasks.signal"
	TasksDismiss Verb = "tasks.dismiss" // dead letters
	TasksCount   Verb = "tasks.count"   // how many one of these would change

	EventList Verb = "event.list"
	RowList   Verb = "row.list" // of the read model, as it stores them
	LogVerify Verb = "log.verify"
	LogDiff   Verb = "log.diff" // of everything
	LogReplay Verb = "log.replay"
	LogWhatIf Verb = "log.whatif"

	DeadList    Verb = "dead.list"
	DeadDismiss Verb = "dead.dismiss" // of a task by its id, or of a message by its sequence

	QueueList   Verb = "queue.list"
	QueuePause  Verb = "queue.pause"
	QueueResume Verb = "queue.resume"
	QueueLimit  Verb = "queue.limit"
	QueuePurge  Verb = "queue.purge"
	LimitList   Verb = "limit.list"

	NodeList     Verb = "node.list"
	NodeGet      Verb = "node.get"
	NodeWait     Verb = "node.wait"
	NodeDrain    Verb = "node.drain"
	NodeUndrain  Verb = "node.undrain"
	NodeCordon   Verb = "node.cordon"
	NodeUncordon Verb = "node.uncordon"
	NodeRelease  Verb = "node.release"
	NodeLabel    Verb = "node.label"
	NodeRetire   Verb = "node.retire"
	NodePing     Verb = "node.ping" // one node, or all that should answer

	JobList        Verb = "job.list"
	JobGet         Verb = "job.get"
	JobApply       Verb = "job.apply"
	JobRemove      Verb = "job.remove"
	CalendarList   Verb = "calendar.list"
	CalendarGet    Verb = "calendar.get"
	CalendarApply  Verb = "calendar.apply"
	CalendarRemove Verb = "calendar.remove"
	ScheduleApply  Verb = "schedule.apply"
	ScheduleRemove Verb = "schedule.remove"
	ScheduleList   Verb = "schedule.list"
	ScheduleGet    Verb = "schedule.get"
	ScheduleRun    Verb = "schedule.run"
	SchedulePause  Verb = "schedule.pause"
	ScheduleResume Verb = "schedule.resume"
	ScheduleNext   Verb = "schedule.next"
	// ScheduleBackfill makes the tasks of past ticks; ScheduleProgress counts how many of them have
	// one.
	ScheduleBackfill Verb = "schedule.backfill"
	ScheduleProgress Verb = "schedule.progress"
	// Histories of definitions.
	JobValidate     Verb = "job.validate" // the text of a job file
	JobSchema       Verb = "job.schema"   // of job files
	JobHistory      Verb = "job.history"
	JobDiff         Verb = "job.diff"
	ScheduleHistory Verb = "schedule.history"
	ScheduleDiff    Verb = "schedule.diff"
	CalendarHistory Verb = "calendar.history"
	CalendarDiff    Verb = "calendar.diff"

	BreakerGet   Verb = "breaker.get"
	BreakerReset Verb = "breaker.reset"

	FilesList   Verb = "files.list"
	FilesGet    Verb = "files.get"
	FilesDiff   Verb = "files.diff"
	FilesVerify Verb = "files.verify"
	FilesRemove Verb = "files.remove"
	FilesSweep  Verb = "files.gc"

	ServerHealth Verb = "server.health"
)

// Access is what a request does. Roles are granted requests by it.
type Access string

// Kinds of access.
const (
	// Reading changes nothing.
	Reading Access = "reading"
	// Owning reads what became of tasks that the caller has submitted.
	Owning Access = "owning"
	// Submitting makes tasks, and changes no existing one.
	Submitting Access = "submitting"
	// Operating changes anything, whichever user made it.
	Operating Access = "operating"
)

// verbs lists the access of every verb. A verb that is missing here has no endpoint, and a test
// fails.
var verbs = []struct {
	access Access
	verbs  []Verb
}{
	{Reading, []Verb{TaskGet, TaskList, TaskWait, TaskPlan, TaskWhy, TaskTree, TaskDiff, TaskEvents, TaskOutput,
		TaskRecords, TaskFiles, TaskTrace, TasksCount, EventList, RowList, DeadList, QueueList, LimitList, NodeList,
		NodeGet, NodeWait, NodePing, JobList, JobGet, CalendarList, CalendarGet, ScheduleList, ScheduleGet,
		ScheduleNext, ScheduleProgress, JobValidate, JobSchema, JobHistory, JobDiff, ScheduleHistory,
		ScheduleDiff, CalendarHistory, CalendarDiff, BreakerGet,
		FilesList, FilesGet, FilesDiff, FilesVerify, LogVerify, LogDiff, LogReplay, LogWhatIf, ServerHealth}},
	{Owning, []Verb{OwnWait, OwnWhy, OwnOutput, OwnRecords}},
	{Submitting, []Verb{TaskSubmit, TaskBulk, TaskCopy, ScheduleRun, ScheduleBackfill}},
	{Operating, []Verb{TaskCancel, TasksCancel, TasksRetry, TasksSignal, TasksDismiss, TaskRelease, TaskSignal,
		TaskRetry, TaskEdit, DeadDismiss, QueuePause, QueueResume, QueueLimit, QueuePurge, NodeDrain,
		NodeUndrain, NodeCordon, NodeUncordon,
		NodeRelease, NodeLabel, NodeRetire, JobApply, JobRemove, CalendarApply, CalendarRemove, ScheduleApply,
		ScheduleRemove, SchedulePause, ScheduleResume, BreakerReset, FilesRemove, FilesSweep}},
}

// Verbs returns all verbs with one of these kinds of access.
func Verbs(of ...Access) (all []Verb) {
	for _, v := range verbs {
		if slices.Contains(of, v.access) {
			all = append(all, v.verbs...)
		}
	}
	return all
}

// Access returns the access of the verb; "" for a verb that the service does not know.
func (v Verb) Access() Access {
	for _, of := range verbs {
		if slices.Contains(of.verbs, v) {
			return of.access
		}
	}
	return ""
}

// Own returns the verb that does the same for the caller's own tasks only; "" if there is none.
func (v Verb) Own() Verb {
	switch v {
	case TaskWait:
		return OwnWait
	case TaskWhy:
		return OwnWhy
	case TaskOutput:
		return OwnOutput
	case TaskRecords:
		return OwnRecords
	}
	return ""
}

// May tells whether users of a role may use a verb. This is the only place that decides it: the
// rights of users of the NATS server are made from it, and the HTTP service asks it.
func (r Role) May(v Verb) bool {
	switch access := v.Access(); r {
	case Operator:
		return access != ""
	case Submitter:
		return access == Submitting || access == Owning || v == TaskGet || v == ServerHealth
	case Viewer:
		return access == Reading
	}
	return false
}

// Lacking is the error that a role may not use a verb.
type Lacking struct {
	// User is the name of the user, and Role its role.
	User string
	Role Role
	// Verb is what was to be done; "" for what only operators do.
	Verb Verb
}

// Error implements error.
func (e *Lacking) Error() string {
	may := []string{string(Operator)}
	for _, r := range []Role{Viewer, Submitter} {
		if r.May(e.Verb) {
			may = append([]string{string(r)}, may...)
		}
	}
	return fmt.Sprintf("this takes the role %s; the user %s is a %s", strings.Join(may, " or "), e.User, e.Role)
}

// granted returns the verbs with one of these kinds of access that a role may use.
func granted(r Role, of ...Access) (all []Verb) {
	for _, v := range Verbs(of...) {
		if r.May(v) {
			all = append(all, v)
		}
	}
	return all
}

// apiPrefix begins the subjects of requests: mr.api.<user>.<noun>.<verb>.
const apiPrefix = "mr.api."

// For is the subject on which a NATS user sends this request.
func (v Verb) For(caller string) string { return apiPrefix + caller + "." + string(v) }

// Endpoint is the subject on which the service listens for it, from any caller.
func (v Verb) Endpoint() string { return v.For("*") }

// Misaddressed are subjects of requests with too few or too many tokens, mostly because the
// caller's name is missing or contains dots.
func Misaddressed() []string {
	return []string{apiPrefix + "*", apiPrefix + "*.*", apiPrefix + "*.*.*.*"}
}

// ValidCaller refuses names that no caller of the service may have: names that cannot be a token of
// a subject, and names of parts of Millrace, for facts use the same names for both.
func ValidCaller(name string) error {
	if err := value.ValidName("user", name); err != nil {
		return err
	}
	if events.IsPart(name) {
		return fmt.Errorf("user name %q: a part of Millrace writes facts under this name, so no user has it", name)
	}
	return nil
}

// CallerOf returns the caller from the subject of a request. The NATS server lets each user publish
// only under its own name, so the name is certain.
func CallerOf(subject string) (string, error) {
	rest, ok := strings.CutPrefix(subject, apiPrefix)
	caller, verb, named := strings.Cut(rest, ".")
	if !ok || !named || strings.Count(verb, ".") != 1 {
		return "", fmt.Errorf("%s does not say who asks for what: want %s<user>.<noun>.<verb>, with the name of your NATS user, as in %s", subject, apiPrefix, TaskSubmit.For("ada"))
	}
	return caller, ValidCaller(caller)
}

// Answerable tells whether an answer may go to a subject. The caller chooses the subject, and the
// answer is published with the rights of the answering process: a server that answered to
// $JS.API.STREAM.PURGE.MR_LOG would purge the log.
func Answerable(reply string) bool {
	return reply != "" && !strings.HasPrefix(reply, "$") && !strings.HasPrefix(reply, "mr.")
}

// nobody is the caller's name when it is unknown.
const nobody = "nobody"

// LocalCaller returns the name of this user of the machine, in the form of a caller's name.
func LocalCaller() string {
	if s := callerNamed(systemName(nil)); s != "" {
		return s
	}
	return nobody
}

// CallerOn returns the name under which a connection uses the service: its NATS user's. For a JWT
// it is the name in it, for an nkey the public key. If the server knows no names, or the user has
// only a token, it is the name of the operating system's user. Characters that a token of a subject
// cannot hold become '_'.
func CallerOn(nc *nats.Conn) string {
	for _, name := range []func(*nats.Conn) string{jwtName, urlName, passwordName, nkeyName, systemName} {
		if s := callerNamed(name(nc)); s != "" {
			return s
		}
	}
	return nobody
}

// callerNamed turns a name into a caller's name; "" if nothing is left of it.
func callerNamed(name string) string {
	clean := []byte(name)
	for i, c := range clean {
		if c == '-' && i > 0 {
			continue
		}
		if value.ValidName("user", string(c)) != nil {
			clean[i] = '_'
		}
	}
	s := string(clean[:min(len(clean), 64)])
	if ValidCaller(s) != nil {
		return ""
	}
	return s
}

func jwtName(nc *nats.Conn) string {
	if nc.Opts.UserJWT == nil {
		return ""
	}
	token, err := nc.Opts.UserJWT()
	parts := strings.Split(token, ".")
	if err != nil || len(parts) != 3 {
		return ""
	}
	var claims struct{ Name, Sub string }
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(body, &claims) != nil {
		return ""
	}
	if claims.Name != "" {
		return claims.Name
	}
	return claims.Sub
}

// urlName returns the user in the address, unless it is a token.
func urlName(nc *nats.Conn) string {
	if at, err := url.Parse(nc.ConnectedUrl()); err == nil && at.User != nil {
		if _, password := at.User.Password(); password {
			return at.User.Username()
		}
	}
	return ""
}

func passwordName(nc *nats.Conn) string {
	if nc.Opts.UserInfo != nil {
		name, _ := nc.Opts.UserInfo()
		return name
	}
	return nc.Opts.User
}

func nkeyName(nc *nats.Conn) string { return nc.Opts.Nkey }

func systemName(*nats.Conn) string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
