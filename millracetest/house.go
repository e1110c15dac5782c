package millracetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/history/whatif"
	"millrace/scheduler"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Times of the house. They are longer than those of an installation, so that a day of a test costs few heartbeats.
const (
	ackWait = 15 * time.Minute // of leases and heartbeats
	beat    = 5 * time.Minute
	look    = 5 * time.Minute // at all nodes and tasks
	again   = 5 * time.Second // at a task whose time is over
)

// house is a log in memory with a scheduler, and what an installation keeps beside its log.
type house struct {
	*events.Memory
	rec *events.Recorder

	mu      sync.Mutex
	model   *whatif.ReadModel    // guarded by mu
	sched   *scheduler.Scheduler // called with mu
	changed chan struct{}        // guarded by mu; closed when the log has grown
	armed   map[string]armed     // guarded by mu; timers of schedules

	aside   sync.Mutex
	hints   map[node.ID]func(task.ID)     // guarded by aside, as all below
	watched map[task.ID]map[int]func()    // who waits for a task
	watches int                           // how many have waited
	printed map[task.ID][]output.Lines    // what tasks have left
	kept    map[task.ID][]output.Records  // likewise
	marks   map[task.ID]output.Checkpoint // likewise
	apart   map[stepResult][]byte         // likewise
	ran     map[string]duties.Ran         // where tasks of a name ran last
	workers map[node.ID]*port             // the latest of each name
	crash   crash                         // when a node is lost by itself
}

// stepResult names what a step has given that its fact does not have.
type stepResult struct {
	task   task.ID
	digest string
}

func newHouse() *house {
	h := &house{
		model: whatif.NewReadModel(), changed: make(chan struct{}), hints: map[node.ID]func(task.ID){}, watched: map[task.ID]map[int]func(){},
		printed: map[task.ID][]output.Lines{}, kept: map[task.ID][]output.Records{}, marks: map[task.ID]output.Checkpoint{}, apart: map[stepResult][]byte{},
		ran: map[string]duties.Ran{}, workers: map[node.ID]*port{}, armed: map[string]armed{},
	}
	h.Memory = events.NewMemory(time.Now, ackWait)
	h.rec = &events.Recorder{Log: h.Memory, Actor: "test", Hints: h, Now: time.Now, NewID: events.NewID}
	h.sched = scheduler.New(h.Memory, h.model, beats{h.Memory}, scheduler.Config{
		Settings: duties.Settings{AckWait: ackWait}, Births: births{h, true}, Schedules: ticks{h}, Ticks: ticks{h}, Limits: h.model, Timed: h.model, Timers: h.Memory, Hints: h,
		Flap: node.FlapPolicy{Limit: -1}, Refusing: 1, Now: time.Now,
	})
	return h
}

// run is the scheduler's life. It paces itself as the one of the simulation does.
func (h *house) run(ctx context.Context) {
	feed, err := h.Follow(ctx, 1)
	if err != nil {
		panic(err) // a log in memory can always be followed
	}
	defer feed.Close()
	all, next := time.Now(), time.Time{}
	for ctx.Err() == nil {
		until := h.due(all)
		sweep := until
		if !next.IsZero() && next.Before(until) {
			until = next
		}
		waiting, cancel := context.WithDeadline(ctx, until)
		records, err := feed.Next(waiting)
		cancel()
		if err != nil && ctx.Err() != nil {
			return
		}
		next = h.observe(ctx, records)
		if !time.Now().Before(sweep) {
			h.mu.Lock()
			_ = errors.Join(h.sched.Sweep(ctx), h.sched.CheckNodes(ctx), h.sched.React(ctx)) // a log in memory always answers
			h.mu.Unlock()
			all = time.Now().Add(look)
		}
	}
}

// due is when a duty of a task is over or a tick of a schedule is due, at the latest at a time.
func (h *house) due(at time.Time) time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, is := range h.armed {
		at = sooner(at, is.tick.Due)
	}
	for t := range h.model.All() {
		if t.State.Terminal() {
			continue
		}
		own := duties.Owes(*t, duties.Surroundings{Serving: 1}, duties.Settings{})
		switch {
		case own.Command == nil || own.Look || own.By.IsZero():
		case own.By.Before(now):
			at = sooner(at, now.Add(again))
		default:
			at = sooner(at, own.By.Add(1)) // overdue is what its time is over
		}
	}
	return at
}

