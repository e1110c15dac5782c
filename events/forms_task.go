package events

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mailru/easyjson/jlexer"

	"millrace/task"
)

var taskForms = []form{
	checked(TaskSubmitted, aboutTask, func(e *task.Submitted) error { return complete(&e.Work) }, slices.Concat(
		of(func(e *task.Submitted) *task.Work { return &e.Work }, workFields...),
		[]field[task.Submitted]{
			moment("due", func(e *task.Submitted) *time.Time { return &e.Due }),
			text("retry_of", func(e *task.Submitted) *task.ID { return &e.RetryOf }),
		},
	)...),
	checked(TaskQueued, aboutTask, func(e *task.Queued) error { return complete(&e.Work) }, slices.Concat(
		[]field[task.Queued]{
			number("attempt", func(e *task.Queued) *int { return &e.Attempt }),
			position("after", func(e *task.Queued) *uint64 { return &e.After }),
			text("reason", func(e *task.Queued) *string { return &e.Reason }),
			moment("due", func(e *task.Queued) *time.Time { return &e.Due }),
			sequence("rated", func(e *task.Queued) *uint64 { return &e.Rated }),
		},
		of(func(e *task.Queued) *task.Work { return &e.Work }, workFields...),
	)...),
	formOf(AttemptStarted, aboutTask,
		number("attempt", func(e *task.AttemptStarted) *int { return &e.Attempt }),
		text("node", func(e *task.AttemptStarted) *string { return &e.Node }),
		text("session", func(e *task.AttemptStarted) *string { return &e.Session }),
		sequence("offer", func(e *task.AttemptStarted) *uint64 { return &e.Offer }),
		pointer("took_over", func(e *task.AttemptStarted) **task.TookOver { return &e.TookOver }),
	),
	formOf(AttemptFinished, aboutTask,
		number("attempt", func(e *task.AttemptFinished) *int { return &e.Attempt }),
		sequence("epoch", func(e *task.AttemptFinished) *uint64 { return &e.Epoch }),
		code("exit", func(e *task.AttemptFinished) **int { return &e.Exit }),
		givenOrNull("result", func(e *task.AttemptFinished) *json.RawMessage { return &e.Result }),
		pointer("usage", func(e *task.AttemptFinished) **task.Usage { return &e.Usage }),
	),
	formOf(AttemptFailed, aboutTask,
		number("attempt", func(e *task.AttemptFailed) *int { return &e.Attempt }),
		sequence("epoch", func(e *task.AttemptFailed) *uint64 { return &e.Epoch }),
		text("class", func(e *task.AttemptFailed) *string { return &e.Class }),
		code("exit", func(e *task.AttemptFailed) **int { return &e.Exit }),
		text("message", func(e *task.AttemptFailed) *string { return &e.Message }),
		planned("retry", func(e *task.AttemptFailed) **task.RetryPlan { return &e.Retry }),
		text("reason", func(e *task.AttemptFailed) *string { return &e.Reason }),
		span("retry_after", func(e *task.AttemptFailed) *task.Duration { return &e.RetryAfter }),
		pointer("usage", func(e *task.AttemptFailed) **task.Usage { return &e.Usage }),
	),
	formOf(AttemptReleased, aboutTask,
		number("attempt", func(e *task.AttemptReleased) *int { return &e.Attempt }),
		sequence("epoch", func(e *task.AttemptReleased) *uint64 { return &e.Epoch }),
		text("reason", func(e *task.AttemptReleased) *string { return &e.Reason }),
	),
	formOf(AttemptLost, aboutTask,
		number("attempt", func(e *task.AttemptLost) *int { return &e.Attempt }),
		sequence("epoch", func(e *task.AttemptLost) *uint64 { return &e.Epoch }),
		text("reason", func(e *task.AttemptLost) *string { return &e.Reason }),
	),
	formOf(AttemptLate, aboutTask,
		sequence("epoch", func(e *task.AttemptLate) *uint64 { return &e.Epoch }),
		text("node", func(e *task.AttemptLate) *string { return &e.Node }),
		givenOrNull("said", func(e *task.AttemptLate) *json.RawMessage { return &e.Said }),
	),
	formOf(AttemptExtended, aboutTask,
		number("attempt", func(e *task.AttemptExtended) *int { return &e.Attempt }),
		sequence("epoch", func(e *task.AttemptExtended) *uint64 { return &e.Epoch }),
		moment("until", func(e *task.AttemptExtended) *time.Time { return &e.Until }),
	),
	formOf(AttemptAdopted, aboutTask,
		number("attempt", func(e *task.AttemptAdopted) *int { return &e.Attempt }),
		sequence("epoch", func(e *task.AttemptAdopted) *uint64 { return &e.Epoch }),
		text("node", func(e *task.AttemptAdopted) *string { return &e.Node }),
		text("session", func(e *task.AttemptAdopted) *string { return &e.Session }),
		number("pid", func(e *task.AttemptAdopted) *int { return &e.PID }),
		span("gap", func(e *task.AttemptAdopted) *task.Duration { return &e.Gap }),
	),
	formOf(TaskCancelRequested, aboutTask,
		text("reason", func(e *task.CancelRequested) *string { return &e.Reason }),
		moment("deadline", func(e *task.CancelRequested) *time.Time { return &e.Deadline }),
	),
	formOf(TaskCancelled, aboutTask,
		text("reason", func(e *task.CancelConfirmed) *string { return &e.Reason }),
		text("code", func(e *task.CancelConfirmed) *string { return &e.Code }),
		sequence("epoch", func(e *task.CancelConfirmed) *uint64 { return &e.Epoch }),
		code("exit", func(e *task.CancelConfirmed) **int { return &e.Exit }),
		pointer("usage", func(e *task.CancelConfirmed) **task.Usage { return &e.Usage }),
	),
	formOf(TaskAbnormal, aboutTask,
		text("reason", func(e *task.GivenUp) *string { return &e.Reason }),
		text("detail", func(e *task.GivenUp) *string { return &e.Detail }),
	),
	checked(TaskReassigned, aboutTask, func(e *task.Reassigned) error { return e.To.Validate() },
		text("from", func(e *task.Reassigned) *task.Route { return &e.From }),
		text("to", func(e *task.Reassigned) *task.Route { return &e.To }),
		text("reason", func(e *task.Reassigned) *string { return &e.Reason }),
		moment("until", func(e *task.Reassigned) *time.Time { return &e.Until }),
		pointer("asked", func(e *task.Reassigned) **task.Asked { return &e.Asked }),
	),
	formOf(TaskPostponed, aboutTask,
		text("reason", func(e *task.Postponed) *string { return &e.Reason }),
		text("detail", func(e *task.Postponed) *string { return &e.Detail }),
		moment("due", func(e *task.Postponed) *time.Time { return &e.Due }),
	),
	formOf(TaskThrottled, aboutTask,
		text("node", func(e *task.Throttled) *string { return &e.Node }),
		text("limit", func(e *task.Throttled) *string { return &e.Limit }),
	),
	formOf(TaskReopened, aboutTask, text("reason", func(e *task.Reopened) *string { return &e.Reason })),
	formOf(TaskUnheld, aboutTask,
		text("hold", func(e *task.Unheld) *string { return &e.Hold }),
		text("reason", func(e *task.Unheld) *string { return &e.Reason }),
		given("inputs", func(e *task.Unheld) *json.RawMessage { return &e.Inputs }),
	),
	formOf(TaskExpanded, aboutTask, always("children", func(e *task.Expanded) *task.Children { return &e.Children })),
	checked(TaskConcluded, aboutTask, func(e *task.Concluded) error {
		if !e.State.Terminal() {
			return fmt.Errorf("a parent does not end as %s", e.State)
		}
		return nil
	},
		always("state", func(e *task.Concluded) *task.State { return &e.State }),
		text("reason", func(e *task.Concluded) *string { return &e.Reason }),
		text("message", func(e *task.Concluded) *string { return &e.Message }),
		givenOrNull("result", func(e *task.Concluded) *json.RawMessage { return &e.Result }),
	),
	formOf(TaskDismissed, aboutTask, text("reason", func(e *task.Dismissed) *string { return &e.Reason })),
}

