package promises

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/integration/harness"
	"millrace/projections"
	"millrace/projections/view"
	api "millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/task/value"
)

// The fates of a task that a caller asks for.
const (
	isMade    = "made"
	isHeld    = "held"                         // until others have ended
	isShut    = "made, and its window is shut" // it is due when that opens
	isJoined  = "the holder of the key stands for it"
	noJob     = "refused: there is no such job"
	noFiles   = "refused: there are no such files"
	isWrong   = "refused: something is wrong in it"
	isTaken   = "refused: the key is taken"
	isFull    = "refused: the queue is full"
	hasEnded  = "refused: the parent has ended"
	leftOut   = "left out: " // a tick, with the reason
	notStored = "refused: the schedule cannot be stored"
)

// cell is one way in under one precondition.
type cell struct {
	*testing.T
	on *ground
	// client is new in each cell: a client may rely for a second on what it knows of a queue.
	client *client.Client
	rec    *events.Recorder
	job    job.Job
	// ask names the job, and carries what the precondition is about.
	ask    birth.Submission
	parent task.ID // of a child, if the precondition is about it
}

// ground is a log, and a service that answers.
type ground struct {
	store *jet.Store
	nc    *nats.Conn
}

// made is the outcome of a way in.
type made struct {
	id     task.ID
	joined bool   // the id is that of another task
	left   string // why a tick is left out
	err    error
}

func receipt(r client.Receipt, err error) made { return made{id: r.ID, joined: r.Existing, err: err} }

// door is a way by which tasks come into the world.
type door struct {
	name string
	// shape adapts the job to this way. Default: the job is unchanged.
	shape func(*job.Spec)
	// come prepares, and returns the function that asks for the task.
	come func(*cell) func() made
	// says maps refusals to what the caller hears. Default: the error.
	says map[string]string
	// but is where something else must come than of the others, and why.
	but map[string]exception
}

type exception struct{ want, why string }

var (
	answers = map[string]string{noJob: "answer 404", noFiles: "answer 404", isWrong: "answer 400", isTaken: "answer 409", isFull: "answer 429"}
	skips   = map[string]string{noJob: leftOut + task.SkipInvalid, noFiles: leftOut + task.SkipInvalid, isWrong: leftOut + task.SkipInvalid, isTaken: leftOut + task.SkipUnique, isFull: leftOut + task.SkipFull}

	ofCopies = map[string]exception{
		"the job is not there": {isMade, "a copy does what its task did, whatever has become of the job"},
	}
	ofSchedules = map[string]exception{
		"the parent has ended": {notStored, "who stores it is told, not who waits for a tick"},
	}
	ofParents = map[string]exception{
		"the queue is full":  {isMade, "a parent waits in no queue, and no bound refuses the children of what is accepted"},
		"its window is shut": {isMade, "each of its children is asked when it is claimed, and not before: who makes one knows only its parent"},
	}
)

func with(all map[string]exception, name string, e exception) map[string]exception {
	more := map[string]exception{name: e}
	for k, v := range all {
		if k != name {
			more[k] = v
		}
	}
	return more
}