func sooner(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// observe tells the scheduler what is new, lets it do what follows, and returns when it has more to do.
func (h *house) observe(ctx context.Context, records []events.Record) (next time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	steps := make([]events.Step, len(records))
	for i := range records {
		steps[i] = h.model.Step(&records[i])
	}
	h.sched.Observe(steps)
	for i := range steps {
		is := &steps[i]
		h.tell(is.Record.Fact.Task)
		if def := is.Record.Fact.Def; def.Kind() == task.DefSchedule {
			ticks{h}.define(ctx, def.Name())
		}
		if is.Task == nil || is.Is.State == is.Was.State {
			continue
		}
		if is.Is.Parent != "" {
			_ = h.sched.Follow(ctx, is.Is.Parent)
		}
		if is.Task.Spec.Parental() || birth.Deserted(is.Is.State, is.Is.Reason) {
			_ = h.sched.Follow(ctx, is.Task.ID)
		}
	}
	ticks{h}.fire(ctx)
	_ = h.sched.ReleaseTicks(ctx)
	next, _ = h.sched.Look(ctx)
	if len(records) > 0 {
		close(h.changed)
		h.changed = make(chan struct{})
	}
	return next
}

// tasks calls each with all tasks, in the order of their ids, until it returns false. They are not to be kept.
func (h *house) tasks(each func(*task.Task) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for t := range h.model.All() {
		if !each(t) {
			return
		}
	}
}

// News, outputs and definitions, as [client.Ground] has them.
func (h *house) Now() time.Time { return time.Now() }

func (h *house) Gone() <-chan struct{} { return nil }

func (h *house) WhyGone() error { return events.ErrGone }

func (h *house) Hint(id node.ID, about task.ID) error {
	h.aside.Lock()
	defer h.aside.Unlock()
	if heard := h.hints[id]; heard != nil {
		go heard(about)
	}
	return nil
}

// tell tells those who watch a task.
func (h *house) tell(id task.ID) {
	h.aside.Lock()
	defer h.aside.Unlock()
	for _, changed := range h.watched[id] {
		changed()
	}
}

func (h *house) WatchTask(id task.ID, changed func()) (stop func(), err error) {
	h.aside.Lock()
	defer h.aside.Unlock()
	if h.watched[id] == nil {
		h.watched[id] = map[int]func(){}
	}
	h.watches++
	n := h.watches
	h.watched[id][n] = changed
	return func() {
		h.aside.Lock()
		defer h.aside.Unlock()
		delete(h.watched[id], n)
	}, nil
}

func (h *house) PrintedFrom(_ context.Context, id task.ID, _ client.OutputStart, _ bool, each func(uint64, output.Lines) error) error {
	h.aside.Lock()
	all := slices.Clone(h.printed[id])
	h.aside.Unlock()
	for i, l := range all {
		l.Lines = slices.Clone(l.Lines)
		if err := each(uint64(i)+1, l); err != nil {
			return err
		}
	}
	return nil
}

func (h *house) Kept(_ context.Context, id task.ID, _ bool, each func(output.Records) error) error {
	h.aside.Lock()
	all := slices.Clone(h.kept[id])
	h.aside.Unlock()
	for _, r := range all {
		if err := each(r); err != nil {
			return err
		}
	}
	return nil
}

// Definitions are facts here as elsewhere; nothing keeps copies of them.

// define stores a definition, or removes it if text is nil. The event is what as makes of it.
func (h *house) define(ctx context.Context, def task.Def, text []byte, actor string, as func(task.Edition) task.DefinitionEvent) (revision uint64, changed bool, err error) {
	was, err := h.Definition(ctx, def)
	if err != nil || text != nil && was.Says(text) {
		return was.Revision, false, err
	}
	next, err := was.Next(text)
	if err != nil {
		return 0, false, err
	}
	e := as(next)
	now := time.Now().UTC()
	f := &events.Fact{ID: events.NewID(now), At: now, Actor: actor, Type: events.TypeOf(e), Def: def, Event: e}
	_, err = h.Append(ctx, f, was.Head)
	return next.Revision, err == nil, err
}

func applied(e task.Edition) task.DefinitionEvent { return task.DefinitionApplied{Edition: e} }

func (h *house) DefinitionAt(ctx context.Context, def task.Def, _ uint64) (task.Definition, error) {
	return h.Definition(ctx, def)
}

func (h *house) PutJobFrom(ctx context.Context, j job.Job, actor string, _ task.From, _ ...uint64) (revision uint64, changed bool, err error) {
	if err := j.Validate(); err != nil {
		return 0, false, err
	}
	text, err := value.JSON(j)
	if err != nil {
		return 0, false, err
	}
	return h.define(ctx, task.Named(task.DefJob, j.Name), text, actor, applied)
}

func (h *house) Job(ctx context.Context, name string) (definitions.StoredJob, error) {
	d, err := h.Definition(ctx, task.Named(task.DefJob, name))
	if err != nil {
		return definitions.StoredJob{}, err
	}
	return definitions.JobIn(name, d)
}

func (h *house) PutSchedule(ctx context.Context, d schedule.Definition, actor string, _ ...uint64) (revision uint64, changed bool, err error) {
	was, err := h.Schedule(ctx, d.Name)
	before := &was.Definition
	if err != nil {
		before = nil
	}
	stored, _, err := d.Over(before, time.Now())
	if err != nil {
		return 0, false, err
	}
	text, err := value.JSON(stored)
	if err != nil {
		return 0, false, err
	}
	return h.define(ctx, task.Named(task.DefSchedule, d.Name), text, actor, applied)
}

func (h *house) Schedule(ctx context.Context, name string) (schedule.Stored, error) {
	d, err := h.Definition(ctx, task.Named(task.DefSchedule, name))
	if err != nil {
		return schedule.Stored{}, err
	}
	return definitions.ScheduleIn(name, d)
}

func (h *house) Schedules(ctx context.Context) (all []schedule.Stored, err error) {
	seen := map[task.Def]bool{}
	for _, r := range h.All() {
		if def := r.Fact.Def; def.Kind() == task.DefSchedule && !seen[def] {
			seen[def] = true
			if s, err := h.Schedule(ctx, def.Name()); err == nil {
				all = append(all, s)
			}
		}
	}
	return all, nil
}

func (h *house) RemoveSchedule(ctx context.Context, name, actor string) error {
	if _, err := h.Schedule(ctx, name); err != nil {
		return err
	}
	_, _, err := h.define(ctx, task.Named(task.DefSchedule, name), nil, actor, func(e task.Edition) task.DefinitionEvent {
		return task.DefinitionRemoved{Revision: e.Revision}
	})
	return err
}

// births is what a desk needs beside the log: that of the scheduler, or another one.
type births struct {
	h    *house
	held bool // the caller holds mu
}

func (b births) JobAt(ctx context.Context, name string, _ uint64) (job.Job, uint64, error) {
	j, err := b.h.Job(ctx, name)
	return j.Job, j.Revision, err
}

func (births) PinFiles(context.Context, *job.Files) (*job.Files, error) {
	return nil, birth.NoTask(errors.New("a test has no files"))
}

func (births) DeclareAll(context.Context, []*task.Work, string) error { return nil } // the log in memory sees to it

func (b births) Waiting(_ context.Context, queue string, most int) (n int, handed uint64, err error) {
	if !b.held {
		b.h.mu.Lock()
		defer b.h.mu.Unlock()
	}
	for t := range b.h.model.All() {
		if t.State == task.Pending && t.Route.Queue() == queue && n < most {
			n++
		}
	}
	return n, 0, nil
}

// beats are the heartbeats, as the scheduler sees them.
type beats struct{ *events.Memory }

func (b beats) Beating(ctx context.Context, id node.ID) (node.Heartbeat, bool, error) {
	p, err := b.Pulse(ctx, id)
	return p.Beat, p.Beat.Session != "", err
}

func (beats) WatchBeats(context.Context, func(node.ID, time.Time), func()) error { return nil }

// What attempts leave beside the log, as [worker.Outputs].

func (h *house) Told(_ context.Context, id task.ID, epoch uint64) (told output.Told, err error) {
	h.aside.Lock()
	defer h.aside.Unlock()
	for _, l := range h.printed[id] {
		for i := range l.Lines {
			if l.Epoch == epoch {
				told.Lines = max(told.Lines, l.Lines[i].N)
			}
		}
	}
	for _, r := range h.kept[id] {
		if r.Epoch == epoch {
			told.Records += len(r.Items)
		}
	}
	return told, nil
}

func (h *house) Print(_ context.Context, l output.Lines) error {
	h.aside.Lock()
	defer h.aside.Unlock()
	l.Lines = slices.Clone(l.Lines)
	h.printed[l.Task] = append(h.printed[l.Task], l)
	return nil
}

func (h *house) Keep(_ context.Context, r output.Records) error {
	h.aside.Lock()
	defer h.aside.Unlock()
	r.Items = slices.Clone(r.Items)
	for i := range r.Items {
		r.Items[i] = slices.Clone(r.Items[i])
	}
	h.kept[r.Task] = append(h.kept[r.Task], r)
	return nil
}

func (h *house) SaveLive(context.Context, output.Live) error { return nil }

func (h *house) SaveCheckpoint(_ context.Context, c output.Checkpoint) error {
	h.aside.Lock()
	defer h.aside.Unlock()
	before := h.marks[c.Task]
	if !c.Follows(&before) {
		return task.ErrFenced
	}
	h.marks[c.Task] = c
	return nil
}

func (h *house) Checkpoint(_ context.Context, id task.ID) (output.Checkpoint, error) {
	h.aside.Lock()
	defer h.aside.Unlock()
	return h.marks[id], nil
}

func (h *house) SaveStep(_ context.Context, id task.ID, digest string, result []byte) error {
	h.aside.Lock()
	defer h.aside.Unlock()
	h.apart[stepResult{id, digest}] = slices.Clone(result)
	return nil
}

func (h *house) StepResult(_ context.Context, id task.ID, digest string, _ int) ([]byte, error) {
	h.aside.Lock()
	defer h.aside.Unlock()
	result, there := h.apart[stepResult{id, digest}]
	if !there {
		return nil, errors.New("it was never stored")
	}
	return slices.Clone(result), nil
}

func (h *house) Ran(_ context.Context, name string) (duties.Ran, error) {
	h.aside.Lock()
	defer h.aside.Unlock()
	return h.ran[name], nil
}

func (h *house) SaveRan(_ context.Context, r duties.Ran) error {
	h.aside.Lock()
	defer h.aside.Unlock()
	h.ran[r.Name] = r
	return nil
}
