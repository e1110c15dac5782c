package rights

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/task/value"
)

// Verb is a request to the service: a noun, a dot and a verb.
type Verb string

// AnswerTime is how long a server of Millrace takes to answer a request, at most, even if only to say that
// it gives up.
const AnswerTime = 25 * time.Second

// Access is what a request does. Roles are granted requests by it.
type Access string

// Kinds of access.
const (
	// Reading changes nothing.
	Reading Access = "reading"
	// Owning reads what became of tasks that the caller has submitted.
	Owning Access = "owning"
	// Answering gives or refuses an approval for which the caller is asked by name.
	Answering Access = "answering"
	// Submitting makes tasks, and changes no existing one.
	Submitting Access = "submitting"
	// Operating changes anything, whichever user made it.
	Operating Access = "operating"
)

// declared are all verbs, in the order of their declarations.
var declared []struct {
	Verb
	Access
}

func declare(v Verb, access Access) Verb {
	declared = append(declared, struct {
		Verb
		Access
	}{v, access})
	return v
}

func reading(v Verb) Verb    { return declare(v, Reading) }
func owning(v Verb) Verb     { return declare(v, Owning) }
func answering(v Verb) Verb  { return declare(v, Answering) }
func submitting(v Verb) Verb { return declare(v, Submitting) }
func operating(v Verb) Verb  { return declare(v, Operating) }

// The verbs, each with its access; [answers.Endpoints] has all else that is to be said of one.
var (
	TaskSubmit   = submitting("task.submit")
	TaskBulk     = submitting("task.bulk") // several submissions
	TaskGet      = reading("task.get")
	TaskList     = reading("task.list")
	TaskWait     = reading("task.wait")
	TaskPlan     = reading("task.plan")
	TaskCopy     = submitting("task.copy")
	TaskCancel   = operating("task.cancel")
	TaskRelease  = operating("task.release")
	TaskSignal   = operating("task.signal")
	TaskReject   = operating("task.reject")
	TaskRetry    = operating("task.retry")
	TaskPostpone = operating("task.postpone")
	TaskEdit     = operating("task.edit")
	TaskWhy      = reading("task.why")
	TaskTree     = reading("task.tree")
	TaskDiff     = reading("task.diff")
	TaskEvents   = reading("task.events")
	TaskOutput   = reading("task.output")
	TaskRecords  = reading("task.records")
	TaskFiles    = reading("task.artifacts")
	TaskTrace    = reading("task.trace")

	// What a submitter asks of the tasks that it has submitted.
	OwnWait    = owning("own.wait")
	OwnWhy     = owning("own.why")
	OwnOutput  = owning("own.output")
	OwnRecords = owning("own.records")

	// What whoever is asked by name answers, in any role.
	OwnSignal = answering("own.signal")
	OwnReject = answering("own.reject")

	TasksCancel  = operating("tasks.cancel") // those that a filter chooses
	TasksRetry   = operating("tasks.retry")
	TasksSignal  = operating("tasks.signal")
	TasksDismiss = operating("tasks.dismiss") // dead letters
	TasksBack    = operating("tasks.undismiss")
	TasksCount   = reading("tasks.count") // how many one of these would change

	Attention = reading("attention.list") // what goes on only when a person acts

	EventList = reading("event.list")
	RowList   = reading("row.list") // of the read model, as it stores them

	DeadList    = reading("dead.list")
	DeadDismiss = operating("dead.dismiss") // of a task by its id, or of a message by its sequence
	DeadBack    = operating("dead.undismiss")

	QueueList   = reading("queue.list")
	QueuePause  = operating("queue.pause")
	QueueResume = operating("queue.resume")
	QueueLimit  = operating("queue.limit")
	QueuePurge  = operating("queue.purge")
	LimitList   = reading("limit.list")

	NodeList     = reading("node.list")
	NodeGet      = reading("node.get")
	NodeWait     = reading("node.wait")
	NodePing     = reading("node.ping") // one node, or all that should answer
	NodeDrain    = operating("node.drain")
	NodeUndrain  = operating("node.undrain")
	NodeCordon   = operating("node.cordon")
	NodeUncordon = operating("node.uncordon")
	NodeRelease  = operating("node.release")
	NodeLabel    = operating("node.label")
	NodeRetire   = operating("node.retire")

	JobList        = reading("job.list")
	JobGet         = reading("job.get")
	JobApply       = operating("job.apply")
	JobRemove      = operating("job.remove")
	CalendarList   = reading("calendar.list")
	CalendarGet    = reading("calendar.get")
	CalendarApply  = operating("calendar.apply")
	CalendarRemove = operating("calendar.remove")
	ScheduleApply  = operating("schedule.apply")
	ScheduleRemove = operating("schedule.remove")
	ScheduleList   = reading("schedule.list")
	ScheduleGet    = reading("schedule.get")
	ScheduleGrid   = reading("schedule.grid") // what became of planned runs, by days or hours
	ScheduleRun    = submitting("schedule.run")
	SchedulePause  = operating("schedule.pause")
	ScheduleResume = operating("schedule.resume")
	ScheduleNext   = reading("schedule.next")
	MonitorPing    = submitting("monitor.ping") // a program that runs elsewhere says how it is
	// ScheduleBackfill makes the tasks of past ticks; ScheduleProgress counts how many of them have
	// one.
	ScheduleBackfill = submitting("schedule.backfill")
	ScheduleProgress = reading("schedule.progress")
	// Histories of definitions.
	JobValidate     = reading("job.validate") // the text of a job file
	JobSchema       = reading("job.schema")   // of job files
	JobHistory      = reading("job.history")
	JobDiff         = reading("job.diff")
	ScheduleHistory = reading("schedule.history")
	ScheduleDiff    = reading("schedule.diff")
	CalendarHistory = reading("calendar.history")
	CalendarDiff    = reading("calendar.diff")

	BreakerGet   = reading("breaker.get")
	BreakerReset = operating("breaker.reset")

	FilesList   = reading("files.list")
	FilesGet    = reading("files.get")
	FilesDiff   = reading("files.diff")
	FilesVerify = reading("files.verify")
	FilesRemove = operating("files.remove")
	FilesSweep  = operating("files.gc")
	LogHorizon  = reading("log.horizon")
	ArchiveNote = operating("archive.note") // of what is removed
	LogVerify   = reading("log.verify")
	LogDiff     = reading("log.diff") // of everything
	LogReplay   = reading("log.replay")
	LogWhatIf   = reading("log.whatif")

	ServerHealth = reading("server.health")
)

// Verbs returns all verbs with one of these kinds of access.
func Verbs(of ...Access) (all []Verb) {
	for _, d := range declared {
		if slices.Contains(of, d.Access) {
			all = append(all, d.Verb)
		}
	}
	return all
}

// Access returns the access of the verb; "" for a verb that the service does not know.
func (v Verb) Access() Access {
	for _, d := range declared {
		if d.Verb == v {
			return d.Access
		}
	}
	return ""
}

// Own returns the verb that does the same for the caller's own tasks only, or for those about which it is asked; ""
// if there is none.
func (v Verb) Own() Verb {
	if of, verb, _ := strings.Cut(string(v), "."); of == "task" && Verb("own."+verb).Access() != "" {
		return Verb("own." + verb)
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
		return access == Submitting || access == Owning || access == Answering || v == TaskGet || v == ServerHealth
	case Viewer:
		return access == Reading || access == Answering
	case Pinger:
		return v == MonitorPing || v == ServerHealth
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
