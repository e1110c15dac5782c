package api

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	"github.com/rs/zerolog"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/projections"
	"millrace/task"
)

// Bounds of an answer.
const (
	// patience is how long a request may take, whatever it waits for.
	patience = 25 * time.Second
	// watchFor is how long a list waits for a change that it was asked to wait for.
	watchFor = 20 * time.Second
)

// Service answers for one server process. Several answer side by side; each
// request goes to one of them.
type Service struct {
	Conn    *nats.Conn
	Client  *client.Client
	View    *projections.Store
	Version string // a semantic version
	// Nodes are the numbers by which it says what must happen to a node.
	Nodes node.Settings
	// Now is the time by which heartbeats are late. Default: that of Client.
	Now func() time.Time
	// Limits knows which tasks wait for which limits. Default: nobody does.
	Limits Limits
	// Wrong says why the log takes no messages; nil if it does. Default: nothing is known.
	Wrong func() error
	// Ready is called once, when the service answers. Default: nobody is told.
	Ready func()
	Log   zerolog.Logger
}

// Run answers requests until ctx ends and the last one is answered.
func (s *Service) Run(ctx context.Context) error {
	svc, err := micro.AddService(s.Conn, micro.Config{
		Name: "millrace", Version: s.Version,
		Description: "submit, look at and cancel tasks, see to nodes; docs/nats-cli.md has examples",
		Metadata:    map[string]string{"millrace": "1"},
	})
	if err != nil {
		return fmt.Errorf("service: %w", err)
	}
	desk := newDesk(ctx, int(s.Conn.MaxPayload()), s.Wrong, s.Log)
	for _, e := range []struct {
		name, subject, about string
		answer               func(context.Context, []byte) (any, error)
	}{
		{"task-submit", client.SubmitSubject, `make a task: {"job":"hello"} or {"spec":{"run":{"argv":["date"]}}}`, s.submit},
		{"task-get", client.GetSubject, `one task, from the log: {"id":"…"}`, s.get},
		{"task-list", client.ListSubject, `tasks: {"states":["running"],"limit":10}`, s.list},
		{"task-cancel", client.CancelSubject, `cancel a task: {"id":"…","reason":"…"}`, s.cancel},
		{"task-release", client.ReleaseSubject, `let any node take a task that waits for certain ones: {"id":"…","reason":"…"}`, s.release},
		{"dead-list", client.DeadListSubject, `messages that nobody can read: {"limit":10}`, s.unreadable},
		{"queue-list", client.QueueListSubject, `queues: {}, or one: {"queue":"crawl","rates":true}`, s.queues},
		{"queue-pause", client.QueuePauseSubject, `start nothing of a queue: {"queue":"crawl","reason":"…","for":"1h"}`, onQueue(s.pauseQueue)},
		{"queue-resume", client.QueueResumeSubject, `end a pause: {"queue":"crawl"}`, onQueue(s.resumeQueue)},
		{"queue-limit", client.QueueLimitSubject, `how many may run and wait, and how often one may start, 0 for any number: {"queue":"crawl","running":4,"waiting":1000,"rate":{"limit":100,"per":"1m"}}`, onQueue(s.limitQueue)},
		{"limit-list", client.LimitListSubject, `limits and who holds them: {"limit":10,"holders":5}, or where a task stands: {"task":"…"}`, s.limits},
		{"dead-dismiss", client.DeadDismissSubject, `take a dead letter off the list: {"id":"…","reason":"…"}, or a message: {"seq":17,"reason":"…"}`, s.dismiss},
		{"node-list", client.NodeListSubject, `nodes: {}`, s.nodes},
		{"node-get", client.NodeGetSubject, `one node, from the log: {"id":"node-1"}`, s.node},
		{"node-wait", client.NodeWaitSubject, `wait up to 20s until a node is ready: {"id":"node-1"}, or has been for a while: {"id":"node-1","stable":"20s"}`, s.waitNode},
		{"node-drain", client.NodeDrainSubject, `no new work, and what runs ends or is given back: {"id":"node-1","reason":"…","grace":"1m"}`, s.order(node.OrderDrain)},
		{"node-undrain", client.NodeUndrainSubject, `take work again: {"id":"node-1"}`, s.order(node.OrderServe)},
		{"node-cordon", client.NodeCordonSubject, `no new work: {"id":"node-1","reason":"…"}`, s.order(node.OrderCordon)},
		{"node-uncordon", client.NodeUncordonSubject, `take work again: {"id":"node-1"}`, s.order(node.OrderServe)},
		{"task-signal", client.SignalSubject, `give a task the signal that it waits for: {"id":"…","data":{…},"reason":"…"}`, s.signal},
		{"task-retry", client.RetrySubject, `give a task that has ended another life: {"id":"…","reason":"…"}`, s.retry},
		{"task-copy", client.CopySubject, `a new task that does what one did, with changes: {"id":"…","task":{"params":{…}}}`, s.copy},
		{"task-plan", client.PlanSubject, `which nodes may run it, and which rule excludes each other: {"job":"hello"}, {"spec":{…}} or {"id":"…"}`, s.plan},
		{"node-label", client.NodeLabelSubject, `change labels of a node, null removes one: {"id":"node-1","labels":{"zone":"eu","gpu":null}}`, s.labelNode},
		{"job-list", client.JobListSubject, `jobs, with their schedules and latest tasks: {}`, s.jobs},
		{"schedule-list", client.ScheduleListSubject, `schedules, with their latest tasks and skipped ticks: {}`, s.schedules},
		{"schedule-get", client.ScheduleGetSubject, `one schedule, what became of its ticks and which come: {"name":"nightly","limit":20}`, s.schedule},
		{"schedule-pause", client.SchedulePauseSubject, `keep a schedule from firing: {"name":"nightly","reason":"…"}`, s.toggle((*client.Client).PauseSchedule)},
		{"schedule-resume", client.ScheduleResumeSubject, `let it fire again, from now on: {"name":"nightly"}`, s.toggle((*client.Client).ResumeSchedule)},
		{"schedule-run", client.ScheduleRunSubject, `make a task of it now: {"name":"nightly","task":{"params":{…}}}`, s.runSchedule},
		{"node-release", client.NodeReleaseSubject, `end a quarantine: {"id":"node-1"}`, s.releaseNode},
		{"health", client.HealthSubject, `whether the log takes messages: {}`, s.health},
	} {
		err := svc.AddEndpoint(e.name, desk.handler(e.answer), micro.WithEndpointSubject(e.subject),
			micro.WithEndpointMetadata(map[string]string{"description": e.about}))
		if err != nil {
			return errors.Join(fmt.Errorf("service: endpoint %s: %w", e.name, err), svc.Stop())
		}
	}
	if s.Ready != nil {
		_ = s.Conn.FlushTimeout(patience) // as long as the server cannot be reached, nobody can ask either
		s.Ready()
	}
	<-ctx.Done()
	err = svc.Stop()
	desk.working.Wait()
	return err
}

