package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/events/jet/rights"
	"millrace/events/submit"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/schedule"
)

// Options say how to reach the NATS server that holds Millrace, in the terms of the nats command
// line. [jet.ConnectConfig] explains each field, and [FindServer] what applies if they are empty.
type Options = jet.ConnectConfig

// Client talks to Millrace. It is safe for concurrent use.
type Client struct {
	store *jet.Store // nil if it is made by On
	on    Ground     // the store, unless it is made by On
	rec   *events.Recorder
	own   *nats.Conn // closed by Close; nil if the store is the caller's
	desk  *submit.Maker
	role  rights.Role           // of a user who may not read the log; "" for one who may
	alone asking                // what answers in place of the service; nil for nothing
	knows bool                  // by As: who acts is certain
	while func(*task.Task) bool // by While; nil for no matter how a task is
}

// asking answers a request as [jet.Store.Ask] does.
type asking func(ctx context.Context, verb rights.Verb, request, answer any) error

// StandIn has ask answer the client's requests in place of the service, as [jet.Store.Ask] would.
func (c *Client) StandIn(ask func(ctx context.Context, verb rights.Verb, request, answer any) error) {
	c.alone = ask
}

// Connect connects to the NATS server that o and the environment name, or to the `millrace dev`
// that this user runs here ([FindServer] has the whole rule), and opens the log in it. The error
// says what could not be reached; it wraps [ErrOptions], [jet.ErrNoMillrace] if no log is there, or
// [request.ErrElecting] if the servers of a cluster had not elected a leader within the time of
// [request.Patience].
func Connect(ctx context.Context, o Options) (*Client, error) {
	t, err := FindServer(o)
	if err != nil {
		return nil, err
	}
	return t.Connect(ctx)
}

// New returns a client of an open store, which stays the caller's. actor is recorded as the author
// of facts; by default the user and host of this process.
func New(store *jet.Store, actor string) *Client {
	if actor == "" {
		actor = whoami()
	}
	c := on(Ground{store, store, store, store, store}, actor)
	c.store = store
	c.desk = &submit.Maker{Rec: c.rec, Store: c.DeskStore(), Nodes: c.nodesFor}
	return c
}

// Ground is what a client needs for what a program does with its own tasks: submit and spawn them, wait for them, read,
// cancel, signal and retry them, and define jobs and schedules. The store of package jet is each of its parts.
type Ground struct {
	// Log is where facts are written, and Hints tells nodes of them.
	Log   events.Log
	Hints events.Hinter
	// News tells of changes, and Outputs what tasks have left. Definitions are those of jobs and schedules.
	News        News
	Outputs     Outputs
	Definitions Definitions
}

// News tells when a client should look again.
type News interface {
	// Now is the log's time. Gone is closed when the log can never be reached again, for the reason WhyGone.
	Now() time.Time
	Gone() <-chan struct{}
	WhyGone() error
	// WatchTask calls changed when something may have happened to a task, until stop is called.
	WatchTask(id task.ID, changed func()) (stop func(), err error)
}

// Outputs read what a task has printed and produced, as [Client.OutputFrom] and [Client.Records] say.
type Outputs interface {
	PrintedFrom(ctx context.Context, id task.ID, from OutputStart, follow bool, each func(uint64, output.Lines) error) error
	Kept(ctx context.Context, id task.ID, follow bool, each func(output.Records) error) error
}

// Definitions reads and changes jobs and schedules, as the methods of [Client] do.
type Definitions interface {
	PutJobFrom(ctx context.Context, j job.Job, actor string, from task.From, seen ...uint64) (revision uint64, changed bool, err error)
	Job(ctx context.Context, name string) (definitions.StoredJob, error)
	PutSchedule(ctx context.Context, d schedule.Definition, actor string, seen ...uint64) (revision uint64, changed bool, err error)
	Schedule(ctx context.Context, name string) (schedule.Stored, error)
	Schedules(ctx context.Context) ([]schedule.Stored, error)
	RemoveSchedule(ctx context.Context, name, actor string) error
	DefinitionAt(ctx context.Context, def task.Def, revision uint64) (task.Definition, error)
}