// workFields are those of a task as it is offered.
var workFields = []field[task.Work]{
	text("job", func(w *task.Work) *string { return &w.Job }),
	sequence("revision", func(w *task.Work) *uint64 { return &w.Revision }),
	specField,
	given("params", func(w *task.Work) *json.RawMessage { return &w.Params }),
	table("labels", func(w *task.Work) *map[string]string { return &w.Labels }),
	text("route", func(w *task.Work) *task.Route { return &w.Route }),
	priorityField,
	deadlinesField,
	text("group", func(w *task.Work) *string { return &w.Group }),
	text("parent", func(w *task.Work) *task.ID { return &w.Parent }),
	text("step", func(w *task.Work) *string { return &w.Step }),
	text("schedule", func(w *task.Work) *string { return &w.Schedule }),
	moment("tick", func(w *task.Work) *time.Time { return &w.Tick }),
	text("trigger", func(w *task.Work) *string { return &w.Trigger }),
	list("holds", func(w *task.Work) *[]string { return &w.Holds }),
	text("fair_key", func(w *task.Work) *string { return &w.FairKey }),
	pointer("needs", func(w *task.Work) **task.Needs { return &w.Needs }),
	given("inputs", func(w *task.Work) *json.RawMessage { return &w.Inputs }),
	pointer("asked", func(w *task.Work) **task.Asked { return &w.Asked }),
}

