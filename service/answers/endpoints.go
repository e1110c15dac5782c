package answers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Endpoint is one kind of request that the service answers, whichever way the request comes.
type Endpoint struct {
	Verb  rights.Verb
	About string
	// Request and Answer are the types of the request and the answer, as JSON.
	Request, Answer reflect.Type

	// Routes are where it is over HTTP. A verb for the caller's own tasks has none: there the token
	// says whose they are.
	Routes []Route

	// Once says that the answer takes reading the whole log, or asking all nodes: it is given once,
	// and cannot be followed ([ErrOnce]).
	Once bool

	// computes says that an answer takes the processors for as long as the text of the request makes
	// it, so that a caller is given one after the other, within its share of the pages being drawn.
	computes bool

	// Command is how it is typed on the command line; nil if that has commands of its own for it, or
	// none.
	Command *Command
	// Button is how pages offer it; nil if they do not, or have a form of its own for it. Of is the field of
	// the request that names the thing that it is about; "" if it is about many.
	Button *Button
	Of     string
	// Tool says that assistants have it as a tool; nil if they do not.
	Tool *Tool
	// Asked are commands of their own, as "task ls", which ask for it if their user may not read the log: a
	// viewer or a submitter. A command stands with one verb, and takes its role.
	Asked []string

	refused []string // kinds of problems beside the usual ones
	// do does what the text of a request asks for, and act what a checked request does, a pointer to
	// [Endpoint.Request].
	do  func(s *Service, ctx context.Context, body []byte) (any, error)
	act func(s *Service, ctx context.Context, request any) (any, error)
}

// Route is where the service over HTTP has an endpoint.
type Route struct {
	// Method and Path say where, below /api/v1. Braces hold a field of the request; the other fields
	// are in the query of a GET, or else in the body.
	Method, Path string
	// Only are the fields beside those in the path that this route takes. Default, nil: all.
	Only []string
}

// at adds a route, such as "GET /tasks/{id}".
func (e *Endpoint) at(route string) *Endpoint {
	method, path, _ := strings.Cut(route, " ")
	e.Routes = append(e.Routes, Route{Method: method, Path: path})
	return e
}

// only adds a route that takes, beside those of its path, only some fields of the request.
func (e *Endpoint) only(route string, fields ...string) *Endpoint {
	e.at(route)
	e.Routes[len(e.Routes)-1].Only = append([]string{}, fields...)
	return e
}

// asked adds commands that ask for it.
func (e *Endpoint) asked(commands ...string) *Endpoint {
	e.Asked = commands
	return e
}

// Tool is how an assistant asks for a verb.
type Tool struct {
	// Only are the fields of the request that it may set. Default, nil: all that a query can hold.
	Only []string
}

// tool gives assistants an endpoint.
func (e *Endpoint) tool(only ...string) *Endpoint {
	e.Tool = &Tool{only}
	return e
}

// checked is a request that can validate itself.
type checked interface{ check() error }

// check says what is wrong with a request, and completes it.
func check(request any) error {
	if c, ok := request.(checked); ok {
		if err := c.check(); err != nil {
			return badRequest{err}
		}
	}
	return nil
}

// nothing is a request without fields.
type nothing struct{}

// ErrOnce refuses followers of an answer that is given only once.
var ErrOnce error = badRequest{errors.New("nothing follows this answer, which takes reading the whole log or asking all nodes: ask for it as application/json")}

// once marks an endpoint as one that cannot be followed.
func once(e *Endpoint) *Endpoint {
	e.Once = true
	return e
}

// computing marks an endpoint whose answer takes the processors.
func computing(e *Endpoint) *Endpoint {
	e.computes = true
	return e
}

// on returns the endpoint that answers a request with the result of do, or refuses it with a problem
// of one of these kinds, or of a usual one. do gets a service that acts for the caller.
func on[R, A any](verb rights.Verb, about string, do func(s *Service, ctx context.Context, r R) (A, error), refused ...string) *Endpoint {
	return &Endpoint{
		Verb:    verb,
		About:   about,
		Request: reflect.TypeFor[R](),
		Answer:  reflect.TypeFor[A](),
		refused: refused,
		do: func(s *Service, ctx context.Context, body []byte) (any, error) {
			r, err := read[R](body)
			if err == nil {
				err = check(&r)
			}
			if err != nil {
				return nil, err
			}
			return do(s, ctx, r)
		},
		act: func(s *Service, ctx context.Context, request any) (any, error) { return do(s, ctx, *request.(*R)) },
	}
}

