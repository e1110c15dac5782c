package api

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/client"
	"millrace/jet/definitions"
	"millrace/jet/roles"
	"millrace/node"
	"millrace/task/definition"
)

// Endpoint is one kind of request that the service answers, whichever way the request comes.
type Endpoint struct {
	Verb  roles.Verb
	About string
	// Request and Answer are the types of the request and the answer, as JSON.
	Request, Answer reflect.Type

	// Once says that the answer takes reading the whole log, or asking all nodes: it is given once,
	// and cannot be followed ([ErrOnce]).
	Once bool

	// computes says that an answer takes the processors for as long as the text of the request makes
	// it, so that a caller is given one after the other, within its share of the pages being drawn.
	computes bool

	refused []string // kinds of problems beside the usual ones
	do      func(s *Service, ctx context.Context, body []byte) (any, error)
}

// checked is a request that can validate itself.
type checked interface{ check() error }

// nothing is a request without fields.
type nothing struct{}

// ErrOnce refuses followers of an answer that is given only once.
var ErrOnce error = badRequest{errors.New("nothing follows this answer, which takes reading the whole log or asking all nodes: ask for it as application/json")}

// once marks an endpoint as one that cannot be followed.
func once(e Endpoint) Endpoint {
	e.Once = true
	return e
}

// computing marks an endpoint whose answer takes the processors.
func computing(e Endpoint) Endpoint {
	e.computes = true
	return e
}

// on returns the endpoint that answers a request with the result of do, or refuses it with a problem
// of one of these kinds, or of a usual one. do gets a service that acts for the caller.
func on[R, A any](verb roles.Verb, about string, do func(s *Service, ctx context.Context, r R) (A, error), refused ...string) Endpoint {
	return Endpoint{
		Verb:    verb,
		About:   about,
		Request: reflect.TypeFor[R](),
		Answer:  reflect.TypeFor[A](),
		refused: refused,
		do: func(s *Service, ctx context.Context, body []byte) (any, error) {
			r, err := read[R](body)
			if err != nil {
				return nil, err
			}
			if c, ok := any(&r).(checked); ok {
				if err := c.check(); err != nil {
					return nil, badRequest{err}
				}
			}
			return do(s, ctx, r)
		},
	}
}

// Endpoints returns all endpoints.
func Endpoints() []Endpoint { return slices.Clone(endpoints) }

// Kinds of problems of several endpoints: of those that make tasks, that change one, and that give
// an order to a node.
var (
	born    = []string{"no-job", "no-files", "no-calendar", "no-task", "key-taken", "id-taken", "queue-full"}
	acted   = []string{"no-task", "ended", "not-now"}
	ordered = []string{"no-node", "not-now"}
)

// Endpoints that are there for the caller's own tasks, too.
var (
	taskWait    = on(roles.TaskWait, `wait up to 20s until a task has ended: {"id":"…"}`, (*Service).waitTask, "no-task")
	taskWhy     = on(roles.TaskWhy, `why a task is where it is, and who must act next: {"id":"…"}, or as it was: {"id":"…","at":"1048211"}`, (*Service).why, "no-task")
	taskOutput  = on(roles.TaskOutput, `what a task has printed: {"id":"…","after":17,"limit":10}`, (*Service).output, "no-task")
	taskRecords = on(roles.TaskRecords, `what a task has produced: {"id":"…","after":17,"limit":10}`, (*Service).records, "no-task")
)