var doors = []door{
	{name: "one", come: func(c *cell) func() made {
		return func() made { return receipt(c.client.Submit(c.Context(), c.ask)) }
	}},
	{name: "one under a chosen id", come: func(c *cell) func() made {
		c.ask.ID = drawn()
		return func() made { return receipt(c.client.Submit(c.Context(), c.ask)) }
	}},
	{name: "one of several", come: func(c *cell) func() made { return c.several }},
	{name: "one of several under ids of their own", come: func(c *cell) func() made {
		c.ask.ID, c.ask.Fresh = drawn(), true
		return c.several
	}},
	{name: "one of many that are equal", come: func(c *cell) func() made {
		return func() (m made) {
			m.err = c.client.SubmitMany(c.Context(), c.ask, 1, func(r client.Receipt) { m = receipt(r, nil) })
			return m
		}
	}, but: map[string]exception{
		"the key is taken":                    {isWrong, "many that are equal cannot share a key, so none may have one"},
		"the key is taken by who may have it": {isWrong, "likewise"},
		"the key is free again":               {isWrong, "likewise"},
	}},
	{name: "a request", says: answers, come: func(c *cell) func() made {
		return func() made { return c.request("task.submit", c.ask) }
	}},
	{name: "a copy", but: ofCopies, come: func(c *cell) func() made {
		of, over := c.toCopy()
		return func() made { return receipt(c.client.Copy(c.Context(), of, over)) }
	}},
	{name: "a request for a copy", says: answers, but: ofCopies, come: func(c *cell) func() made {
		of, over := c.toCopy()
		return func() made { return c.request("task.copy", map[string]any{"id": of, "task": over}) }
	}},
	{name: "a schedule, by hand", but: ofSchedules, come: func(c *cell) func() made {
		return c.hourly(func(name string) made {
			return receipt(c.client.RunSchedule(c.Context(), name, birth.Submission{}))
		})
	}},
	{name: "a request for a schedule", says: answers, but: ofSchedules, come: func(c *cell) func() made {
		return c.hourly(func(name string) made { return c.request("schedule.run", map[string]any{"name": name}) })
	}},
	{name: "a backfill", but: ofSchedules, come: func(c *cell) func() made {
		return c.hourly(func(name string) made {
			r, _, err := c.client.RunTick(c.Context(), name, time.Now().Truncate(time.Hour).Add(-time.Hour))
			return receipt(r, err)
		})
	}},
	{name: "a tick", says: skips, come: func(c *cell) func() made {
		return c.hourly(func(name string) made { return c.fire(name, time.Now().Truncate(time.Hour)) })
	}, but: with(ofSchedules, "the key is taken by who may have it",
		exception{leftOut + task.SkipUnique, "nobody waits for the answer, and the log names the holder"})},
	{name: "a child that a program asks for", come: func(c *cell) func() made {
		return func() made {
			c.ask.Parent = cmp.Or(c.parent, c.running())
			c.ask.ID = birth.ChildID(c.ask.Parent, "a")
			return made{id: c.ask.ID, err: c.client.Spawn(c.Context(), c.ask)}
		}
	}, but: map[string]exception{
		"the parent has ended":                {hasEnded, "it is the one way in with a parent"},
		"the key is taken by who may have it": {isTaken, "the program knows its child by an id that follows from its key"},
	}},
	{name: "steps", but: ofParents, come: submitted, shape: func(s *job.Spec) {
		s.Steps = []job.Step{{Name: "a", Spec: job.Spec{Run: s.Run, Files: s.Files, Window: s.Window}}}
		s.Run, s.Files, s.Window = nil, nil, ""
	}},
	{name: "values of a list", but: ofParents, come: submitted, shape: func(s *job.Spec) {
		s.Each = &job.Each{Values: []json.RawMessage{json.RawMessage("1"), json.RawMessage("2")}}
	}},
	{name: "several nodes", but: ofParents, come: submitted, shape: func(s *job.Spec) {
		s.Place = job.Place{Nodes: []string{"n1", "n2"}, Each: true}
	}},
}

func submitted(c *cell) func() made {
	return func() made { return receipt(c.client.Submit(c.Context(), c.ask)) }
}

func (c *cell) several() (m made) {
	m.err = c.client.SubmitAll(c.Context(), []birth.Submission{c.ask}, func(r client.Receipt) { m = receipt(r, nil) })
	return m
}

// request asks the service.
func (c *cell) request(verb string, of any) made {
	body, err := json.Marshal(of)
	if err != nil {
		c.Fatal(err)
	}
	reply, err := c.on.nc.Request("mr.api.ada."+verb, body, harness.Patience)
	if err != nil {
		c.Fatal(err)
	}
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" {
		return made{err: answered{code, reply.Header.Get(micro.ErrorHeader)}}
	}
	var r client.Receipt
	if err := json.Unmarshal(reply.Data, &r); err != nil {
		c.Fatal(err)
	}
	return receipt(r, nil)
}

// answered is a refusal by the service.
type answered struct{ code, text string }

func (a answered) Error() string { return a.code + " " + a.text }

// toCopy returns a task that was made of the job before there was any condition, and the changes
// for a copy of it.
func (c *cell) toCopy() (of task.ID, over birth.Submission) {
	spec := c.job.Spec
	over = birth.Submission{Queue: c.job.Queue, Needs: c.ask.Needs, Parent: c.ask.Parent, Texts: c.ask.Texts}
	if spec.Unique.Key != "" {
		over.Unique, spec.Unique = &c.job.Spec.Unique, job.Unique{}
	}
	of = drawn()
	if _, err := c.rec.Submit(c.Context(), of, task.Submitted{Work: task.Work{Job: c.job.Name, Revision: 1, Spec: &spec, Route: "elsewhere.5"}}); err != nil {
		c.Fatal(err)
	}
	return of, over
}

// hourly stores a schedule of the job.
func (c *cell) hourly(run func(name string) made) func() made {
	d := schedule.Definition{Name: c.job.Name, When: job.Schedule{Cron: "0 * * * *", CatchUp: "none"}, Make: c.ask}
	if _, _, err := c.on.store.PutSchedule(c.Context(), d, "test"); err != nil {
		return func() made { return made{left: notStored, err: err} }
	}
	return func() made { return run(d.Name) }
}

