package answers

import (
	"context"
	"errors"
	"slices"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/schedule"
)

// nodeVerbs give orders to nodes.
var nodeVerbs = []*Endpoint{
	on(rights.NodeDrain, `no new work, and what runs ends or is given back: {"id":"node-1","reason":"…","grace":"1m"}`, (*Service).drain, ordered...).at("POST /nodes/{id}/drain").typed(&Command{
		Use: "node drain NAME", Short: "Take all work from a node; its worker stays up",
		Long: `Gives a node no new work, lets its running tasks end, gives back the rest at the
end of the grace time, and waits until no task runs. The worker stays up. The drain
survives restarts of the worker and lasts until "millrace node undrain".`,
	}).button(Button{
		Why:  "The node takes no new work. What runs may end, or goes back to its queue. This holds over restarts of the worker.",
		Asks: []Asked{{Name: "grace", Label: "Grace period, such as 10m"}}, Has: underOrder(node.OrderServe),
	}),
	on(rights.NodeUndrain, `take work again: {"id":"node-1"}`, order(node.OrderServe), ordered...).at("POST /nodes/{id}/undrain").typed(&Command{
		Use: "node undrain NAME", Short: "Let a node take work again after a drain",
	}).button(Button{Why: "The node takes work again.", Has: underOrder(node.OrderDrain)}),
	on(rights.NodeCordon, `no new work: {"id":"node-1","reason":"…"}`, order(node.OrderCordon), ordered...).at("POST /nodes/{id}/cordon").typed(&Command{
		Use: "node cordon NAME", Short: "Give a node no new work; what runs goes on",
		Long: `Gives a node no new work; its running tasks go on. This survives restarts of the worker
and lasts until "millrace node uncordon".`,
	}).button(Button{Why: "The node takes no new work. What runs goes on.", Has: underOrder(node.OrderServe)}),
	on(rights.NodeUncordon, `take work again: {"id":"node-1"}`, order(node.OrderServe), ordered...).at("POST /nodes/{id}/uncordon").typed(&Command{
		Use: "node uncordon NAME", Short: "Let a node take work again after a cordon",
	}).button(Button{Why: "The node takes work again.", Has: underOrder(node.OrderCordon)}),
	on(rights.NodeLabel, `change labels of a node, null removes one: {"id":"node-1","labels":{"zone":"eu","gpu":null}}`, (*Service).labelNode, ordered...).at("POST /nodes/{id}/label").typed(&Command{
		Use: "node label NAME [KEY=VALUE|KEY-]...", Short: "Change labels of a node, by which tasks choose it",
		Long: `Changes labels of a node: KEY=VALUE sets one, KEY- removes it. The change survives restarts of
the worker, whatever labels it is started with. Tasks that wait for such a label start at
once; running tasks go on.`,
		Example: `  millrace node label crawler-7 zone=eu gpu- --reason "moved"`,
		Line:    "labels",
	}).button(Button{
		Why: "null removes a label.", Asks: []Asked{{Name: "labels", Label: "Changes, as JSON", Long: true, Is: func(any) string { return `{"zone":"eu"}` }}},
	}),
	on(rights.NodeRelease, `end a quarantine: {"id":"node-1"}`, changing((*client.Client).ReleaseNode), ordered...).at("POST /nodes/{id}/release").typed(&Command{
		Use: "node release NAME", Short: "End a node's quarantine and forget how often it came and went",
	}).button(Button{Why: "The quarantine ends now.", Has: when(func(n *client.NodeView) bool { return n.Quarantine != nil })}),
	on(rights.NodeRetire, `say that a node does not come back: {"id":"node-1","reason":"…"}`, changing((*client.Client).RetireNode), ordered...).at("POST /nodes/{id}/retire").typed(&Command{
		Use: "node retire NAME", Aliases: []string{"rm"}, Short: "Record that a node will not come back",
		Long: `Records that a node will not come back, and removes what the NATS server holds for it,
except its history. Its worker must have ended. A worker that starts under this name later
registers as a new node.`,
		Reason: "retired by an operator",
	}).button(Button{
		Why: "The node does not come back. Tasks that only it could run end.", Has: when(func(n *client.NodeView) bool { return n.State == node.Offline }),
	}),
}

// underOrder is for buttons of nodes that have this order.
func underOrder(o node.Order) func(any) bool {
	return when(func(n *client.NodeView) bool { return n.Standing.Order == o })
}

