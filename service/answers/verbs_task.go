package answers

import (
	"context"
	"errors"
	"slices"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/task"
)

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
	on(rights.TaskSignal, `give a task the signal that it waits for: {"id":"…","data":{…},"reason":"…"}`, (*Service).signal, acted...).at("POST /tasks/{id}/signal").typed(&Command{
		Use: "task approve ID... | FILTERS", Aliases: []string{"signal"},
		Short: "Give tasks the approval that they wait for",
		Long: `Gives tasks the approval that they wait for (signal in a job, run --signal), such as
an approval, so that they go on. They find the value of --data in MILLRACE_NEEDS, with
the name of the user who gave it. To refuse, use "millrace task cancel".` + chosen,
		Example: `  millrace task approve ID --data '{"by":"the board"}'
  millrace task approve --job release --label version=4.2 --dry-run`,
		Reason: asked, Waits: true,
	}).button(Button{
		Why: "It is given the approval that it waits for.", Asks: []Asked{{Name: "data", Label: "Data, as JSON", Long: true}},
		Has: when(func(t *task.Task) bool { return t.State == task.Held && len(t.Holds) > 0 }),
	}).many(&signalMany, `give all tasks that a filter chooses the signal that they wait for, up to 1000: {"filter":{"job":"release"},"data":{…},"dry_run":true}`),
	[]*Endpoint{
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