// fire has a scheduler find that a tick's time has come.
func (c *cell) fire(name string, tick time.Time) made {
	fire := fireOf(c, c.on.store, name, tick)
	handle(c, lasting(c.on.store), &fire, 1)
	last, err := c.on.store.LastDecision(c.Context(), name)
	if left, ok := last.Fact.Event.(task.ScheduleSkipped); ok {
		return made{left: leftOut + left.Reason}
	}
	return made{id: schedule.TaskID(name, tick), err: err}
}

// running returns a task that runs.
func (c *cell) running() task.ID {
	id := drawn()
	seq, err := c.rec.Submit(c.Context(), id, task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h"}, Route: "elsewhere.5"}})
	if err != nil {
		c.Fatal(err)
	}
	c.do(id, task.Claim{Node: "n", Session: "s", Offer: seq})
	return id
}

func (c *cell) do(id task.ID, command task.Command) task.Task {
	t, err := c.rec.Load(c.Context(), id)
	if err == nil {
		t, _, err = c.rec.Do(c.Context(), t, command)
	}
	if err != nil {
		c.Fatal(err)
	}
	return t
}

// holder submits a task of the job, which has the key and a place in the queue.
func (c *cell) holder() task.ID {
	r, err := client.New(c.on.store, "test").Submit(c.Context(), birth.Submission{Job: c.job.Name})
	if err != nil {
		c.Fatal(err)
	}
	return r.ID
}

// precondition is what a task meets on its way in.
type precondition struct {
	name string
	spec job.Spec
	// params are the parameters that the job declares.
	params param.Params
	// ask changes the submission.
	ask func(*cell)
	// now makes the precondition true. It returns the holder of the key if the precondition is
	// about a key.
	now  func(*cell) task.ID
	want string
}

var declared = param.Params{Declared: []param.Param{{Name: "n", Type: param.Integer, Optional: true}}}

var preconditions = []precondition{
	{name: "nothing is in the way", want: isMade},
	{name: "the job is not there", want: noJob, now: func(c *cell) task.ID {
		if err := c.client.Store().RemoveJob(c.Context(), c.job.Name, "somebody"); err != nil {
			c.Fatal(err)
		}
		return ""
	}},
	{name: "files are there", want: isMade, spec: job.Spec{Files: &job.Files{Bundle: "app"}}},
	{name: "files are not there", want: noFiles, spec: job.Spec{Files: &job.Files{Bundle: "never-pushed"}}},
	{name: "files are not there any more", want: noFiles, spec: job.Spec{Files: &job.Files{Bundle: "never-pushed@" + strings.Repeat("0", 64)}}},
	{name: "a parameter is missing", want: isWrong, spec: job.Spec{Unique: job.Unique{Key: "{params.none}"}}},
	{name: "the parameters are what they may be", want: isMade, params: declared, ask: func(c *cell) { c.ask.Texts = map[string]string{"n": "3"} }},
	{name: "a parameter is not what it may be", want: isWrong, params: declared, ask: func(c *cell) { c.ask.Texts = map[string]string{"n": "many"} }},
	{name: "a parameter is not declared", want: isWrong, params: declared, ask: func(c *cell) { c.ask.Texts = map[string]string{"m": "3"} }},
	{name: "the key is taken", want: isTaken, spec: job.Spec{Unique: job.Unique{Key: "k"}}, now: (*cell).holder},
	{name: "the key is taken by who may have it", want: isJoined, now: (*cell).holder,
		spec: job.Spec{Unique: job.Unique{Key: "k", OnConflict: job.ConflictReturn}}},
	{name: "the key is free again", want: isMade, spec: job.Spec{Unique: job.Unique{Key: "k"}}, now: func(c *cell) task.ID {
		id := c.holder()
		t, err := c.client.Cancel(c.Context(), id, "")
		if err == nil && t.Spec.Parental() { // in place of a scheduler
			c.do(id, task.Conclude{State: task.Cancelled})
		} else if err != nil {
			c.Fatal(err)
		}
		return ""
	}},
	{name: "the queue is full", want: isFull, now: func(c *cell) task.ID {
		one := 1
		if _, err := c.rec.Submit(c.Context(), drawn(), task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "h"}, Route: placement.QueueRoute(c.job.Queue, 5)}}); err != nil {
			c.Fatal(err)
		}
		if _, err := client.New(c.on.store, "test").LimitQueue(c.Context(), c.job.Queue, queue.Limit{Waiting: &one}); err != nil {
			c.Fatal(err)
		}
		return ""
	}},
	{name: "the parent has ended", want: isWrong, ask: func(c *cell) {
		c.parent = c.running()
		t := c.do(c.parent, task.Cancel{})
		c.do(c.parent, task.Finish{Epoch: t.Epoch})
		c.ask.Parent = c.parent
	}},
	{name: "what it needs is not there", want: isHeld, ask: func(c *cell) {
		c.ask.Needs = &task.Needs{Of: []task.Need{{Task: drawn()}}}
	}},
	{name: "its window is shut", want: isShut, spec: job.Spec{Window: "later"}},
	{name: "its window is no calendar", want: isWrong, spec: job.Spec{Window: "nothing"}},
}