// queueVerbs say whether queues flow.
var queueVerbs = []*Endpoint{
	on(rights.QueuePause, `start nothing of a queue: {"queue":"crawl","reason":"…","for":"1h"}`, (*Service).pauseQueue).at("POST /queues/{queue}/pause").typed(&Command{
		Use: "queue pause NAME", Short: "Start no task of a queue; running tasks go on",
		Long: `Starts no task of a queue, on any node, until "millrace queue resume" or for a while
(--for). Running tasks go on, and tasks can be submitted. A waiting task keeps its own pending
timeout, but the start deadline for queues without nodes does not apply.`,
	}).button(Button{
		Why: "No task of the queue starts. What runs goes on.", Asks: []Asked{{Name: "for", Label: "For, such as 1h; empty: until resumed"}},
		Has: when(func(q *client.QueueView) bool { return q.Paused == nil }),
	}),
	on(rights.QueueResume, `end a pause: {"queue":"crawl"}`, (*Service).resumeQueue).at("POST /queues/{queue}/resume").typed(&Command{
		Use: "queue resume NAME", Short: "Start the tasks of a queue again after a pause",
	}).button(Button{Why: "Its tasks start again.", Has: when(func(q *client.QueueView) bool { return q.Paused != nil })}),
}

// asked is why a task was changed if nobody says so.
const asked = "asked for on the command line"

// chosen is part of the help of commands for many tasks.
const chosen = `

With filters instead of ids (those of "millrace task ls", or --all) it asks before it begins;
--yes answers that. --dry-run only counts the tasks, and lists the first 1000. All events of one command carry one
batch id, by which "millrace task ls --batch" finds the tasks. If it is interrupted, give it
again: nothing is done twice.`