// health answers without asking the log.
func (s *Service) health(_ context.Context, body []byte) (any, error) {
	var h client.Health
	if _, err := read[struct{}](body); err != nil {
		return nil, err
	}
	if s.Wrong != nil {
		if err := s.Wrong(); err != nil {
			h.Log = err.Error()
		}
	}
	return h, nil
}

// codeOf turns an error into a code as HTTP has them.
func codeOf(err error) string {
	var bad badRequest
	var large tooLarge
	_, full := jet.Full(err)
	switch {
	case errors.As(err, &large):
		return "413"
	case errors.As(err, new(busy)):
		return "503"
	case full, errors.Is(err, events.ErrMute):
		return "507"
	case errors.As(err, &bad), errors.Is(err, client.ErrInvalid), errors.Is(err, jet.ErrBadJob), errors.Is(err, events.ErrTooLarge),
		errors.Is(err, node.ErrBadLabel), errors.Is(err, node.ErrOwnLabel):
		return "400"
	case errors.Is(err, task.ErrUnknown), errors.Is(err, jet.ErrNoJob), errors.Is(err, jet.ErrNoSchedule), errors.Is(err, node.ErrUnknown), errors.Is(err, client.ErrNoMessage):
		return "404"
	case errors.As(err, new(*events.Taken)), errors.Is(err, client.ErrOther), errors.Is(err, task.ErrEnded), errors.Is(err, task.ErrRunning), errors.Is(err, task.ErrShared), errors.Is(err, task.ErrNotWaiting), errors.Is(err, task.ErrNotHeld),
		errors.Is(err, task.ErrNotDead), errors.Is(err, client.ErrReadable),
		errors.Is(err, node.ErrRetired), errors.Is(err, node.ErrAlive):
		return "409"
	case errors.Is(err, task.ErrQueueFull), errors.Is(err, jet.ErrManySelectors):
		return "429"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, events.ErrUnknown):
		return "504"
	}
	return "500"
}

// badRequest says what is wrong with a request.
type badRequest struct{ error }
