package process

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"millrace/ipc"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
	"millrace/worker/process/child"
)

// session is the conversation with the process of one attempt: it passes on the output, does what
// messages ask for, and answers.
type session struct {
	tasks   *Tasks
	attempt *worker.Attempt
	out     *worker.Output
	ctx     context.Context
	began   time.Time
	redact  *redactor
	params  json.RawMessage // of the task, as the process gets them
	process child.Process   // set before anything is read
	key     string          // of a task that a resident program runs
	handler string          // of its program that is to run it; "" for the one that its spec names
	steps   stepping        // of that; only the reader of messages uses it, and who has read all
	foreign replacing
	bare    bool // of the last message; only the reader of messages uses it

	mu          sync.Mutex
	sessionMemo             // guarded by mu
	ping        *time.Timer // guarded by mu
	over        bool        // guarded by mu
	started     time.Time   // when the process had started
	ended       time.Time   // when nothing of it was left; zero before
}

// sessionMemo is what a session must remember, also where another worker goes on with it.
type sessionMemo struct {
	Failure  *ipc.Failure    `json:"failure,omitempty"`  // the last ERROR
	Result   json.RawMessage `json:"result,omitempty"`   // the last RESULT
	Dropped  string          `json:"dropped,omitempty"`  // why records were not stored
	Children int             `json:"children,omitempty"` // without a key of their own
	Warned   bool            `json:"warned,omitempty"`   // the process was warned about dropped figures
	Unfit    unfit           `json:"unfit,omitzero"`
	Refusals int             `json:"refusals,omitempty"` // messages that were refused
}

func (s *session) memo() sessionMemo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessionMemo
}

var _ child.Sink = (*session)(nil)

// meet greets a process that has just been started.
func (s *session) meet(p child.Process) {
	s.process, s.started = p, time.Now()
	s.greet()
	s.watch()
}

// greet tells the process its task, if it listens.
func (s *session) greet() {
	p, t := s.process, &s.attempt.Task
	if !s.listens() {
		return
	}
	p.Send(ipc.Init(ipc.Task{
		Task: string(t.ID), Attempt: t.Attempt, Epoch: t.Epoch, Job: t.Job, Node: s.tasks.Node, Queue: t.QueueName(),
		Time: logicalTime(t), Deadline: s.attempt.Deadline, Params: s.params, Labels: t.Labels, Parent: string(t.Parent), Inputs: t.Inputs,
		Checkpoint: s.attempt.Last(), Limits: p.Limits(),
		Handler: cmp.Or(s.handler, t.Spec.Handler), Key: s.key, Trace: s.trace(),
	}))
}

// listens tells whether the process reads its standard input; a resident program always does.
func (s *session) listens() bool {
	run := s.attempt.Task.Spec.Run
	return s.key != "" || run == nil || run.Stdin == job.StdinOpen
}

// trace is the place in a trace that a resident program cannot find in its environment.
func (s *session) trace() string {
	if s.key == "" {
		return ""
	}
	return s.attempt.Traceparent()
}

// watch asks the process for signs of life if it must give them, and listens.
func (s *session) watch() {
	t := &s.attempt.Task
	if !s.listens() {
		return
	}
	if d := t.Spec.Timeout.Heartbeat.Std(); d > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ping = time.AfterFunc(d/2, func() { s.askForLife(d / 2) })
	}
}

// askForLife sends a PING, and the next one later.
func (s *session) askForLife(pause time.Duration) {
	s.process.Send(ipc.Ping())
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.ping.Reset(pause)
	}
}

// close ends the conversation when the process has ended.
func (s *session) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	if s.ping != nil {
		s.ping.Stop()
	}
}

// Line implements [child.Sink].
func (s *session) Line(stream child.Stream, line ipc.Line) {
	name := output.Stdout
	if stream == child.Stderr {
		name = output.Stderr
	}
	if line.Replaced {
		s.replaced()
	}
	hand(s.out, name, s.redact.lines(line))
}

// replaced says that the output is not in its encoding.
func (s *session) replaced() {
	if s.foreign.first() {
		s.out.Line(output.System, s.foreign.words())
	}
}

// hand adds the output of a process.
func hand(out *worker.Output, stream string, l ipc.Line) {
	if l.Several > 1 {
		out.Texts(stream, l.Text, l.Several)
		return
	}
	out.Text(stream, l.Text, l.Partial)
}