// taskVerbs change tasks.
var taskVerbs = slices.Concat(
	on(rights.TaskCancel, `cancel a task: {"id":"…","reason":"…"}`, acting((*client.Client).Cancel), acted...).at("POST /tasks/{id}/cancel").typed(&Command{
		Use: "task cancel ID... | FILTERS", Aliases: []string{"stop", "kill"},
		Short: "Cancel tasks",
		Long: `Cancels tasks: the named ones, or all open tasks that the filters choose.
A waiting task is cancelled at once; a running one is cancelling until
its process is gone. --wait waits for that.` + chosen,
		Example: `  millrace task cancel ID
  millrace task cancel --queue bulk --state pending --dry-run
  millrace task cancel --job crawl --label customer=acme --yes`,
		Reason: asked, Waits: true,
	}).button(Button{
		Why: "It is stopped politely, then by force, and does not start again by itself.", Has: when(func(t *task.Task) bool { return !t.State.Terminal() }),
	}).many(&cancelMany, `cancel all tasks that a filter chooses, up to 1000: {"filter":{"queue":"crawl"},"reason":"…","dry_run":true}`, Button{
		Why: "They are stopped politely, then by force, and do not start again by themselves. What has ended is left out.",
	}),
	on(rights.TaskRetry, `give a task that has ended another life: {"id":"…","reason":"…"}`, acting((*client.Client).Retry), append(slices.Clone(acted), "key-taken", "queue-full")...).at("POST /tasks/{id}/retry").typed(&Command{
		Use: "task retry ID... | FILTERS", Aliases: []string{"rerun", "requeue"},
		Short: "Give tasks that have ended another life",
		Long: `Gives tasks another life, unchanged, with all their retries: the named ones, or all
that ended as error, cancelled or abnormal and that the filters choose.
"millrace task copy" makes a new task instead, with changes.` + chosen,
		Example: `  millrace task retry ID --reason "the disk is back"
  millrace task retry --state error --job thumbnail --since 2h --dry-run`,
		Reason: asked, Waits: true,
	}).button(Button{
		Why: "It gets another life and starts again, under the same id.", Has: when(func(t *task.Task) bool { return t.State.Terminal() }),
	}).many(&retryMany, `give all tasks another life that a filter chooses, up to 1000: {"filter":{"job":"hello","states":["error"]},"dry_run":true}`, Button{
		On: []string{"tasks", "dead"}, Why: "They get another life and start again, under the same ids. What has not ended, or has finished, is left out.",
	}),
	on(rights.TaskSignal, `give a task the signal that it waits for: {"id":"…","data":{…},"reason":"…"}`, (*Service).signal, append(slices.Clone(acted), "not-asked")...).at("POST /tasks/{id}/signal").asked("task approve").typed(&Command{
		Use: "task approve ID... | FILTERS", Aliases: []string{"signal"},
		Short: "Give tasks the approval that they wait for",
		Long: `Gives tasks the approval that they wait for (signal in a job, run --signal), so that
they go on. They find the answers of --answer or --data in MILLRACE_NEEDS, with the name
of the user who gave it. If the job names who may, others are refused.` + chosen,
		Example: `  millrace task approve ID --answer window=tonight --answer canary=true
  millrace task approve --job release --label version=4.2 --dry-run`,
		Reason: asked, Waits: true,
	}).button(Button{
		Label: "Approve", Why: "It is given the approval that it waits for.", Asks: []Asked{{Name: "data", Label: "Data, as JSON", Long: true}, thisApproval},
		Declares: func(thing any) (form param.Params) {
			if t, ok := thing.(*task.Task); ok && t.Signal() != nil {
				form.Declared = t.Signal().Form
			}
			return form
		},
		Has: when(awaitsSignal),
	}).many(&signalMany, `give all tasks that a filter chooses the signal that they wait for, up to 1000: {"filter":{"job":"release"},"data":{…},"dry_run":true}`),
	[]*Endpoint{
		on(rights.TaskReject, `refuse the signal that a task waits for, which ends it: {"id":"…","reason":"…"}`, (*Service).reject, append(slices.Clone(acted), "not-asked")...).at("POST /tasks/{id}/reject").asked("task reject").typed(&Command{
			Use: "task reject ID...", Aliases: []string{"refuse"},
			Short: "Refuse tasks the approval that they wait for",
			Long: `Refuses tasks the approval that they wait for. They end as abnormal/rejected, with the
name of who refused and the reason; a graph goes on as after a failed step.`,
			Example: `  millrace task reject ID --reason "not before the audit"`,
		}).button(Button{Why: "It ends as rejected, with your reason.", Asks: []Asked{thisApproval}, Has: when(awaitsSignal)}),
		on(rights.TaskRelease, `let any node take a task that waits for certain ones: {"id":"…","reason":"…"}`, (*Service).release, acted...).at("POST /tasks/{id}/release").typed(&Command{
			Use: "task release ID...", Aliases: []string{"free"},
			Short: "Let any node take tasks that wait for certain nodes",
			Long: `Moves tasks that wait for the nodes of their place.nodes to their shared queue, where
any node that serves it can take them. Running tasks stay where they are.`,
			Reason: asked, Waits: true,
		}),
		on(rights.TaskEdit, `give a task that waits another priority: {"id":"…","priority":8}`, (*Service).edit, acted...).at("POST /tasks/{id}/edit").typed(&Command{
			Use: "task edit ID...", Short: "Change the priority of waiting tasks",
			Reason: asked, Line: "route",
		}),
		on(rights.TaskPostpone, `have tasks that wait be due not before a time: {"id":"…","until":"2026-03-01T12:00:00Z","reason":"…"}`, (*Service).postpone, acted...).at("POST /tasks/{id}/postpone").typed(&Command{
			Use: "task postpone ID... --until TIME", Aliases: []string{"defer", "snooze"},
			Short: "Let tasks that wait be due not before a time",
			Long: `Makes tasks that wait due at a time: so much later than now, or at a time as commands print it.
They are scheduled until then, and their places under limits are free meanwhile. A task that is due
later anyway stays as it is; one that waits for its needs or an approval, runs or has ended is refused.

Deadlines keep their meaning: a pending or total timeout that ends before that time ends the task.`,
			Example: `  millrace task postpone ID --until 2h
  millrace task postpone ID --until 18:00 --reason "after the backup"`,
			Reason: asked, Line: "due",
		}),
	},
)

// thisApproval has a form mean the approval for which the task waited when a person saw it.
var thisApproval = Asked{Name: "name", Is: filled(func(t *task.Task) string { return t.Signal().Called() })}

// awaitsSignal tells whether a task can be approved or rejected.
func awaitsSignal(t *task.Task) bool {
	return t.State == task.Held && slices.Contains(t.Holds, task.HoldSignal)
}

func (s *Service) reject(ctx context.Context, r rejectRequest) (task.Task, error) {
	return s.Client.Refuse(ctx, r.ID, client.Approval{Name: r.Name, Reason: r.Reason})
}

// postponeRequest is an idRequest with the time until which the task waits.
type postponeRequest struct {
	idRequest
	// Until is when the task is due, a time to come.
	Until time.Time `json:"until" flag:"until" usage:"when they are due, a {time}: 10m or 2h later, 18:00, 2026-03-01 12:00"`
}

func (r *postponeRequest) check() error {
	if r.Until.IsZero() {
		return errors.New("until is missing: say when the task is due")
	}
	return r.idRequest.check()
}