// On returns a client on a log that is no store of package jet, for tests of programs. It has the methods that
// [Ground] serves; the store is nil, and what asks the service wraps [jet.ErrNoService] in its error.
func On(is Ground, births submit.Store, actor string) *Client {
	c := on(is, actor)
	c.desk = &submit.Maker{Rec: c.rec, Store: births, Nodes: func(context.Context, *task.Task) (nodes []node.Node, at uint64, rule string, err error) {
		return nil, 0, "", jet.ErrNoService
	}}
	c.alone = func(context.Context, rights.Verb, any, any) error { return jet.ErrNoService }
	return c
}

func on(is Ground, actor string) *Client {
	return &Client{on: is, rec: &events.Recorder{Log: is.Log, Actor: actor, Hints: is.Hints, Now: is.News.Now, NewID: events.NewID}}
}

// Ground returns what the client is on.
func (c *Client) Ground() Ground { return c.on }

// with returns a client on the same connection that writes with rec.
func (c *Client) with(rec events.Recorder) *Client {
	return &Client{store: c.store, on: c.on, rec: &rec, desk: c.desk.For(&rec), role: c.role, alone: c.alone, knows: c.knows, while: c.while}
}

// As returns a client on the same connection that acts for another actor.
func (c *Client) As(actor string) *Client {
	rec := *c.rec
	rec.Actor = actor
	in := c.with(rec)
	in.knows = true
	return in
}

// While returns a client on the same connection that approves, rejects and retries a task only while that is as is
// says; else the error wraps [task.ErrMovedOn].
func (c *Client) While(is func(*task.Task) bool) *Client {
	in := c.with(*c.rec)
	in.while = is
	return in
}

// bound is a command on a task that holds only for the task as it is, if the client is that of [Client.While].
func (c *Client) bound(t *task.Task, do task.Command) (task.Command, error) {
	switch {
	case c.while == nil:
		return do, nil
	case !c.while(t):
		return nil, task.ErrMovedOn
	}
	return task.Unmoved{Command: do, Head: t.Head}, nil
}

// Store returns the client's store; a worker takes it.
func (c *Client) Store() *jet.Store { return c.store }

// Now returns the time that the client uses for everything, also for what it writes: the log's,
// whatever the clock of this machine says. See [jet.Store.Now].
func (c *Client) Now() time.Time { return c.on.News.Now() }

// Close ends what Connect started.
func (c *Client) Close() {
	if c.own == nil {
		return
	}
	c.store.Close()
	c.own.Close()
}

func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return name + "@" + host
}

// InBatch returns a client on the same connection whose facts about tasks name a bulk command as
// their first cause, so that [ListRequest.Batch] finds the tasks it changed.
func (c *Client) InBatch(id string) *Client {
	rec := *c.rec
	rec.Corr = id
	return c.with(rec)
}

// Batch returns the id given to [Client.InBatch].
func (c *Client) Batch() string { return c.rec.Corr }

// Task reads a task from the log. The error wraps [task.ErrUnknown] if there is none.
func (c *Client) Task(ctx context.Context, id task.ID) (task.Task, error) {
	if c.store == nil {
		return c.rec.Load(ctx, id)
	}
	return view.GetTask(ctx, c.View(), id)
}

// History reads all facts of a task in order. The error wraps [task.ErrUnknown]
// if there is no such task.
func (c *Client) History(ctx context.Context, id task.ID) ([]events.Record, error) {
	return view.All(ctx, c.View(), view.Task(id))
}