// endpoints are all requests that the service answers.
var endpoints = []Endpoint{
	on(roles.TaskSubmit, `make a task: {"job":"hello"} or {"spec":{"run":{"argv":["date"]}}}`, (*Service).submit, born...),
	on(roles.TaskGet, `one task, from the log: {"id":"…"}`, (*Service).get, "no-task"),
	on(roles.TaskList, `tasks: {"states":["running"],"limit":10}`, (*Service).list),
	on(roles.RowList, `rows of all tasks as the read model stores them, in a form that may change with each version: {"limit":500,"after":"…"}`, (*Service).rows),
	on(roles.TaskCancel, `cancel a task: {"id":"…","reason":"…"}`, acting((*client.Client).Cancel), acted...),
	on(roles.TaskRelease, `let any node take a task that waits for certain ones: {"id":"…","reason":"…"}`, acting((*client.Client).Release), acted...),
	on(roles.DeadList, `messages that nobody can read: {"limit":10}`, (*Service).unreadable),
	on(roles.QueueList, `queues: {}, or one: {"queue":"crawl","rates":true}`, (*Service).queues, "no-queue"),
	on(roles.QueuePause, `start nothing of a queue: {"queue":"crawl","reason":"…","for":"1h"}`, (*Service).pauseQueue),
	on(roles.QueueResume, `end a pause: {"queue":"crawl"}`, (*Service).resumeQueue),
	on(roles.QueueLimit, `how many may run and wait, and how often one may start, 0 for any number: {"queue":"crawl","running":4,"waiting":1000,"rate":{"limit":100,"per":"1m"}}`, (*Service).limitQueue, "no-calendar", "overtaken", "changed"),
	on(roles.QueuePurge, `cancel what waits in a queue: {"queue":"crawl","reason":"…"}, or say how many it would be: {"queue":"crawl","dry_run":true}`, (*Service).purgeQueue),
	on(roles.TasksCancel, `cancel all tasks that a filter chooses, up to 1000: {"filter":{"queue":"crawl"},"reason":"…","dry_run":true}`, many(&client.CancelMany)),
	on(roles.TasksRetry, `give all tasks another life that a filter chooses, up to 1000: {"filter":{"job":"hello","states":["error"]},"dry_run":true}`, many(&client.RetryMany)),
	on(roles.TasksSignal, `give all tasks that a filter chooses the signal that they wait for, up to 1000: {"filter":{"job":"release"},"data":{…},"dry_run":true}`, (*Service).signalMany),
	on(roles.TasksDismiss, `take all dead letters off the list that a filter chooses, up to 1000: {"filter":{"job":"hello"},"reason":"…","dry_run":true}`, many(&client.DismissMany)),
	on(roles.TasksCount, `count the tasks that one of these would change: {"for":"cancel","filter":{"queue":"crawl"}}`, (*Service).countMany),
	on(roles.LimitList, `limits and who holds them: {"limit":10,"holders":5}, or where a task stands: {"task":"…"}`, (*Service).limits),
	on(roles.DeadDismiss, `take a dead letter off the list: {"id":"…","reason":"…"}, or a message: {"seq":17,"reason":"…"}`, (*Service).dismiss, "no-task", "no-message", "not-now"),
	on(roles.NodeList, `nodes: {}`, (*Service).nodes),
	on(roles.NodeGet, `one node, from the log: {"id":"node-1"}, or as it was: {"id":"node-1","at":"1048211"}`, (*Service).node, "no-node"),
	on(roles.NodeWait, `wait up to 20s until a node is ready: {"id":"node-1"}, or has been for a while: {"id":"node-1","stable":"20s"}`, (*Service).waitNode),
	on(roles.NodeDrain, `no new work, and what runs ends or is given back: {"id":"node-1","reason":"…","grace":"1m"}`, (*Service).drain, ordered...),
	on(roles.NodeUndrain, `take work again: {"id":"node-1"}`, order(node.OrderServe), ordered...),
	on(roles.NodeCordon, `no new work: {"id":"node-1","reason":"…"}`, order(node.OrderCordon), ordered...),
	on(roles.NodeUncordon, `take work again: {"id":"node-1"}`, order(node.OrderServe), ordered...),
	on(roles.TaskSignal, `give a task the signal that it waits for: {"id":"…","data":{…},"reason":"…"}`, (*Service).signal, acted...),
	on(roles.TaskRetry, `give a task that has ended another life: {"id":"…","reason":"…"}`, acting((*client.Client).Retry), append(slices.Clone(acted), "key-taken", "queue-full")...),
	on(roles.TaskCopy, `a new task that does what one did, with changes: {"id":"…","task":{"params":{…}}}`, (*Service).copy, born...),
	on(roles.TaskPlan, `which nodes may run it, and which rule excludes each other: {"job":"hello"}, {"spec":{…}} or {"id":"…"}`, (*Service).plan, "no-task", "no-job"),
	on(roles.NodeLabel, `change labels of a node, null removes one: {"id":"node-1","labels":{"zone":"eu","gpu":null}}`, (*Service).labelNode, ordered...),
	on(roles.JobList, `jobs, with their schedules and latest tasks: {}`, (*Service).jobs),
	on(roles.ScheduleList, `schedules, with their latest tasks and skipped ticks: {}`, (*Service).schedules),
	on(roles.ScheduleGet, `one schedule, what became of its ticks and which come: {"name":"nightly","limit":20}`, (*Service).schedule, "no-schedule"),
	on(roles.SchedulePause, `keep a schedule from making tasks: {"name":"nightly","reason":"…"}`, toggle((*client.Client).PauseSchedule), "no-schedule"),
	on(roles.ScheduleResume, `let it make tasks again, from now on: {"name":"nightly"}`, toggle((*client.Client).ResumeSchedule), "no-schedule"),
	on(roles.ScheduleRun, `make a task of it now: {"name":"nightly","task":{"params":{…}}}`, (*Service).runSchedule, append(slices.Clone(born), "no-schedule", "overlap")...),
	on(roles.ScheduleNext, `ticks to come of all schedules: {"limit":20}, or of one: {"name":"nightly","from":"2026-03-01T00:00:00Z"}`, (*Service).ticks, "no-schedule"),
	on(roles.ScheduleBackfill, `make the tasks of ticks that have passed: {"name":"nightly","from":"2026-03-01","to":"2026-03-08","max_parallel":4}, or say how many it would be: {…,"dry_run":true}`, (*Service).backfill, append(slices.Clone(born), "no-schedule")...),
	on(roles.ScheduleProgress, `how many of the ticks of some time have a task, and how those stand: {"name":"nightly","from":"2026-03-01","to":"2026-03-08"}`, (*Service).backfilled, "no-schedule"),
	on(roles.BreakerGet, `how the breaker of a job stands: {"name":"hello"}`, (*Service).breaker, "no-job"),
	on(roles.BreakerReset, `close the breaker of a job: {"name":"hello","reason":"…"}`, (*Service).resetBreaker, "no-job"),
	on(roles.NodeRelease, `end a quarantine: {"id":"node-1"}`, changing((*client.Client).ReleaseNode), ordered...),
	on(roles.TaskBulk, `make tasks, of any kinds: {"tasks":[{"job":"hello"},{"spec":{…}}]}`, (*Service).bulk, born...),
	on(roles.TaskEdit, `give a task that waits another priority: {"id":"…","priority":8}`, (*Service).edit, acted...),
	taskWait,
	mine(roles.OwnWait, taskWait),
	taskWhy,
	mine(roles.OwnWhy, taskWhy),
	on(roles.TaskTree, `a task with those into which it was expanded: {"id":"…"}, or as it was: {"id":"…","at":"1048211"}`, (*Service).tree, "no-task"),
	on(roles.TaskDiff, `how two tasks differ: {"id":"…","with":"…"}, or one at two moments: {"id":"…","at":"1048211"}`, (*Service).diff, "no-task"),
	on(roles.TaskEvents, `the facts about a task: {"id":"…"}, or those up to a moment: {"id":"…","at":"1048211"}`, (*Service).history, "no-task"),
	taskOutput,
	mine(roles.OwnOutput, taskOutput),
	taskRecords,
	mine(roles.OwnRecords, taskRecords),
	on(roles.TaskFiles, `the files that the attempts of a task have left: {"id":"…"}`, (*Service).artifacts, "no-task"),
	on(roles.TaskTrace, `an OpenTelemetry trace of a task and all below it, in the JSON form of OTLP: {"id":"…"}`, (*Service).trace, "no-task"),
	on(roles.EventList, `the log itself: {"from":1048211,"limit":100}`, (*Service).events),
	once(on(roles.LogVerify, `hold the log against the promises: {}, or a range of it: {"from":1048211,"to":1050000,"rules":["I-3"]}`, (*Service).verify)),
	once(on(roles.LogDiff, `what changed between two moments: {"at":"12:00","until":"12:30"}, or between one and now: {"at":"-10m","queue":"crawl"}`, (*Service).diffAll)),
	once(on(roles.LogReplay, `the steps of the log, each with what it changed, what was decided and who owed what: {"from":"-10m","task":"…","limit":20}`, (*Service).replay)),
	on(roles.LogWhatIf, `which recorded decisions would have been different under other settings: {"set":["retry.max=5"],"job":"crawl","from":"-1h"}`, (*Service).whatif),
	on(roles.FilesList, `names of bundles: {}, or the versions of one: {"name":"app"}`, (*Service).bundles, "no-files"),
	on(roles.FilesGet, `what is in a version: {"version":"app@1f2e3d4c","limit":100}`, (*Service).bundle, "no-files"),
	on(roles.FilesDiff, `what is different in another version: {"version":"app@1f2e3d4c","with":"app"}`, (*Service).diffBundles, "no-files"),
	on(roles.FilesVerify, `read a version from the store and hold it against its digests: {"version":"app"}`, (*Service).checkBundle, "no-files"),
	on(roles.FilesRemove, `remove the name of a bundle; gc removes what nothing needs: {"name":"app"}`, removing((*client.Client).RemoveBundle), "no-files", "changed"),
	on(roles.FilesSweep, `remove versions and contents that nothing needs: {"keep":5}, or say what that would be: {"dry_run":true}`, (*Service).sweepFiles),
	once(on(roles.NodePing, `ask processes of nodes whether they are up: {"id":"node-1"}, or those of all nodes that should be: {}`, (*Service).ping, "no-node")),
	on(roles.NodeRetire, `say that a node does not come back: {"id":"node-1","reason":"…"}`, changing((*client.Client).RetireNode), ordered...),
	on(roles.JobGet, `one job: {"name":"hello"}, or as it was: {"name":"hello","revision":2}`, (*Service).job, "no-job"),
	on(roles.JobApply, `store a job: {"name":"hello","definition":{"run":{"argv":["date"]}}}`, (*Service).applyJob, "no-calendar", "overtaken", "changed"),
	computing(on(roles.JobValidate, `check the text of a job file, and store nothing: {"text":"name: hello\nrun: date\n"}`, (*Service).validateJobs)),
	on(roles.JobSchema, `the JSON Schema of a job file, for editors: {}`, (*Service).jobSchema),
	on(roles.JobRemove, `remove a job and the schedules that came with it; its tasks stay: {"name":"hello"}`, removing((*client.Client).RemoveJob), "no-job", "job-in-use", "changed"),
	on(roles.CalendarList, `calendars: {}`, (*Service).calendars),
	on(roles.CalendarGet, `one calendar: {"name":"office"}, or as it was: {"name":"office","revision":2}`, (*Service).calendar, "no-calendar"),
	on(roles.CalendarApply, `store a calendar: {"name":"office","definition":{"rules":[…]}}`, (*Service).applyCalendar, "overtaken", "changed"),
	on(roles.CalendarRemove, `remove a calendar: {"name":"office"}`, removing((*client.Client).RemoveCalendar), "no-calendar", "changed"),
	on(roles.ScheduleApply, `store a schedule: {"name":"nightly","definition":{"schedule":{…},"task":{"job":"hello"}}}`, (*Service).applySchedule, "no-job", "no-calendar", "overtaken", "changed"),
	on(roles.ScheduleRemove, `remove a schedule; its tasks stay: {"name":"nightly"}`, removing((*client.Client).RemoveSchedule), "no-schedule", "changed"),
	on(roles.JobHistory, `the changes of a job: {"name":"…"}`, changesOf(definition.DefJob, definitions.ErrNoJob), "no-job"),
	on(roles.JobDiff, `how two jobs differ: {"name":"…","with":"…"}, or one at two moments: {"name":"…","at":"1048211"}`, differing(definition.DefJob, definitions.JobIn), "no-job"),
	on(roles.ScheduleHistory, `the changes of a schedule: {"name":"…"}`, changesOf(definition.DefSchedule, definitions.ErrNoSchedule), "no-schedule"),
	on(roles.ScheduleDiff, `how two schedules differ: {"name":"…","with":"…"}, or one at two moments: {"name":"…","at":"1048211"}`, differing(definition.DefSchedule, definitions.ScheduleIn), "no-schedule"),
	on(roles.CalendarHistory, `the changes of a calendar: {"name":"…"}`, changesOf(definition.DefCalendar, definitions.ErrNoCalendar), "no-calendar"),
	on(roles.CalendarDiff, `how two calendars differ: {"name":"…","with":"…"}, or one at two moments: {"name":"…","at":"1048211"}`, differing(definition.DefCalendar, definitions.CalendarIn), "no-calendar"),
	on(roles.ServerHealth, `whether the log takes messages: {}`, (*Service).health),
}

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
		err := svc.AddEndpoint(strings.ReplaceAll(string(e.Verb), ".", "-"), desk.handler(&e), micro.WithEndpointSubject(e.Verb.Endpoint()),
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
	for _, subject := range roles.Misaddressed() {
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
	if !roles.Answerable(m.Reply) {
		return
	}
	_, err := roles.CallerOf(m.Subject)
	answer := nats.NewMsg(m.Reply)
	answer.Header.Set(micro.ErrorCodeHeader, "400")
	answer.Header.Set(micro.ErrorHeader, err.Error())
	d.respond(m.RespondMsg(answer))
}