// Endpoints returns all endpoints.
func Endpoints() []Endpoint {
	all := make([]Endpoint, len(endpoints))
	for i, e := range endpoints {
		all[i] = *e
	}
	return all
}

// Kinds of problems of several endpoints: of those that make tasks, that change one, and that give
// an order to a node.
var (
	born    = []string{"no-job", "no-files", "no-calendar", "no-task", "key-taken", "id-taken", "id-old", "need-old", "queue-full"}
	acted   = []string{"no-task", "ended", "not-now"}
	ordered = []string{"no-node", "not-now"}
)

// Endpoints that are there for the caller's own tasks, too.
var (
	taskWait    = on(rights.TaskWait, `wait up to 20s until a task has ended: {"id":"…"}`, (*Service).waitTask, "no-task").at("GET /tasks/{id}/wait").asked("task wait").tool()
	taskWhy     = on(rights.TaskWhy, `why a task is where it is, and who must act next: {"id":"…"}, or as it was: {"id":"…","at":"1048211"}`, (*Service).why, "no-task").at("GET /tasks/{id}/why").asked("task why").tool()
	taskOutput  = on(rights.TaskOutput, `what a task has printed: {"id":"…","after":17,"limit":10}, or its last lines: {"id":"…","tail":20}`, (*Service).output, "no-task").at("GET /tasks/{id}/output").asked("task logs").tool()
	taskRecords = on(rights.TaskRecords, `what a task has produced: {"id":"…","after":17,"limit":10}`, (*Service).records, "no-task").at("GET /tasks/{id}/records").asked("task data", "task data ls", "task data tail", "task data export", "data ls", "data tail", "data export").tool()
)

// of is the endpoint of a verb that changes tasks.
func of(v rights.Verb) *Endpoint {
	return taskVerbs[slices.IndexFunc(taskVerbs, func(e *Endpoint) bool { return e.Verb == v })]
}

// letterVerbs take dead letters off the list.
var letterVerbs = slices.Concat(on(rights.DeadDismiss, `take a dead letter off the list: {"id":"…","reason":"…"}, or a message: {"seq":17,"reason":"…"}`, (*Service).dismiss, "no-task", "no-message", "not-now").only("POST /tasks/{id}/dismiss", "reason").only("POST /messages/{seq}/dismiss", "reason").button(Button{
	On: []string{"messages"}, Label: "Drop", Why: "It is taken off this list, and stays in the log.",
}).many(&dismissMany, `take all dead letters off the list that a filter chooses, up to 1000: {"filter":{"job":"hello"},"reason":"…","dry_run":true}`, Button{
	On: []string{"dead"}, Label: "Drop", Why: "They are taken off the list of dead letters, and stay as they ended.",
}), on(rights.DeadBack, `put a task back on the list of dead letters: {"id":"…","reason":"…"}`, acting((*client.Client).Undismiss), "no-task", "not-now").at("POST /tasks/{id}/undismiss").typed(&Command{
	Use: "task undismiss ID... | FILTERS", Short: "Put tasks back on the list of dead letters",
	Long: `Puts tasks back on the list of dead letters from which "millrace dlq rm" has taken them: the
named ones, or all that the filters choose, such as the batch of that command.` + chosen,
	Example: `  millrace task undismiss --batch 01JN0W1V6JZ2Z3XK5Q8R7T9Y4B`,
}).many(&backMany, `put all tasks back on the list of dead letters that a filter chooses, up to 1000: {"filter":{"batch":"…"}}`, Button{
	On: []string{"dismissed"}, Label: "Undo", Why: "They are put back on the list of dead letters.",
}))