// Submitted tells whether the client's user has submitted a task, or the one above it of whose steps or
// items it is one. The error wraps [task.ErrUnknown].
func (c *Client) Submitted(ctx context.Context, id task.ID) (bool, error) {
	line, err := c.line(ctx, id)
	if err != nil {
		return false, err
	}
	records, err := c.History(ctx, line[len(line)-1].Task.ID)
	return err == nil && len(records) > 0 && records[0].Fact.Actor == c.rec.Actor, err
}

// Asked tells whether the client's actor is asked by name for the approval of a name for which a task waits, or one of
// its children; "" as in [Approval].
func (c *Client) Asked(ctx context.Context, id task.ID, name string) (bool, error) {
	t, err := c.awaiting(ctx, id, name)
	return err == nil && t.Signal().Names(c.rec.Actor), err
}

// Cancel asks for a task's end. A waiting task is cancelled when Cancel returns; a running one is
// cancelling, and becomes cancelled when its worker reports its end. A scheduler cancels the
// children of a parent. The error wraps [task.ErrUnknown] or [task.ErrEnded].
func (c *Client) Cancel(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	if t, _, err = c.rec.Do(ctx, t, task.Cancel{Reason: reason}); err != nil {
		return t, fmt.Errorf("cancel task %s: %w", t.ID, err)
	}
	return t, nil
}

// Signal gives a task the signal that it waits for, with data (JSON, or nil) for its program. Of a task
// with children it is the child that waits for one. The error wraps
// [task.ErrUnknown], [task.ErrEnded] or [task.ErrNotHeld], or is that of a wrong request if several
// children wait.
func (c *Client) Signal(ctx context.Context, id task.ID, data json.RawMessage, reason string) (task.Task, error) {
	return c.Approve(ctx, id, Approval{Data: data, Reason: reason})
}

// Approval is what comes with a signal.
type Approval struct {
	// Name is that of the signal that is meant, or of the step that waits for it: if the task, or each of its steps,
	// waits for another one, the error wraps [task.ErrNotHeld]. Default: the one that it waits for.
	Name string
	// Data are JSON for the program, or the answers to the form of the signal. Texts are answers as a person types
	// them, which win.
	Data  json.RawMessage
	Texts map[string]string
	// Reason says why it is given, or refused, for the log.
	Reason string
}

// Approve is [Client.Signal] with answers. If the task names who may give its signal, a server gives it, for that
// knows the caller. The error wraps [job.ErrNotAsked] if others may give it.
func (c *Client) Approve(ctx context.Context, id task.ID, a Approval) (task.Task, error) {
	return c.decideOn(ctx, id, "signal", rights.TaskSignal, a, func(t *task.Task, signal string) (task.Command, error) {
		inputs, err := t.Awaiting().Inputs(c.rec.Actor, a.Data, a.Texts)
		return task.Unhold{Hold: task.HoldSignal, Signal: signal, Reason: a.Reason, Inputs: inputs}, err
	})
}

// Reject refuses the signal for which a task waits, which ends abnormal/rejected. It finds the task as
// [Client.Signal] does, and its errors are those.
func (c *Client) Reject(ctx context.Context, id task.ID, reason string) (task.Task, error) {
	return c.Refuse(ctx, id, Approval{Reason: reason})
}

// Refuse is [Client.Reject] with the name of the signal that is meant.
func (c *Client) Refuse(ctx context.Context, id task.ID, a Approval) (task.Task, error) {
	detail := "rejected by " + c.rec.Actor
	if a.Reason != "" {
		detail += ": " + a.Reason
	}
	return c.decideOn(ctx, id, "reject", rights.TaskReject, a, func(_ *task.Task, signal string) (task.Command, error) {
		return task.Reject{By: c.rec.Actor, Detail: detail, Signal: signal}, nil
	})
}