// specField goes through the cache of specs.
var specField = field[task.Work]{name: "spec",
	write: func(o *object, w *task.Work) {
		text, err := specs.Encode(w.Spec)
		if err != nil {
			o.fail(err)
			return
		}
		o.key("spec").b = append(o.b, text...)
	},
	read: func(l *jlexer.Lexer, w *task.Work) {
		text := l.Raw()
		if !l.Ok() {
			return
		}
		spec, err := specs.Decode(text)
		l.AddError(err)
		w.Spec = spec
	}}

// priorityField repeats what the route says, for those who read the log by eye.
var priorityField = field[task.Work]{name: "priority",
	write: func(o *object, w *task.Work) { o.num("priority", w.Route.Priority()) },
	read:  func(l *jlexer.Lexer, _ *task.Work) { signed(l) }}

// deadlines are the absolute bounds of a task.
type deadlines struct {
	Start time.Time `json:"start,omitzero"`
	End   time.Time `json:"end,omitzero"`
}

var deadlinesField = field[task.Work]{name: "deadlines",
	write: func(o *object, w *task.Work) {
		if !w.StartBy.IsZero() || !w.EndBy.IsZero() {
			o.json("deadlines", deadlines{Start: w.StartBy.UTC(), End: w.EndBy.UTC()})
		}
	},
	read: func(l *jlexer.Lexer, w *task.Work) {
		d := value[deadlines](l)
		w.StartBy, w.EndBy = utc(l, d.Start), utc(l, d.End)
	}}

// complete refuses what nobody could run.
func complete(w *task.Work) error {
	if w.Spec == nil {
		return errors.New("the task has no spec")
	}
	return w.Route.Validate()
}

// planned is null where there is no plan: that this failure is the end is worth a word.
func planned[E any](name string, in func(*E) **task.RetryPlan) field[E] {
	return dated(name, in, never, func(p *task.RetryPlan) (*task.RetryPlan, error) {
		if p == nil {
			return nil, nil
		}
		due, err := inUTC(p.Due)
		return &task.RetryPlan{Attempt: p.Attempt, Due: due}, err
	})
}