// endpoints are all requests that the service answers: those that lie beside what is to be said of their
// commands, and the others.
var endpoints = slices.Concat(taskVerbs, nodeVerbs, queueVerbs, definitionVerbs, letterVerbs, []*Endpoint{
	on(rights.TaskSubmit, `make a task: {"job":"hello"} or {"spec":{"run":{"argv":["date"]}}}`, (*Service).submit, born...).at("POST /tasks").at("PUT /tasks/{id}").asked("run").tool("job", "params"),
	on(rights.TaskGet, `one task, from the log: {"id":"…"}`, (*Service).get, "no-task").at("GET /tasks/{id}").asked("task show").tool(),
	on(rights.TaskList, `tasks: {"states":["running"],"limit":10}`, (*Service).list).at("GET /tasks").asked("task ls").tool(),
	on(rights.RowList, `rows of all tasks as the read model stores them, in a form that may change with each version: {"limit":500,"after":"…"}`, (*Service).rows).at("GET /rows"),
	on(rights.DeadList, `messages that nobody can read: {"limit":10}`, (*Service).unreadable).at("GET /messages").asked("dlq ls", "dlq show"),
	on(rights.QueueList, `queues: {}, or one: {"queue":"crawl","rates":true}`, (*Service).queues, "no-queue").at("GET /queues").only("GET /queues/{queue}", "at", "at_least", "rates").asked("queue ls", "queue show").tool(),
	on(rights.QueueLimit, `how many may run and wait, how often one may start, 0 for any number, and who is told: {"queue":"crawl","running":4,"waiting":1000,"rate":{"limit":100,"per":"1m"},"notify":[{"to":["oncall"]}]}`, (*Service).limitQueue, "no-calendar", "overtaken", "changed").at("POST /queues/{queue}/limit").button(Button{
		Why: "Takes effect at once. 0 means no bound; an empty field stays as it is.", Asks: []Asked{
			{Name: "running", Label: "Most running", Is: filled(func(q *client.QueueView) string { return fmt.Sprint(q.Limit) })},
			{Name: "waiting", Label: "Most waiting", Is: filled(func(q *client.QueueView) string { return fmt.Sprint(q.MaxWaiting) })},
			{Name: "rate", Label: "Rate, as JSON", Is: filled(func(q *client.QueueView) string { return typed(value.JSON(q.Queue.Rate)) })},
		},
	}),
	on(rights.QueuePurge, `cancel what waits in a queue: {"queue":"crawl","reason":"…"}, or say how many it would be: {"queue":"crawl","dry_run":true}`, (*Service).purgeQueue).at("POST /queues/{queue}/purge"),
	on(rights.TasksCount, `count the tasks that one of these would change: {"for":"cancel","filter":{"queue":"crawl"}}`, (*Service).countMany).at("POST /tasks/count"),
	on(rights.LimitList, `limits and who holds them: {"limit":10,"holders":5}, or where a task stands: {"task":"…"}`, (*Service).limits).at("GET /limits").asked("limit ls", "limit show").tool(),
	on(rights.NodeList, `nodes: {}`, (*Service).nodes).at("GET /nodes").asked("node ls").tool(),
	on(rights.NodeGet, `one node, from the log: {"id":"node-1"}, or as it was: {"id":"node-1","at":"1048211"}`, (*Service).node, "no-node").at("GET /nodes/{id}").asked("node show").tool(),
	on(rights.NodeWait, `wait up to 20s until a node is ready: {"id":"node-1"}, or has been for a while: {"id":"node-1","stable":"20s"}`, (*Service).waitNode).at("GET /nodes/{id}/wait").asked("node wait"),
	on(rights.TaskCopy, `a new task that does what one did, with changes: {"id":"…","task":{"params":{…}}}`, (*Service).copy, born...).at("POST /tasks/{id}/copy").asked("task copy"),
	on(rights.TaskPlan, `which nodes may run it, and which rule excludes each other: {"job":"hello"}, {"spec":{…}} or {"id":"…"}`, (*Service).plan, "no-task", "no-job").only("GET /tasks/{id}/plan").at("POST /plan").asked("plan").tool(),
	on(rights.JobList, `jobs, with their schedules and latest tasks: {}`, (*Service).jobs).at("GET /jobs").asked("job ls").tool(),
	on(rights.ScheduleList, `schedules, with their latest tasks and skipped runs: {}`, (*Service).schedules).at("GET /schedules").asked("schedule ls").tool(),
	on(rights.ScheduleGet, `one schedule, what became of its planned runs and which come: {"name":"nightly","limit":20}`, (*Service).schedule, "no-schedule").at("GET /schedules/{name}").asked("schedule show").tool(),
	on(rights.ScheduleGrid, `what became of planned runs, by schedules and days or hours: {}, or of a job by hours: {"job":"hello","by":"hour"}`, (*Service).grid, "no-schedule").at("GET /grid").asked("schedule grid").tool(),
	on(rights.ScheduleRun, `make a task of it now: {"name":"nightly","task":{"params":{…}}}`, (*Service).runSchedule, append(slices.Clone(born), "no-schedule", "overlap")...).at("POST /schedules/{name}/run").button(Button{
		Label: "Run now", Why: "It makes a task now, whatever is planned, also while it is paused.",
		Asks: []Asked{{Name: "task", Label: "Changes, as JSON", Long: true, Is: filled(func(s *schedule.Stored) string {
			return typed(value.Indented(birth.Submission{Params: s.Make.Params}))
		})}},
	}),
	on(rights.MonitorPing, `say how the program is that a monitor watches, start, ok or fail: {"name":"backup","word":"fail","exit":3,"lines":"no space left"}`, (*Service).pingMonitor, "no-monitor", "not-now").at("POST /monitors/{name}/ping").asked("ping"),
	on(rights.ScheduleNext, `planned runs to come of all schedules: {"limit":20}, or of one: {"name":"nightly","from":"2026-03-01T00:00:00Z"}`, (*Service).ticks, "no-schedule").at("GET /schedules/{name}/next").at("GET /ticks").asked("schedule next"),
	on(rights.ScheduleBackfill, `make the tasks of planned runs that have passed: {"name":"nightly","from":"2026-03-01","to":"2026-03-08","max_parallel":4}, or say how many it would be: {…,"dry_run":true}`, (*Service).backfill, append(slices.Clone(born), "no-schedule")...).at("POST /schedules/{name}/backfill"),
	on(rights.ScheduleProgress, `how many of the planned runs of some time have a task, and how those stand: {"name":"nightly","from":"2026-03-01","to":"2026-03-08"}`, (*Service).backfilled, "no-schedule").at("GET /schedules/{name}/backfill"),
	on(rights.BreakerGet, `how the breaker of a job stands: {"name":"hello"}`, (*Service).breaker, "no-job").at("GET /jobs/{name}/breaker").asked("job breaker show"),
	on(rights.TaskBulk, `make tasks, of any kinds: {"tasks":[{"job":"hello"},{"spec":{…}}]}`, (*Service).bulk, born...).at("POST /bulk"),
	taskWait,
	mine(rights.OwnWait, taskWait),
	mine(rights.OwnSignal, of(rights.TaskSignal)),
	mine(rights.OwnReject, of(rights.TaskReject)),
	taskWhy,
	mine(rights.OwnWhy, taskWhy),
	on(rights.TaskTree, `a task with those into which it was expanded: {"id":"…"}, or as it was: {"id":"…","at":"1048211"}`, (*Service).tree, "no-task").at("GET /tasks/{id}/tree").asked("task tree").tool(),
	on(rights.TaskDiff, `how two tasks differ: {"id":"…","with":"…"}, or one at two moments: {"id":"…","at":"1048211"}`, (*Service).diff, "no-task").at("GET /tasks/{id}/diff").asked("task diff").tool(),
	on(rights.TaskEvents, `the facts about a task: {"id":"…"}, or those up to a moment: {"id":"…","at":"1048211"}`, (*Service).history, "no-task").at("GET /tasks/{id}/events").asked("task events", "task attempts"),
	taskOutput,
	mine(rights.OwnOutput, taskOutput),
	taskRecords,
	mine(rights.OwnRecords, taskRecords),
	on(rights.TaskFiles, `the files that the attempts of a task have left: {"id":"…"}`, (*Service).artifacts, "no-task").at("GET /tasks/{id}/artifacts").asked("task artifacts"),
	on(rights.TaskTrace, `an OpenTelemetry trace of a task and all below it, in the JSON form of OTLP: {"id":"…"}`, (*Service).trace, "no-task").at("GET /tasks/{id}/trace").asked("task trace"),
	on(rights.EventList, `the log itself: {"from":1048211,"limit":100}`, (*Service).events).at("GET /events").asked("events tail", "events show", "events export", "node events").tool(),
	on(rights.Attention, `what goes on only when a person acts, and what failed within a day, by cause: {}`, (*Service).attention).at("GET /attention").asked("attention").tool(),
	on(rights.LogHorizon, `what the log keeps, and what holds it back: {}`, (*Service).horizon).at("GET /horizon").asked("horizon"),
	on(rights.ArchiveNote, `note that segments of an archive are removed now: {"archive":"/past","segments":["…"]}`, (*Service).noteArchive).at("POST /archive/note").asked("archive rm"),
	once(on(rights.LogVerify, `hold the log against the promises: {}, or a range of it: {"from":1048211,"to":1050000,"rules":["I-3"]}`, (*Service).verify)).at("GET /verify").asked("verify"),
	once(on(rights.LogDiff, `what changed between two moments: {"at":"12:00","until":"12:30"}, or between one and now: {"at":"-10m","queue":"crawl"}`, (*Service).diffAll)).at("GET /diff").asked("diff").tool(),
	once(on(rights.LogReplay, `the steps of the log, each with what it changed, what was decided and who owed what: {"from":"-10m","task":"…","limit":20}`, (*Service).replay)).at("GET /replay").asked("replay").tool(),
	on(rights.LogWhatIf, `which recorded decisions would have been different under other settings: {"set":["retry.max=5"],"job":"crawl","from":"-1h"}`, (*Service).whatif).at("POST /whatif").asked("whatif"),
	on(rights.FilesList, `names of bundles: {}, or the versions of one: {"name":"app"}`, (*Service).bundles, "no-files").at("GET /files").asked("files ls"),
	on(rights.FilesGet, `what is in a version: {"version":"app@1f2e3d4c","limit":100}`, (*Service).bundle, "no-files").at("GET /files/{version}").asked("files show"),
	on(rights.FilesDiff, `what is different in another version: {"version":"app@1f2e3d4c","with":"app"}`, (*Service).diffBundles, "no-files").at("GET /files/{version}/diff").asked("files diff"),
	on(rights.FilesVerify, `read a version from the store and hold it against its digests: {"version":"app"}`, (*Service).checkBundle, "no-files").at("GET /files/{version}/verify"),
	on(rights.FilesSweep, `remove versions and contents that nothing needs: {"keep":5}, or say what that would be: {"dry_run":true}`, (*Service).sweepFiles).at("POST /files/gc"),
	once(on(rights.NodePing, `ask processes of nodes whether they are up: {"id":"node-1"}, or those of all nodes that should be: {}`, (*Service).ping, "no-node")).only("GET /pings", "timeout", "limit", "cursor").only("GET /nodes/{id}/ping", "timeout").asked("node ping"),
	on(rights.JobGet, `one job: {"name":"hello"}, or as it was: {"name":"hello","revision":2}`, (*Service).job, "no-job").at("GET /jobs/{name}").asked("job show").tool(),
	on(rights.JobApply, `store a job: {"name":"hello","definition":{"run":{"argv":["date"]}}}`, (*Service).applyJob, "no-calendar", "overtaken", "changed").at("PUT /jobs/{name}"),
	computing(on(rights.JobValidate, `check the text of a job file, and store nothing: {"text":"name: hello\nrun: date\n"}`, (*Service).validateJobs)).at("POST /jobs/validate"),
	on(rights.JobSchema, `the JSON Schema of a job file, for editors: {}`, (*Service).jobSchema).at("GET /schemas/job"),
	on(rights.CalendarList, `calendars: {}`, (*Service).calendars).at("GET /calendars").asked("calendar ls"),
	on(rights.CalendarGet, `one calendar: {"name":"office"}, or as it was: {"name":"office","revision":2}`, (*Service).calendar, "no-calendar").at("GET /calendars/{name}").asked("calendar show"),
	on(rights.CalendarApply, `store a calendar: {"name":"office","definition":{"rules":[…]}}`, (*Service).applyCalendar, "overtaken", "changed").at("PUT /calendars/{name}"),
	on(rights.ScheduleApply, `store a schedule: {"name":"nightly","definition":{"schedule":{…},"task":{"job":"hello"}}}`, (*Service).applySchedule, "no-job", "no-calendar", "overtaken", "changed").at("PUT /schedules/{name}"),
	on(rights.JobHistory, `the changes of a job: {"name":"…"}`, changesOf(task.DefJob, definitions.ErrNoJob), "no-job").at("GET /jobs/{name}/history").asked("job history").tool(),
	on(rights.JobDiff, `how two jobs differ: {"name":"…","with":"…"}, or one at two moments: {"name":"…","at":"1048211"}`, differing(task.DefJob, definitions.JobIn), "no-job").at("GET /jobs/{name}/diff").asked("job diff").tool(),
	on(rights.ScheduleHistory, `the changes of a schedule: {"name":"…"}`, changesOf(task.DefSchedule, definitions.ErrNoSchedule), "no-schedule").at("GET /schedules/{name}/history"),
	on(rights.ScheduleDiff, `how two schedules differ: {"name":"…","with":"…"}, or one at two moments: {"name":"…","at":"1048211"}`, differing(task.DefSchedule, definitions.ScheduleIn), "no-schedule").at("GET /schedules/{name}/diff").asked("schedule diff"),
	on(rights.CalendarHistory, `the changes of a calendar: {"name":"…"}`, changesOf(task.DefCalendar, definitions.ErrNoCalendar), "no-calendar").at("GET /calendars/{name}/history").asked("calendar history"),
	on(rights.CalendarDiff, `how two calendars differ: {"name":"…","with":"…"}, or one at two moments: {"name":"…","at":"1048211"}`, differing(task.DefCalendar, definitions.CalendarIn), "no-calendar").at("GET /calendars/{name}/diff").asked("calendar diff"),
	on(rights.ServerHealth, `whether the log takes messages: {}`, (*Service).health).at("GET /health").asked("mcp"),
})

