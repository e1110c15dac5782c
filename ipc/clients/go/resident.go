package millrace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"sync"

	"millrace/ipc"
)

// Handler runs the tasks of one name in a resident program. [Handle] makes it.
type Handler struct {
	name string
	run  func(ctx context.Context, params json.RawMessage) (any, error)
}

// Handle makes a handler of a function that gets a task's parameters and returns its result.
// [FromContext] finds the task in ctx, which ends when the task must. Parameters that P cannot hold
// fail the task for good.
func Handle[P, R any](name string, h func(ctx context.Context, params P) (R, error)) Handler {
	return Handler{name, func(ctx context.Context, text json.RawMessage) (any, error) {
		var params P
		if err := json.Unmarshal(text, &params); err != nil {
			return nil, &FailError{Failure{Message: "params: " + err.Error(), Class: "user", Retryable: new(bool)}}
		}
		return h(ctx, params)
	}}
}

// FailError is an error that says more of a failure than its message.
type FailError struct{ Failure }

func (e *FailError) Error() string { return e.Message }

type taskKey struct{}

// FromContext returns the conversation about the task that a handler runs; nil outside of one.
func FromContext(ctx context.Context) *Program {
	p, _ := ctx.Value(taskKey{}).(*Program)
	return p
}

// Serve runs tasks for these handlers, one at a time, until Millrace needs the program no more. It
// returns an error if no worker keeps this program (`millrace worker --program`).
func Serve(handlers ...Handler) error {
	return serve(os.Stdin, os.Stdout, os.Stderr, os.Getenv, handlers)
}

func serve(in io.Reader, out, errs io.Writer, env func(string) string, handlers []Handler) error {
	if env("MILLRACE_RESIDENT") == "" {
		return errors.New("no worker keeps this program: start it with millrace worker --program")
	}
	r := &resident{out: &lockedWriter{to: out}, errs: errs, runs: map[string]Handler{}}
	names := make([]string, 0, len(handlers))
	for _, h := range handlers {
		r.runs[h.name] = h
		names = append(names, h.name)
	}
	hello := &Program{out: r.out, env: env}
	if err := hello.send(ipc.TypeHello, ipc.Hello{Protocol: ipc.Version, Tasks: names, Library: "go"}); err != nil {
		return err
	}
	return r.listen(in)
}

// lockedWriter keeps lines of several goroutines apart.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(b)
}

// resident is a program that runs one task after the other.
type resident struct {
	out  *lockedWriter
	errs io.Writer
	runs map[string]Handler
}

// listen runs what Millrace hands over until it says BYE, or nothing more.
func (r *resident) listen(in io.Reader) error {
	var task *Program
	var running sync.WaitGroup
	defer running.Wait()
	defer func() { task.leave() }()
	for lines := bufio.NewReader(in); ; {
		line, err := lines.ReadBytes('\n')
		var m struct {
			Type    string
			Payload json.RawMessage
		}
		if json.Unmarshal(line, &m) == nil {
			switch {
			case m.Type == ipc.TypeBye:
				return nil
			case m.Type == ipc.TypeInit:
				running.Wait() // it has said DONE
				task = r.begin(m.Payload)
				running.Go(func() { r.do(task) })
			case m.Type == ipc.TypePing && task == nil:
				err = errors.Join(err, (&Program{out: r.out, env: func(string) string { return "" }}).Heartbeat())
			case task != nil:
				task.take(m.Type, m.Payload)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// leave ends a task's conversation, for nothing answers any more.
func (p *Program) leave() {
	if p == nil {
		return
	}
	p.cancel(errors.New("the worker has gone"))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		close(w)
	}
	p.waiting = nil
}

// begin opens the conversation about a task.
func (r *resident) begin(payload json.RawMessage) *Program {
	p := &Program{out: r.out, begun: make(chan struct{}), open: true, waiting: map[string]chan ipc.Receipt{}}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.ctx = context.WithValue(p.ctx, taskKey{}, p)
	p.take(ipc.TypeInit, payload)
	p.env = func(name string) string {
		switch t := p.init; {
		case t == nil:
		case name == ipc.KeyVar:
			return t.Key
		case name == "MILLRACE_PARAMS":
			return string(t.Params)
		case name == "MILLRACE_CHECKPOINT":
			return string(t.Checkpoint)
		}
		return ""
	}
	return p
}

// do runs a task and says how it has ended.
func (r *resident) do(p *Program) {
	var end struct {
		Result json.RawMessage `json:"result,omitempty"`
		Error  *Failure        `json:"error,omitempty"`
	}
	result, err := r.call(p)
	if err == nil && result != nil {
		if end.Result, err = ipc.Payload(result); err == nil && len(end.Result) > ipc.MaxResult {
			err = &FailError{Failure{Message: "the result has " + strconv.Itoa(len(end.Result)) + " bytes, want at most " + strconv.Itoa(ipc.MaxResult), Retryable: new(bool)}}
			end.Result = nil
		}
	}
	if err != nil && !errors.Is(err, ErrSuspended) {
		failed, ok := errors.AsType[*FailError](err)
		if !ok {
			failed = &FailError{Failure{Message: err.Error()}}
		}
		end.Error = &failed.Failure
	}
	var line []byte
	if payload, err := ipc.Payload(end); err == nil {
		line, _ = ipc.EncodeKeyed(ipc.Message{Type: ipc.TypeDone, Payload: payload}, p.env(ipc.KeyVar)) // ours encode
	}
	p.cancel(nil)
	_, _ = r.out.Write(append([]byte{'\n'}, line...))
}

// call calls the handler of a task; a panic is a failure.
func (r *resident) call(p *Program) (result any, err error) {
	defer func() {
		if v := recover(); v != nil {
			_, _ = fmt.Fprintf(r.errs, "panic: %v\n%s", v, debug.Stack())
			result, err = nil, fmt.Errorf("the handler panicked: %v", v)
		}
	}()
	t, _ := p.Init()
	h, ok := r.runs[t.Handler]
	if !ok {
		return nil, fmt.Errorf("this program has no handler %q", t.Handler)
	}
	params := t.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	return h.run(p.ctx, params)
}