func (s *Service) postpone(ctx context.Context, r postponeRequest) (task.Task, error) {
	if !r.Until.After(s.now()) {
		return task.Task{}, client.Wrongf("until is %s, which has passed", r.Until.Format(time.RFC3339))
	}
	return s.Client.Change(ctx, "postpone", r.ID, task.Postpone{Asked: true, Due: r.Until, Detail: r.Reason})
}

// removes are other names of the commands that remove something.
var removes = []string{"del", "delete", "remove"}

// definitionVerbs change what lies under names: schedules, jobs, calendars, bundles of files.
var definitionVerbs = []*Endpoint{
	on(rights.SchedulePause, `keep a schedule from making tasks: {"name":"nightly","reason":"…"}`, toggle("paused", (*client.Client).PauseSchedule), "no-schedule").at("POST /schedules/{name}/pause").typed(&Command{
		Use: "schedule pause NAME...", Aliases: []string{"disable", "stop"}, Short: "Keep schedules from making tasks",
	}).button(Button{
		Why: "It makes no tasks until it is resumed. What runs goes on.", Has: when(func(s *schedule.Stored) bool { return s.Paused == nil }),
	}),
	on(rights.ScheduleResume, `let it make tasks again, from now on: {"name":"nightly"}`, toggle("resumed", (*client.Client).ResumeSchedule), "no-schedule").at("POST /schedules/{name}/resume").typed(&Command{
		Use: "schedule resume NAME...", Aliases: []string{"enable", "unpause"}, Short: "Let schedules make tasks again, from now on",
	}).button(Button{
		Why: "It makes tasks again, from now on. What passed meanwhile is not made up for.", Has: when(func(s *schedule.Stored) bool { return s.Paused != nil }),
	}),
	on(rights.ScheduleRemove, `remove a schedule; its tasks stay: {"name":"nightly"}`, removing("schedule", (*client.Client).RemoveSchedule), "no-schedule", "changed").at("DELETE /schedules/{name}").typed(&Command{
		Use: "schedule rm NAME...", Aliases: removes, Short: "Remove schedules; their tasks stay",
		Asks: "remove", Foresee: (*Service).foreseeSchedule,
	}).button(Button{
		Why: "The schedule goes, and no tasks are made any more; its tasks and its history stay.", Has: when(func(s *schedule.Stored) bool { return !s.OfJob }),
	}),
	on(rights.JobRemove, `remove a job and the schedules that came with it; its tasks stay: {"name":"hello"}`, (*Service).removeJob, "no-job", "job-in-use", "changed").at("DELETE /jobs/{name}").typed(&Command{
		Use: "job rm NAME...", Aliases: removes, Short: "Remove jobs and the schedules that came with them; their tasks stay",
		Asks: "remove", Foresee: (*Service).foreseeJob,
	}).button(Button{
		Why: "The job goes, and its schedule with it; its tasks and its history stay. Schedules of their own that make its tasks fail from then on.",
	}),
	on(rights.BreakerReset, `close the breaker of a job: {"name":"hello","reason":"…"}`, (*Service).resetBreaker, "no-job").at("POST /jobs/{name}/breaker/reset").typed(&Command{
		Use: "job breaker reset JOB", Aliases: []string{"close"}, Short: "Close the breaker of a job",
		Long: `Closes the breaker of a job, so that its tasks start again. Tasks that it held start
when their hold ends. Earlier failures no longer count.`,
		Reason: "reset on the command line",
	}).button(Button{
		On: []string{"breakers"}, Label: "Close breaker", Why: "Tasks that come now start at once. Those held back already start when they were to be tried.",
	}),
	on(rights.CalendarRemove, `remove a calendar: {"name":"office"}`, removing("calendar", (*client.Client).RemoveCalendar), "no-calendar", "changed").at("DELETE /calendars/{name}").typed(&Command{
		Use: "calendar rm NAME...", Aliases: removes, Short: "Remove calendars", Asks: "remove",
	}).button(Button{
		Why: "The calendar goes; its history stays. Tasks that go by it wait until there is a calendar of this name again, and new ones are refused.",
	}),
	on(rights.FilesRemove, `remove the name of a bundle; gc removes what nothing needs: {"name":"app"}`, removing("name", (*client.Client).RemoveBundle), "no-files", "changed").at("DELETE /files/{name}").typed(&Command{
		Use: "files rm NAME...", Aliases: removes, Short: "Remove names; the next gc removes versions that are not needed",
	}),
}
