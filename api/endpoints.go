package api

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/client"
	"millrace/jet"
	"millrace/node"
)

// endpoints are what the service can be asked for. Each is answered by a service that acts for who asks.
var endpoints = []struct {
	verb   jet.Verb
	about  string
	answer func(s *Service, ctx context.Context, body []byte) (any, error)
}{
	{jet.TaskSubmit, `make a task: {"job":"hello"} or {"spec":{"run":{"argv":["date"]}}}`, (*Service).submit},
	{jet.TaskGet, `one task, from the log: {"id":"…"}`, (*Service).get},
	{jet.TaskList, `tasks: {"states":["running"],"limit":10}`, (*Service).list},
	{jet.TaskCancel, `cancel a task: {"id":"…","reason":"…"}`, (*Service).cancel},
	{jet.TaskRelease, `let any node take a task that waits for certain ones: {"id":"…","reason":"…"}`, (*Service).release},
	{jet.DeadList, `messages that nobody can read: {"limit":10}`, (*Service).unreadable},
	{jet.QueueList, `queues: {}, or one: {"queue":"crawl","rates":true}`, (*Service).queues},
	{jet.QueuePause, `start nothing of a queue: {"queue":"crawl","reason":"…","for":"1h"}`, onQueue((*Service).pauseQueue)},
	{jet.QueueResume, `end a pause: {"queue":"crawl"}`, onQueue((*Service).resumeQueue)},
	{jet.QueueLimit, `how many may run and wait, and how often one may start, 0 for any number: {"queue":"crawl","running":4,"waiting":1000,"rate":{"limit":100,"per":"1m"}}`, onQueue((*Service).limitQueue)},
	{jet.LimitList, `limits and who holds them: {"limit":10,"holders":5}, or where a task stands: {"task":"…"}`, (*Service).limits},
	{jet.DeadDismiss, `take a dead letter off the list: {"id":"…","reason":"…"}, or a message: {"seq":17,"reason":"…"}`, (*Service).dismiss},
	{jet.NodeList, `nodes: {}`, (*Service).nodes},
	{jet.NodeGet, `one node, from the log: {"id":"node-1"}`, (*Service).node},
	{jet.NodeWait, `wait up to 20s until a node is ready: {"id":"node-1"}, or has been for a while: {"id":"node-1","stable":"20s"}`, (*Service).waitNode},
	{jet.NodeDrain, `no new work, and what runs ends or is given back: {"id":"node-1","reason":"…","grace":"1m"}`, order(node.OrderDrain)},
	{jet.NodeUndrain, `take work again: {"id":"node-1"}`, order(node.OrderServe)},
	{jet.NodeCordon, `no new work: {"id":"node-1","reason":"…"}`, order(node.OrderCordon)},
	{jet.NodeUncordon, `take work again: {"id":"node-1"}`, order(node.OrderServe)},
	{jet.TaskSignal, `give a task the signal that it waits for: {"id":"…","data":{…},"reason":"…"}`, (*Service).signal},
	{jet.TaskRetry, `give a task that has ended another life: {"id":"…","reason":"…"}`, (*Service).retry},
	{jet.TaskCopy, `a new task that does what one did, with changes: {"id":"…","task":{"params":{…}}}`, (*Service).copy},
	{jet.TaskPlan, `which nodes may run it, and which rule excludes each other: {"job":"hello"}, {"spec":{…}} or {"id":"…"}`, (*Service).plan},
	{jet.NodeLabel, `change labels of a node, null removes one: {"id":"node-1","labels":{"zone":"eu","gpu":null}}`, (*Service).labelNode},
	{jet.JobList, `jobs, with their schedules and latest tasks: {}`, (*Service).jobs},
	{jet.ScheduleList, `schedules, with their latest tasks and skipped ticks: {}`, (*Service).schedules},
	{jet.ScheduleGet, `one schedule, what became of its ticks and which come: {"name":"nightly","limit":20}`, (*Service).schedule},
	{jet.SchedulePause, `keep a schedule from firing: {"name":"nightly","reason":"…"}`, toggle((*client.Client).PauseSchedule)},
	{jet.ScheduleResume, `let it fire again, from now on: {"name":"nightly"}`, toggle((*client.Client).ResumeSchedule)},
	{jet.ScheduleRun, `make a task of it now: {"name":"nightly","task":{"params":{…}}}`, (*Service).runSchedule},
	{jet.NodeRelease, `end a quarantine: {"id":"node-1"}`, (*Service).releaseNode},
	{jet.ServerHealth, `whether the log takes messages: {}`, (*Service).health},
}

// as is the service acting for a caller, who is named in all facts that it writes. Requests have no field that
// names anybody else.
func (s *Service) as(caller string) *Service {
	own := *s
	own.Client = s.Client.As(caller)
	return &own
}

// listen makes the endpoints of the service.
func (s *Service) listen(svc micro.Service, desk *desk) error {
	for _, e := range endpoints {
		answer := func(ctx context.Context, caller string, body []byte) (any, error) {
			return e.answer(s.as(caller), ctx, body)
		}
		err := svc.AddEndpoint(strings.ReplaceAll(string(e.verb), ".", "-"), desk.handler(answer), micro.WithEndpointSubject(e.verb.Endpoint()),
			micro.WithEndpointMetadata(map[string]string{"description": e.about, "access": string(e.verb.Access())}))
		if err != nil {
			return fmt.Errorf("endpoint %s: %w", e.verb, err)
		}
	}
	return nil
}

// refuseMisaddressed answers, until stop is called, those who do not say who they are.
func (s *Service) refuseMisaddressed(desk *desk) (stop func(), err error) {
	var subs []*nats.Subscription
	stop = func() {
		for _, sub := range subs {
			_ = sub.Unsubscribe() // it fails if the connection has ended
		}
	}
	for _, subject := range jet.Misaddressed() {
		sub, err := s.Conn.QueueSubscribe(subject, micro.DefaultQueueGroup, desk.misaddressed)
		if err != nil {
			stop()
			return nil, err
		}
		subs = append(subs, sub)
	}
	return stop, nil
}

// misaddressed answers a request on a subject that has too few words, or too many.
func (d *desk) misaddressed(m *nats.Msg) {
	if !jet.Answerable(m.Reply) {
		return
	}
	_, err := jet.CallerOf(m.Subject)
	answer := nats.NewMsg(m.Reply)
	answer.Header.Set(micro.ErrorCodeHeader, "400")
	answer.Header.Set(micro.ErrorHeader, err.Error())
	d.respond(m.RespondMsg(answer))
}