// Every way in meets every precondition with the same outcome, or the table says why not.
func TestDoors(t *testing.T) {
	t.Parallel()
	on := open(t)
	for _, p := range preconditions {
		for i := range doors {
			d := &doors[i]
			t.Run(p.name+"/"+d.name, func(t *testing.T) {
				c := &cell{T: t, on: on, client: client.New(on.store, "test")}
				c.rec = &events.Recorder{Log: on.store, Actor: "test", Now: time.Now, NewID: events.NewID}
				name := fmt.Sprintf("%s-%d", strings.ReplaceAll(p.name, " ", "-"), i)
				c.job, c.ask = job.Job{Name: name, Queue: name, Spec: p.spec, Params: p.params}, birth.Submission{Job: name}
				c.job.Spec.Run = &job.Run{Argv: []string{"true"}}
				if d.shape != nil {
					d.shape(&c.job.Spec)
				}
				if _, _, err := on.store.PutJob(t.Context(), c.job, "test"); err != nil {
					t.Fatal(err)
				}
				if p.ask != nil {
					p.ask(c)
				}
				come := d.come(c)
				var holder task.ID
				if p.now != nil {
					holder = p.now(c)
				}
				want := cmp.Or(d.says[p.want], p.want)
				if not, ok := d.but[p.name]; ok {
					want = not.want
				}
				is := come()
				if got := c.verdict(is, holder); got != want {
					t.Errorf("%s (%v), want it %s", got, is.err, want)
				}
			})
		}
	}
}

// verdict names the fate of what was asked for.
func (c *cell) verdict(is made, holder task.ID) string {
	var said answered
	switch {
	case is.left != "":
		return is.left
	case errors.As(is.err, &said):
		return "answer " + said.code
	case errors.As(is.err, new(*events.Taken)):
		return isTaken
	case is.joined && is.id == holder:
		return isJoined
	case is.err == nil:
		return c.state(is.id)
	}
	for err, word := range map[error]string{
		definitions.ErrNoJob: noJob, definitions.ErrNoBundle: noFiles, client.ErrNoVersion: noFiles, client.ErrInvalid: isWrong, queue.ErrFull: isFull, task.ErrEnded: hasEnded,
	} {
		if errors.Is(is.err, err) {
			return word
		}
	}
	return "an error"
}

// state returns the whole task as it was born, with what it was asked for.
func (c *cell) state(id task.ID) string {
	t, err := c.client.Task(c.Context(), id)
	if err != nil {
		c.Fatal(err)
	}
	all := []task.Task{t}
	if t.State == task.Running {
		children, err := view.Children(c.Context(), c.client.View(), &t)
		if err != nil || len(children) == 0 || len(children) != len(t.Children.Names) {
			c.Errorf("its children are %v, %v", children, err)
		}
		all = append(all, children...)
	}
	for i := range all {
		if f := all[i].Spec.Files; f != nil && !strings.HasPrefix(f.Bundle, "app@") {
			c.Errorf("the files of %s are %+v, want a version of app", all[i].What(), f)
		}
	}
	switch {
	case t.State == task.Held && len(t.Holds) > 0:
		return isHeld
	case t.State == task.Scheduled && t.Reason == value.Window:
		return isShut
	case t.State == task.Pending, t.State == task.Running:
		return isMade
	}
	return t.State.String()
}

// open opens a log with files and a calendar, and a service.
func open(t *testing.T) *ground {
	t.Helper()
	nc, store := openServed(t)
	model, err := projections.Open(filepath.Join(t.TempDir(), "view.db"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended, answers := make(chan error, 2), make(chan struct{})
	go func() { ended <- (&projections.Projector{Log: store, Store: model}).Run(ctx) }()
	go func() {
		ended <- (&api.Service{Conn: nc, Client: client.New(store, ""), Model: model, Version: "0.0.0", Ready: func() { close(answers) }}).Run(ctx)
	}()
	t.Cleanup(func() {
		stop()
		for range 2 {
			if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if err := model.Close(); err != nil {
			t.Error(err)
		}
	})
	<-answers
	c := client.New(store, "test")
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PushFiles(t.Context(), client.FilesPush{Dir: dir, Name: "app"}); err != nil {
		t.Fatal(err)
	}
	later := schedule.Calendar{Name: "later", Rules: []schedule.Rule{{Open: time.Now().AddDate(0, 6, 0).Format("01-02")}}, Otherwise: schedule.Closed}
	if _, _, err := c.ApplyCalendar(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	return &ground{store, nc}
}
