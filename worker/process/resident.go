package process

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// ResidentsConfig says which resident programs to keep.
type ResidentsConfig struct {
	// Shell is the line for /bin/sh -c that starts one.
	Shell string
	// Number is how many are kept, at least 1.
	Number int
	// Memory bounds what one of them may use, with everything that it starts, in bytes; 0 for no
	// bound.
	Memory value.Size
	// Tasks is how many tasks one runs before another takes its place; 0 for no bound.
	Tasks int
	// Silence is how long one that has a task may leave a PING without an answer until it is killed.
	// 0 for ever.
	Silence time.Duration
	// Start is how long one may take until its HELLO. Default 30s.
	Start time.Duration
	// Log receives what they print while they have no task, and why they are replaced.
	Log *slog.Logger
}

// Residents are programs that run one task after the other. The worker keeps some of a kind alive,
// and gives each one task at a time. One that ends, hangs or takes too much memory fails its task
// and is replaced.
type Residents struct {
	kind
	ctx   context.Context
	stop  context.CancelFunc
	free  chan *resident // some may have ended meanwhile
	wrong chan error     // why none could be started, for whoever waits
	alive atomic.Int32
	seats sync.WaitGroup
}

var _ worker.Runner = (*Residents)(nil)

// kind is what resident programs of one kind have in common.
type kind struct {
	tasks   *Tasks
	cfg     ResidentsConfig
	command child.Command // how one is started
	bound   string        // who has set the bound on memory
	names   []string      // of handlers; set by the first HELLO
}

const (
	// startPatience is the default of [ResidentsConfig.Start].
	startPatience = 30 * time.Second
	boundOfWorker = "--program-memory of the worker"
	// byeGrace is how long a program has to end after a BYE, and then after SIGTERM.
	byeGrace = time.Second
	// drainWait bounds the last pause for what a task has printed to its standard error: something
	// that it has started may go on printing.
	drainWait = 100 * time.Millisecond
	// silentPings is how many PINGs in a row may go without an answer.
	silentPings = 4
	// restartMin and restartMax bound the pause before another start after one that has failed.
	restartMin, restartMax = 100 * time.Millisecond, 10 * time.Second
	// idleLines bounds how many lines of a program without a task are logged.
	idleLines = 20
)

// NewResidents starts the first program, and when it has said HELLO all others. t says how, and what
// programs are told. An error says why the first one did not start; ctx bounds only that.
func NewResidents(ctx context.Context, t *Tasks, cfg ResidentsConfig) (*Residents, error) {
	cfg.Start, cfg.Log = cmp.Or(cfg.Start, startPatience), cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if t.Messages == job.MessagesOff {
		return nil, errors.New("resident programs speak by messages, and this worker obeys none (--messages off)")
	}
	k := kind{tasks: t, cfg: cfg, command: child.Command{Shell: cfg.Shell, Env: t.withProgram(slices.Clip(child.WorkersOwn())), Resources: job.Resources{Memory: cfg.Memory}}, bound: boundOfWorker}
	k.command.Messages.Keyless = ipc.Keyless((&job.Run{}).Strictness(t.Messages))
	r := &Residents{kind: k, free: make(chan *resident, 2*cfg.Number), wrong: make(chan error)}
	r.ctx, r.stop = context.WithCancel(context.Background())
	first, err := r.start(ctx)
	if err != nil {
		r.stop()
		return nil, err
	}
	r.seats.Go(func() { r.keep(first) })
	for range cfg.Number - 1 {
		r.seats.Go(func() { r.keep(nil) })
	}
	return r, nil
}

// Names are those of the handlers that the programs have.
func (r *Residents) Names() []string { return r.names }

// Close ends the programs. No attempt may be running.
func (r *Residents) Close() {
	r.stop()
	r.seats.Wait()
}

// keep keeps one program alive: m, which has said HELLO, or another one.
func (r *Residents) keep(m *resident) {
	for pause := restartMin; ; {
		if m == nil {
			var err error
			if m, err = r.start(r.ctx); err != nil {
				if r.ctx.Err() != nil {
					return
				}
				r.cfg.Log.Warn("a resident program did not start; trying again", "program", r.cfg.Shell, "error", err, "pause", pause.String())
				r.lament(err, pause)
				pause = min(2*pause, restartMax)
				continue
			}
		}
		r.alive.Add(1)
		select {
		case r.free <- m:
		case <-r.ctx.Done():
		}
		select {
		case <-m.ended:
			r.cfg.Log.Warn("a resident program has ended; another one is started", "program", r.cfg.Shell, "reason", m.why())
		case <-m.retired:
			m.bye()
		case <-r.ctx.Done():
			m.bye()
		}
		r.alive.Add(-1)
		r.purge()
		if r.ctx.Err() != nil {
			return
		}
		if m.count.Load() > 0 {
			pause = restartMin
		} else { // it says HELLO and ends
			r.lament(errors.New(m.why()), pause)
			pause = min(2*pause, restartMax)
		}
		m = nil
	}
}