// as returns the service acting for a caller, which is named in all facts that it writes. No field
// of a request can name another caller.
func (s *Service) as(caller string) *Service {
	own := *s
	own.Client = s.Client.As(caller)
	return &own
}

// listen registers the endpoints of the service.
func (s *Service) listen(svc micro.Service, desk *natsDesk) error {
	for _, e := range endpoints {
		err := svc.AddEndpoint(strings.ReplaceAll(string(e.Verb), ".", "-"), desk.handler(e), micro.WithEndpointSubject(e.Verb.Endpoint()),
			micro.WithEndpointMetadata(map[string]string{"description": e.About, "access": string(e.Verb.Access())}))
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", e.Verb, err)
		}
	}
	return nil
}

// refuseMisaddressed answers requests whose subject does not name the caller, until stop is called.
func (s *Service) refuseMisaddressed(desk *natsDesk) (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // it fails if the connection has ended
		}
	}
	for _, subject := range rights.Misaddressed() {
		sub, err := s.Conn.QueueSubscribe(subject, micro.DefaultQueueGroup, desk.misaddressed)
		if err != nil {
			stop()
			return nil, err
		}
		subs = append(subs, sub)
	}
	return stop, nil
}

// misaddressed answers a request on a subject with too few tokens, or too many.
func (d *natsDesk) misaddressed(m *nats.Msg) {
	if !rights.Answerable(m.Reply) {
		return
	}
	_, err := rights.CallerOf(m.Subject)
	answer := nats.NewMsg(m.Reply)
	answer.Header.Set(micro.ErrorCodeHeader, "400")
	answer.Header.Set(micro.ErrorHeader, err.Error())
	d.respond(m.RespondMsg(answer))
}