// decideOn decides on the signal for which a task waits, or one of its children.
func (c *Client) decideOn(ctx context.Context, id task.ID, what string, verb rights.Verb, a Approval, command func(t *task.Task, signal string) (task.Command, error)) (task.Task, error) {
	t, err := c.awaiting(ctx, id, a.Name)
	if err != nil {
		return t, err
	}
	if a.Name != "" && a.Name == t.Step && slices.Contains(t.Holds, task.HoldSignal) {
		a.Name = t.Signal().Called()
	}
	if c.role != "" || !c.knows && t.Signal().Asked() != "" && slices.Contains(t.Holds, task.HoldSignal) {
		var answer task.Task
		err = c.ask(ctx, verb, struct {
			ID     task.ID           `json:"id"`
			Name   string            `json:"name,omitempty"`
			Data   json.RawMessage   `json:"data,omitempty"`
			Texts  map[string]string `json:"texts,omitempty"`
			Reason string            `json:"reason,omitempty"`
		}{t.ID, a.Name, a.Data, a.Texts, a.Reason}, &answer)
		return answer, err
	}
	signal := cmp.Or(a.Name, t.Signal().Called())
	do, wrong := command(&t, signal)
	if do, err = c.bound(&t, do); err == nil { // an answer to another question is late rather than wrong
		err = t.HeldBy(task.HoldSignal, signal)
	}
	switch {
	case err != nil:
	case errors.Is(wrong, job.ErrNotAsked):
		err = wrong
	case wrong != nil:
		err = Wrong(wrong)
	default:
		t, _, err = c.rec.Do(ctx, t, do)
	}
	if err != nil {
		return t, fmt.Errorf("%s task %s: %w", what, t.ID, err)
	}
	return t, c.rec.Settle(ctx, &t)
}

// awaiting is a task, or the child of it that waits for the signal of a name.
func (c *Client) awaiting(ctx context.Context, id task.ID, name string) (task.Task, error) {
	t, err := c.load(ctx, id)
	if err == nil && c.role == "" && t.Children != nil && !slices.Contains(t.Holds, task.HoldSignal) {
		t, err = c.waiting(ctx, t, name)
	}
	return t, err
}

// waiting returns the child of a parent that waits for the signal of a name, or the parent itself if none does.
func (c *Client) waiting(ctx context.Context, parent task.Task, name string) (task.Task, error) {
	children, err := view.Children(ctx, c.View(), &parent)
	if err != nil {
		return parent, err
	}
	children = slices.DeleteFunc(children, func(k task.Task) bool { return !k.AwaitsSignal() })
	switch meant := task.Meant(children, name); {
	case len(children) == 0:
		return parent, nil
	case len(children) == 1: // whether it is meant is decided by what the log has
		return c.rec.Load(ctx, children[0].ID)
	case len(meant) == 1:
		return c.rec.Load(ctx, meant[0].ID)
	case len(meant) == 0:
		return parent, fmt.Errorf("%w: signal %q of task %s; these steps wait: %s", task.ErrNotHeld, name, parent.ID, stepsOf(children))
	default:
		return parent, Wrongf("several steps of task %s wait for a signal: name the one that is meant, of %s", parent.ID, stepsOf(meant))
	}
}

// stepsOf lists the steps that tasks are.
func stepsOf(tasks []task.Task) string {
	var names []string
	for i := range tasks {
		names = append(names, tasks[i].Step+" ("+string(tasks[i].ID)+")")
	}
	return strings.Join(names, ", ")
}

// Change decides a command on a task as the log has it, and makes durable what follows. The verb says
// in the error what was to be done; the error wraps [task.ErrUnknown] or that of the refusal.
func (c *Client) Change(ctx context.Context, verb string, id task.ID, do task.Command) (task.Task, error) {
	t, err := c.rec.Load(ctx, id)
	if err != nil {
		return t, err
	}
	if t, _, err = c.rec.Do(ctx, t, do); err != nil {
		return t, fmt.Errorf("%s task %s: %w", verb, id, err)
	}
	return t, c.rec.Settle(ctx, &t)
}