// purge takes programs that have ended out of those that are free.
func (r *Residents) purge() {
	for range len(r.free) {
		select {
		case m := <-r.free:
			if !m.over() {
				r.free <- m
			}
		default:
			return
		}
	}
}

// lament tells tasks that wait why there is no program, until the pause is over.
func (r *Residents) lament(err error, pause time.Duration) {
	over := time.NewTimer(pause)
	defer over.Stop()
	for {
		select {
		case r.wrong <- err:
		case <-over.C:
			return
		case <-r.ctx.Done():
			return
		}
	}
}

// take returns a program that has no task.
func (r *Residents) take(ctx context.Context) (*resident, error) {
	for {
		select {
		case m := <-r.free:
			if !m.over() {
				return m, nil
			}
		case err := <-r.wrong:
			if r.alive.Load() == 0 {
				return nil, fmt.Errorf("no program could be started: %w", err)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Run implements [worker.Runner].
func (r *Residents) Run(ctx context.Context, a *worker.Attempt) worker.Outcome {
	began := time.Now()
	params, hidden, err := openParams(&a.Task, "", nil)
	var m *resident
	if err == nil {
		m, err = r.take(ctx)
	}
	if err != nil {
		return worker.Outcome{Class: value.System, Message: err.Error(), Stopped: ctx.Err() != nil}
	}
	o := m.attempt(ctx, &session{attempt: a, began: began, params: params}, hidden)
	switch n := int(m.count.Load()); {
	case m.over():
	case r.cfg.Tasks > 0 && n >= r.cfg.Tasks:
		close(m.retired)
	default:
		r.free <- m
	}
	return o
}

// start starts a program and waits for its HELLO.
func (k *kind) start(ctx context.Context) (*resident, error) {
	m := &resident{of: k, ended: make(chan struct{}), retired: make(chan struct{}), hello: make(chan ipc.Message, 1), done: make(chan ipc.Message, 1)}
	key := rand.Text()
	m.turns.Set(key)
	c := k.command
	c.Env = append(slices.Clip(c.Env),
		"MILLRACE_IPC="+strconv.Itoa(ipc.Version), "MILLRACE_RESIDENT="+strconv.Itoa(ipc.Version), "MILLRACE_STDIN=open", "MILLRACE_NODE="+k.tasks.Node, ipc.KeyVar+"="+key)
	c.OpenStdin, c.Watched, c.Grace, c.Limit, c.Started, c.Messages.Turns = true, true, byeGrace, graceOf, m.meet, &m.turns
	var running context.Context
	running, m.stop = context.WithCancelCause(context.Background())
	go func() {
		m.result = k.tasks.Runner.Run(running, c, m)
		close(m.ended)
		m.stop(nil)
	}()
	patience := time.NewTimer(k.cfg.Start)
	defer patience.Stop()
	var err error
	select {
	case hello := <-m.hello:
		m.turns.Set("")
		if err = m.greeted(hello); err == nil {
			return m, nil
		}
	case <-m.ended:
		return nil, errors.New(m.why())
	case <-patience.C:
		err = fmt.Errorf("%s said no HELLO within %v: does it call the run of its library?", k.cfg.Shell, k.cfg.Start)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	m.kill(err)
	return nil, err
}

// errKill is the cause for which a program is killed at once.
var errKill = errors.New("killed")

func graceOf(cause error) time.Duration {
	if errors.Is(cause, errKill) {
		return 0
	}
	return byeGrace
}

// resident is one program.
type resident struct {
	of      *kind
	turns   ipc.Turns
	process *child.Running
	stop    context.CancelCauseFunc
	result  child.Result     // set before ended is closed
	ended   chan struct{}    // closed when nothing of it is left
	retired chan struct{}    // closed when it has had its tasks
	hello   chan ipc.Message // gets the first one
	done    chan ipc.Message // holds the DONE of the current task
	count   atomic.Int64     // tasks so far, the current one included
	heard   atomic.Int64     // what it has printed so far, in pieces
	// For [Programs]: what tasks it can run, since when it has none, as whom it runs, and its secrets.
	fits    string
	since   time.Time
	as      *account
	secrets []string

	mu    sync.RWMutex
	now   *session // guarded by mu; nil between tasks
	empty bool     // of the reader of messages: an empty line is not passed on yet
	idle  int      // guarded by idling; lines without a task since the last one
	last  string   // guarded by idling; the last of them
	// idling is apart from mu, which readers share.
	idling sync.Mutex
}

var _ child.Sink = (*resident)(nil)

func (m *resident) meet(p child.Process) { m.process, _ = p.(*child.Running) }

// greeted checks a HELLO. All programs must have the handlers that the first one had.
func (m *resident) greeted(said ipc.Message) error {
	hello, err := said.Hello()
	if err != nil {
		return err
	}
	if m.of.names == nil {
		m.of.names = hello.Tasks
	}
	for _, name := range m.of.names {
		if !slices.Contains(hello.Tasks, name) {
			return fmt.Errorf("its program handles %q no more, as it did when this worker started: start the worker again", name)
		}
	}
	return nil
}

// over tells whether the program has ended.
func (m *resident) over() bool {
	select {
	case <-m.ended:
		return true
	default:
		return false
	}
}

// why says why the program, which has ended, did so.
func (m *resident) why() string {
	m.idling.Lock()
	defer m.idling.Unlock()
	return child.WithLastLine(cmp.Or(m.result.Message, m.of.cfg.Shell+" exited with code 0"), m.last)
}

// bye ends the program, and returns when it has ended.
func (m *resident) bye() {
	m.process.Send(ipc.Bye())
	select {
	case <-m.ended:
	case <-time.After(byeGrace):
		m.stop(errors.New("it is not needed any more"))
		<-m.ended
	}
}

// kill ends the program at once, and returns when it has ended.
func (m *resident) kill(why error) {
	m.stop(fmt.Errorf("%w: %w", errKill, why))
	<-m.ended
}

// attempt runs an attempt to its end, of which s says the rest. hidden are secrets of its parameters.
func (m *resident) attempt(ctx context.Context, s *session, hidden []string) worker.Outcome {
	s.key = rand.Text()
	s.tasks, s.out, s.ctx, s.started, s.process = m.of.tasks, s.attempt.Output, ctx, time.Now(), m.process
	s.redact, s.steps.of.Of = newRedactor(append(hidden, s.key)), s.attempt
	return m.run(ctx, s)
}

// run runs a task to its end.
func (m *resident) run(ctx context.Context, s *session) worker.Outcome {
	m.begin(s)
	s.greet()
	s.watch()
	defer s.close()
	cancelled, told := ctx.Done(), time.Time{}
	var grace, pings <-chan time.Time
	missed, heard := 0, int64(-1)
	if d := m.of.cfg.Silence; d > 0 {
		ticker := time.NewTicker(d / silentPings)
		defer ticker.Stop()
		pings = ticker.C
	}
	for {
		select {
		case done := <-m.done:
			return m.finish(s, done, !told.IsZero())
		case <-m.ended:
			select {
			case done := <-m.done: // it has ended only afterwards
				return m.finish(s, done, !told.IsZero())
			default:
				return m.died(s, "", !told.IsZero())
			}
		case <-cancelled:
			cause := context.Cause(ctx)
			told, cancelled = time.Now(), nil
			left := s.attempt.Grace(cause)
			m.process.Send(ipc.Cancel(cause.Error(), told.Add(left)))
			grace = time.After(left)
		case <-grace:
			m.kill(context.Cause(ctx))
			return m.died(s, "", true)
		case <-pings:
			// Not by the time that has passed: the worker itself may have stood still.
			if now := m.heard.Load(); now != heard {
				missed, heard = 0, now
			} else if missed++; missed > silentPings {
				why := fmt.Sprintf("hung: the program answered no PING for %v and was killed; --program-silence of the worker says how long it may take", m.of.cfg.Silence)
				m.kill(errors.New(why))
				return m.died(s, why, !told.IsZero())
			}
			m.process.Send(ipc.Ping())
		}
	}
}

// begin makes a task the one that the program speaks of.
func (m *resident) begin(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.count.Add(1)
	m.now = s
	m.turns.Set(s.key)
	m.idling.Lock()
	m.idle, m.last = 0, ""
	m.idling.Unlock()
}

// end ends that, when all that the program has said of it is passed on.
func (m *resident) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = nil
	m.turns.Set("")
}

// finish returns the outcome of a task that the program has ended.
func (m *resident) finish(s *session, done ipc.Message, stopped bool) worker.Outcome {
	// What it has printed before comes through another pipe.
	for pause := 10 * time.Microsecond; !m.process.Told() && pause < drainWait; pause *= 2 {
		time.Sleep(pause)
	}
	m.end()
	s.ends(done)
	return s.steps.ends(s.outcome(&child.Result{Stopped: stopped}))
}

// died returns the outcome of a task whose program has ended without a word about it. why says so
// if that is known.
func (m *resident) died(s *session, why string, stopped bool) worker.Outcome {
	m.end()
	r := m.result
	r.Usage = task.Usage{MaxMemory: r.Usage.MaxMemory, Signal: r.Usage.Signal, Limits: r.Usage.Limits} // the rest is of all its tasks
	r.Stopped = stopped
	switch {
	case why != "":
		r.Class, r.Message = value.Timeout, why
	case r.Class == value.Memory && m.of.command.Resources.Memory > 0:
		r.Message = fmt.Sprintf("the program used more than %v of memory (%s) and was killed", m.of.command.Resources.Memory, m.of.bound)
	case r.Class == "":
		r.Class, r.Message = value.Exit, "the program exited with code 0 in the middle of the task"
	}
	return s.outcome(&r)
}

// ends takes what a DONE says.
func (s *session) ends(done ipc.Message) {
	e, err := done.End()
	if err == nil && len(e.Result) > ipc.MaxResult {
		s.tooMuch(ipc.Message{Type: ipc.TypeResult, Excess: fmt.Sprintf("it has %d bytes, want at most %d", len(e.Result), ipc.MaxResult)})
		return
	}
	if done.Excess != "" {
		err = errors.New(done.Excess)
	}
	if err != nil {
		e.Error = &ipc.Failure{Message: "its DONE means nothing: " + err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.Result != nil {
		s.Result, s.Unfit.Result = e.Result, ""
	}
	if e.Error != nil {
		e.Error.Fatal = true
		s.Failure = e.Error
	}
}

// stepping is the durable function that a resident program runs.
type stepping struct {
	of    worker.Function
	doing task.Step // that the program does, since began; no kind for none
	began time.Time
	retry job.Retry
}

// step comes to a step of the program's function, or ends one.
func (s *session) step(m ipc.Message) (is *ipc.Outcome, err error) {
	switch {
	case m.ID == "": // the program would not hear what becomes of it
		return nil, errors.New("it has no id, or not the key")
	case m.Type == ipc.TypeStepped:
		is, err = s.steps.done(s.ctx, m)
	default:
		is, err = s.comes(m)
	}
	if errors.Is(err, worker.ErrSuspended) {
		return &ipc.Outcome{Suspended: true}, nil
	}
	return is, err
}

func (s *session) comes(m ipc.Message) (*ipc.Outcome, error) {
	to, err := m.Step()
	if err != nil {
		return nil, err
	}
	f, is := &s.steps.of, &ipc.Outcome{Known: true}
	switch to.Kind {
	case task.StepDo:
		return s.steps.begin(s.ctx, to)
	case task.StepSleep:
		err = f.Sleep(s.ctx, to.Name, time.Duration(to.For))
	case task.StepAwait:
		return s.steps.await(s.ctx, to)
	case task.StepCall:
		var ended []task.Input
		if ended, err = f.Call(s.ctx, to.Name, len(to.Of), func(i int, key string) (task.ID, error) { return s.child(to.Of[i], key) }); err == nil {
			is.Value, err = json.Marshal(ended)
		}
	case task.StepNow:
		is.Value, err = f.Now(s.ctx)
	case task.StepID:
		is.Value, err = f.NewID(s.ctx)
	case task.StepAs:
		is.Value, err = f.Version(s.ctx, to.Name, to.Is)
	default:
		err = fmt.Errorf("there is no kind %.40q of steps", to.Kind)
	}
	return is, err
}

// await waits for a signal.
func (s *stepping) await(ctx context.Context, to ipc.Step) (*ipc.Outcome, error) {
	if err := value.ValidName("signal", to.Name); err != nil {
		return nil, err
	}
	form, alone, err := job.FormOf(to.Form)
	if err != nil {
		return nil, err
	}
	data, came, err := s.of.Await(ctx, to.Name, time.Duration(to.Timeout), func() ([]param.Param, bool) { return form, alone })
	if !came {
		return &ipc.Outcome{Known: true, Failed: "the signal did not come in time"}, err
	}
	return &ipc.Outcome{Known: true, Value: data}, err
}

// begin comes to a step that the program does.
func (s *stepping) begin(ctx context.Context, to ipc.Step) (*ipc.Outcome, error) {
	retry := job.Retry{}
	if to.Retry != nil {
		if err := value.Strictly(to.Retry, &retry); err != nil {
			return nil, fmt.Errorf("retry: %w", err)
		}
		if err := (&job.Spec{Handler: "step", Retry: retry}).Validate(); err != nil {
			return nil, err
		}
	}
	is, todo, err := s.of.Begin(ctx, to.Name)
	if err == nil && todo {
		s.doing, s.began, s.retry = is, time.Now(), retry
		return &ipc.Outcome{}, nil
	}
	return &ipc.Outcome{Known: true, Value: is.Result, Failed: is.Error, Tries: is.Tries}, err
}

// done ends that.
func (s *stepping) done(ctx context.Context, m ipc.Message) (*ipc.Outcome, error) {
	is := s.doing
	if s.doing = (task.Step{}); is.Kind == "" {
		return nil, errors.New("no step is under way")
	}
	e, err := m.End()
	if err != nil {
		return nil, err
	}
	if is.Took = value.Duration(time.Since(s.began)); e.Error == nil {
		is.Result = e.Result
		return &ipc.Outcome{}, s.of.Done(ctx, is)
	}
	why := job.Failure{Final: e.Error.Retryable != nil && !*e.Error.Retryable, After: time.Duration(e.Error.RetryAfter)}
	err = s.of.Failed(ctx, &is, why, e.Error.Message, s.retry)
	return &ipc.Outcome{Failed: is.Error, Tries: is.Tries}, err
}

// ends returns what the attempt comes to that would come to o without its steps.
func (s *stepping) ends(o worker.Outcome) worker.Outcome {
	var err error
	if o.Class != "" {
		err = errors.New(o.Message)
	}
	if is := s.of.Ends(err); is != nil && is != err { //nolint:errorlint // it is this one, or another
		is := worker.Failed(is)
		is.Usage, is.Stopped = o.Usage, o.Stopped
		return is
	}
	return o
}

// with calls do with the current task, which cannot end meanwhile. It returns false if there is none.
func (m *resident) with(do func(*session)) bool {
	m.heard.Add(1)
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.now != nil {
		do(m.now)
	}
	return m.now != nil
}

// Line implements [child.Sink]. A DONE begins with an empty line, in case the task has left one
// without its end; that is not passed on.
func (m *resident) Line(stream child.Stream, line ipc.Line) {
	if stream == child.Stdout {
		m.flush()
		if text, cut := bytes.CutSuffix(line.Text, []byte{'\n'}); cut && line.Several > 1 {
			line.Text, line.Several, m.empty = text, line.Several-1, true
		} else if m.empty = len(line.Text) == 0 && line.Several <= 1 && !line.Partial; m.empty {
			return
		}
	}
	m.pass(stream, line)
}

// flush passes on the empty line that was held back.
func (m *resident) flush() {
	if m.empty {
		m.empty = false
		m.pass(child.Stdout, ipc.Line{})
	}
}

func (m *resident) pass(stream child.Stream, line ipc.Line) {
	if !m.with(func(s *session) { s.Line(stream, line) }) {
		line.Each(func(l ipc.Line) { m.say(stream, string(l.Text)) })
	}
}

// say logs a line that belongs to no task.
func (m *resident) say(stream child.Stream, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	m.idling.Lock()
	defer m.idling.Unlock()
	m.last = value.Cut(strings.ToValidUTF8(text, ""), 200)
	if m.idle++; m.idle <= idleLines {
		m.of.cfg.Log.Info("a resident program without a task printed a line", "program", m.of.cfg.Shell, "stream", stream.String(), "line", m.last)
	}
}

// Message implements [child.Sink].
func (m *resident) Message(msg ipc.Message) {
	if msg.Type != ipc.TypeDone {
		m.flush()
	}
	m.empty = false
	switch {
	case msg.Type == ipc.TypeHello:
		select {
		case m.hello <- msg:
		default: // it has said so
		}
	case msg.Type == ipc.TypeStray && msg.Bare, msg.Type == ipc.TypeHeartbeat && msg.Bare:
		m.with(func(*session) {})
	case msg.Type == ipc.TypeStray:
		m.with(func(s *session) {
			s.count()
			s.answer(msg, ipc.Receipt{Error: "this worker does not know a message " + string(msg.Payload)})
		})
	case msg.Type == ipc.TypeDone:
		m.with(func(*session) {
			m.turns.Set("") // what follows is of no task
			m.done <- msg
		})
	default:
		m.with(func(s *session) { s.Message(msg) })
	}
}

// Withheld implements [child.Sink].
func (m *resident) Withheld(typ string) {
	m.flush()
	m.with(func(s *session) { s.Withheld(typ) })
}