// Message implements [child.Sink].
func (s *session) Message(m ipc.Message) {
	if m.Excess != "" {
		s.answer(m, s.tooMuch(m))
		return
	}
	payload, ok := s.redact.payload(m.Payload)
	if !ok {
		s.refuse(m)
		return
	}
	m.Payload = payload
	if m.Bare != s.bare {
		s.bare = m.Bare
		s.out.Hearsay(m.Bare)
	}
	if m.Type == ipc.TypeInsertData {
		s.insert(m)
		return
	}
	s.answer(m, s.obey(m))
}

// refuse drops a message that holds a secret outside any string.
func (s *session) refuse(m ipc.Message) {
	s.out.Line(output.System, fmt.Sprintf("a message %s was dropped: a secret stood in it where no text can", m.Type))
	s.count()
	s.answer(m, ipc.Receipt{Error: "it holds a secret where no text can stand"})
}

// answer tells the process the result of a message, if the message has an id.
func (s *session) answer(m ipc.Message, r ipc.Receipt) {
	if m.ID != "" {
		r.ID, r.OK = m.ID, r.Error == ""
		s.process.Send(ipc.Ack(r))
	}
}

// obey does what a message asks for, and returns the answer. A message that must become durable
// keeps the process waiting once it has filled its pipe: that is the back-pressure.
func (s *session) obey(m ipc.Message) (r ipc.Receipt) {
	refused := func(what string, err error) ipc.Receipt {
		return s.refused(what, s.redact.line(err.Error()))
	}
	switch m.Type {
	case ipc.TypeStatus:
		if st, err := m.Status(); err == nil {
			progress := -1.0
			if st.Progress != nil {
				progress = *st.Progress
			}
			s.out.Status(st.Message, progress)
		}
	case ipc.TypeProgress:
		if p, err := m.Progress(); err == nil {
			s.out.Progress(p.Share, p.Message)
		}
	case ipc.TypeMetric:
		if values, err := m.Metrics(); err == nil {
			if err := s.out.Metrics(values); err != nil && s.first(&s.Warned) {
				return refused("METRIC", err)
			}
		}
	case ipc.TypeLog:
		if e, err := m.Entry(); err == nil {
			s.out.Log(e.Level, e.Message, e.Fields)
		}
	case ipc.TypeError:
		if f, err := m.Failure(); err == nil {
			s.out.Line(output.Stderr, "ERROR "+f.Message)
			s.mu.Lock()
			s.Failure = &f
			s.mu.Unlock()
		}
	case ipc.TypeResult:
		s.mu.Lock()
		s.Result, s.Unfit.Result = m.Payload, ""
		s.mu.Unlock()
	case ipc.TypeHeartbeat:
		s.out.Heartbeat()
	case ipc.TypeReady:
		s.out.Ready()
	case ipc.TypeCheckpoint:
		if err := s.attempt.Checkpoint(s.ctx, m.Payload); err != nil {
			return refused("CHECKPOINT", err)
		}
	case ipc.TypeExtend:
		by, err := m.Extension()
		if err == nil {
			r.Until, err = s.attempt.Extend(s.ctx, by)
		}
		if err != nil {
			return refused("EXTEND", err)
		}
	case ipc.TypeSpawn:
		id, err := s.spawn(m)
		if err != nil {
			return refused("SPAWN", err)
		}
		r.Task = string(id)
	case ipc.TypeStep, ipc.TypeStepped:
		is, err := s.step(m)
		if err != nil {
			return refused(m.Type, err)
		}
		r.Step = is
	}
	return r
}

// first tells whether it is the first call for this flag.
func (s *session) first(flag *bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := *flag
	*flag = true
	return !was
}

// insert takes records; their ACK is sent when they are stored.
func (s *session) insert(m ipc.Message) {
	items, err := m.Records()
	if err == nil {
		var stored func(error)
		if m.ID != "" {
			stored = func(err error) {
				var r ipc.Receipt
				if err != nil {
					r.Error = err.Error()
				}
				s.answer(m, r)
			}
		}
		err = s.out.InsertThen(stored, items...)
	}
	if err != nil {
		s.mu.Lock()
		s.Dropped = err.Error()
		s.mu.Unlock()
	}
}

// offspring is the payload of a SPAWN: a submission, or just a handler or a command.
type offspring struct {
	birth.Submission
	Key     string   `json:"key"`
	Argv    []string `json:"argv"`
	Shell   string   `json:"shell"`
	Handler string   `json:"handler"`
}

func (s *session) spawn(m ipc.Message) (task.ID, error) {
	asked, err := m.Spawn()
	if err != nil {
		return "", err
	}
	key := asked.Key
	if key == "" {
		s.mu.Lock()
		s.Children++
		key = "#" + strconv.Itoa(s.Children) // the n-th child without a key, in each attempt
		s.mu.Unlock()
	}
	return s.child(asked.Task, key)
}

func (s *session) child(text json.RawMessage, key string) (task.ID, error) {
	var o offspring
	if err := value.Strictly(text, &o); err != nil {
		return "", fmt.Errorf("its payload is no submission: %w", err)
	}
	if len(o.Argv) > 0 || o.Shell != "" || o.Handler != "" {
		if o.Spec != nil || o.Handler != "" && (len(o.Argv) > 0 || o.Shell != "") {
			return "", fmt.Errorf("more than one of spec, handler and argv or shell is set; choose one")
		}
		switch of := s.attempt.Task.Spec; {
		case o.Handler == "":
			o.Spec = &job.Spec{Run: &job.Run{Argv: o.Argv, Shell: o.Shell}}
		case of.Run != nil && of.Run.Program != "": // another one of the same program
			run := *of.Run
			run.Handler = o.Handler
			o.Spec = &job.Spec{Run: &run, Files: of.Files, Setup: of.Setup, Resources: of.Resources}
		default:
			o.Spec = &job.Spec{Handler: o.Handler}
		}
	}
	return s.attempt.Spawn(s.ctx, key, o.Submission)
}

// outcome combines how the process ended with what it reported about itself.
func (s *session) outcome(r *child.Result) worker.Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := worker.Outcome{Class: r.Class, Exit: r.Exit, Message: r.Message, Result: s.Result, Stopped: r.Stopped, Survivors: r.Survivors}
	s.phases(r)
	r.Usage.Refused = s.Refusals
	if r.Usage != (task.Usage{}) {
		o.Usage = &r.Usage
	}
	if s.Failure == nil && !o.Stopped && (o.Class == value.Exit || o.Class == value.Killed) {
		last := s.out.LastLine(output.Stdout, output.Stderr, output.Log)
		if last != "" || s.attempt.Left() == nil { // else an earlier worker may have had one
			o.Message = child.WithLastLine(o.Message, last)
		}
	}
	if s.Dropped != "" && o.Class == "" {
		o.Class, o.Message = value.System, s.Dropped
	}
	if why := cmp.Or(s.Unfit.Records, s.Unfit.Result); why != "" && o.Class == "" {
		o.Class, o.Message, o.Final = value.Task, why, true
	}
	if s.Failure != nil && !o.Stopped && (o.Class != "" && o.Class != value.Memory || o.Class == "" && s.Failure.Fatal) {
		if s.Failure.Message != "" {
			o.Message = value.Cut(s.Failure.Message, maxFailure)
		}
		if slices.Contains(job.Classes, s.Failure.Class) {
			o.Class = s.Failure.Class
		} else {
			o.Class = value.Task
		}
		o.Final = s.Failure.Retryable != nil && !*s.Failure.Retryable
		o.RetryAfter = time.Duration(s.Failure.RetryAfter)
	}
	return o
}

// phases records how long each phase of the attempt took, unless only the work took any.
func (s *session) phases(r *child.Result) {
	if s.started.IsZero() {
		return
	}
	begins := s.started
	if ready := s.out.ReadyAt(); ready.After(begins) {
		begins = ready
	}
	ends := s.ended
	if ends.IsZero() {
		ends = time.Now()
	}
	ends = ends.Add(-r.Stop)
	setup, stop := begins.Sub(s.began).Truncate(time.Millisecond), r.Stop.Truncate(time.Millisecond)
	if setup > 0 || stop > 0 {
		r.Usage.Setup, r.Usage.Stop = value.Duration(setup), value.Duration(stop)
		r.Usage.Run = value.Duration(max(ends.Sub(begins), 0).Truncate(time.Millisecond))
	}
}
