// Package millrace is for programs that run as tasks: they report progress, records and results,
// ask for more time or for children, and are told when they must end. [Open] returns the
// conversation with Millrace.
//
//	m := millrace.Open()
//	for n := next(m); n < 100 && m.Context().Err() == nil; n++ {
//		m.Data(page(n))
//		m.Progress(n+1, 100)
//		m.Checkpoint(n + 1)
//	}
//	m.Result(map[string]int{"pages": 100})
//
// Each message is one line on the standard output, so a program that also prints there must print
// whole lines. Outside of Millrace the same lines are printed, and there are no answers.
package millrace

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"sync"
	"time"

	"millrace/ipc"
)

// ErrNoAnswer: the job does not keep the program's standard input open, so there are no answers:
// set run: {stdin: open}.
var ErrNoAnswer = errors.New("nothing answers: the job has no run: {stdin: open}")

// ErrRefused is wrapped by errors that say why Millrace has refused a message.
var ErrRefused = errors.New("refused")

// ErrTooLong is wrapped by errors for values that are too long for Millrace; they were not sent.
var ErrTooLong = errors.New("too long")

// Program is the conversation of a program with Millrace. It is safe for
// concurrent use.
type Program struct {
	out    io.Writer
	env    func(string) string
	ctx    context.Context
	cancel context.CancelCauseFunc
	begun  chan struct{} // closed when INIT has come, or can no longer come
	open   bool

	writing sync.Mutex

	mu      sync.Mutex
	init    *ipc.Task                   // guarded by mu
	count   int                         // guarded by mu
	waiting map[string]chan ipc.Receipt // guarded by mu
}

// Open begins the conversation of this process. Call it once.
func Open() *Program { return open(os.Stdin, os.Stdout, os.Getenv) }

func open(in io.Reader, out io.Writer, env func(string) string) *Program {
	p := &Program{out: out, env: env, begun: make(chan struct{}), open: env("MILLRACE_STDIN") == "open", waiting: map[string]chan ipc.Receipt{}}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	if p.open {
		go p.listen(in)
	} else {
		close(p.begun)
	}
	return p
}

// Context ends when the task must end; its cause says why. Without an open standard input only
// SIGTERM ends it.
func (p *Program) Context() context.Context { return p.ctx }

// Init returns what Millrace has told the program about its task; false without an open standard
// input.
func (p *Program) Init() (ipc.Task, bool) {
	<-p.begun
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.init == nil {
		return ipc.Task{}, false
	}
	return *p.init, true
}

// Params reads the task's parameters into v; without any it leaves v as it is.
func (p *Program) Params(v any) error { return p.variable("MILLRACE_PARAMS", v) }

// Last reads the checkpoint of an earlier attempt into v; without one it leaves v as it is.
func (p *Program) Last(v any) error { return p.variable("MILLRACE_CHECKPOINT", v) }

// variable reads the JSON of a variable; a value too long for a variable is in a file.
func (p *Program) variable(name string, v any) error {
	text := []byte(p.env(name))
	if path := p.env(name + "_FILE"); len(text) == 0 && path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("%s_FILE: %w", name, err)
		}
	}
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Status reports what the task is doing.
func (p *Program) Status(message string) error { return p.send(ipc.TypeStatus, message) }

// Progress reports that done of total are done.
func (p *Program) Progress(done, total int) error {
	return p.send(ipc.TypeProgress, map[string]int{"done": done, "total": total})
}

// Metrics sets figures to their latest values.
func (p *Program) Metrics(values map[string]float64) error { return p.send(ipc.TypeMetric, values) }

// Log writes an entry of the log; level is one of [ipc.Levels], fields may be nil.
func (p *Program) Log(level, message string, fields map[string]any) error {
	return p.send(ipc.TypeLog, map[string]any{"level": level, "message": message, "fields": fields})
}

// Data stores records: a value that encodes as an object, or a list of such values. It does not
// wait until they are stored; see [Program.DataStored]. Together they have at most 1 MiB of JSON;
// else the error wraps [ErrTooLong].
func (p *Program) Data(records any) error { return p.send(ipc.TypeInsertData, records) }

// DataStored is [Program.Data], and returns when the records are stored. The error
// wraps [ErrNoAnswer] or [ErrRefused], or is ctx's.
func (p *Program) DataStored(ctx context.Context, records any) error {
	_, err := p.ask(ctx, ipc.TypeInsertData, records)
	return err
}

// Fail reports what went wrong. It counts only if the process then fails.
func (p *Program) Fail(f Failure) error { return p.send(ipc.TypeError, f) }

// Failure describes a program's failure.
type Failure struct {
	Message string `json:"message"`
	// Class is one of the classes of failure, such as "network".
	Class string `json:"class,omitempty"`
	// Retryable says whether another attempt makes sense; nil leaves it to the task's policy.
	Retryable *bool `json:"retryable,omitempty"`
	// RetryAfter is the shortest pause before another attempt, such as "30s".
	RetryAfter string `json:"retry_after,omitempty"`
	// Fatal fails the attempt even if the process exits with 0.
	Fatal bool `json:"fatal,omitempty"`
}

// Result sets the task's result: any value of at most 64 kB of JSON; else the error wraps
// [ErrTooLong].
func (p *Program) Result(value any) error { return p.send(ipc.TypeResult, value) }

// Heartbeat reports that the program makes progress.
func (p *Program) Heartbeat() error { return p.send(ipc.TypeHeartbeat, nil) }

// Ready reports that the program has set itself up and begins its work.
func (p *Program) Ready() error { return p.send(ipc.TypeReady, nil) }

// Checkpoint stores where another attempt continues: any value of at most 64 kB of JSON; else the
// error wraps [ErrTooLong].
func (p *Program) Checkpoint(value any) error { return p.send(ipc.TypeCheckpoint, value) }

// CheckpointStored is [Program.Checkpoint], and returns when the value is stored. The error
// wraps [ErrNoAnswer] or [ErrRefused], or is ctx's.
func (p *Program) CheckpointStored(ctx context.Context, value any) error {
	_, err := p.ask(ctx, ipc.TypeCheckpoint, value)
	return err
}

// Extend asks that the run timeout not pass before by from now, and returns when it now passes. The
// error wraps [ErrNoAnswer] or [ErrRefused], or is ctx's.
func (p *Program) Extend(ctx context.Context, by time.Duration) (time.Time, error) {
	r, err := p.ask(ctx, ipc.TypeExtend, map[string]string{"by": by.String()})
	return r.Until, err
}

// Spawn submits a child of the task, as a submission with a key, and returns its id. The error
// wraps [ErrNoAnswer] or [ErrRefused], or is ctx's.
func (p *Program) Spawn(ctx context.Context, child map[string]any) (string, error) {
	r, err := p.ask(ctx, ipc.TypeSpawn, child)
	return r.Task, err
}

func (p *Program) send(typ string, payload any) error { return p.write(typ, "", payload) }

func (p *Program) write(typ, id string, payload any) error {
	m := ipc.Message{Type: typ, ID: id}
	if payload != nil {
		encoded, err := ipc.Payload(payload)
		if err != nil {
			return fmt.Errorf("%s: %w", typ, err)
		}
		m.Payload = encoded
	}
	most := math.MaxInt
	switch typ {
	case ipc.TypeResult:
		most = ipc.MaxResult
	case ipc.TypeCheckpoint:
		most = ipc.MaxCheckpoint
	}
	if n := len(m.Payload); n > most {
		return fmt.Errorf("%s: %w: it has %d bytes, want at most %d", typ, ErrTooLong, n, most)
	}
	line, err := ipc.EncodeKeyed(m, p.env(ipc.KeyVar))
	if err != nil {
		return err
	}
	if n := len(line) - 1; n > ipc.MaxMessage {
		return fmt.Errorf("%s: %w: the message has %d bytes, want at most %d", typ, ErrTooLong, n, ipc.MaxMessage)
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_, err = p.out.Write(line)
	return err
}

// ask sends a message and returns the answer to it.
func (p *Program) ask(ctx context.Context, typ string, payload any) (ipc.Receipt, error) {
	if !p.open {
		return ipc.Receipt{}, ErrNoAnswer
	}
	answer := make(chan ipc.Receipt, 1)
	p.mu.Lock()
	if p.waiting == nil {
		p.mu.Unlock()
		return ipc.Receipt{}, fmt.Errorf("%w: the input has ended", ErrNoAnswer)
	}
	p.count++
	id := "go-" + strconv.Itoa(p.count)
	p.waiting[id] = answer
	p.mu.Unlock()
	if err := p.write(typ, id, payload); err != nil {
		return ipc.Receipt{}, err
	}
	select {
	case r, ok := <-answer:
		switch {
		case !ok:
			return r, fmt.Errorf("%w: the input has ended", ErrNoAnswer)
		case !r.OK:
			return r, fmt.Errorf("%s: %w: %s", typ, ErrRefused, r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return ipc.Receipt{}, ctx.Err()
	}
}

// listen handles the messages of Millrace until the input ends.
func (p *Program) listen(in io.Reader) {
	r := bufio.NewReader(in)
	for {
		line, err := r.ReadBytes('\n')
		var m struct {
			Type    string
			Payload json.RawMessage
		}
		if json.Unmarshal(line, &m) == nil {
			p.take(m.Type, m.Payload)
		}
		if err != nil {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.waiting {
		close(w)
	}
	p.waiting = nil
	if p.init == nil {
		close(p.begun)
	}
}

func (p *Program) take(typ string, payload json.RawMessage) {
	switch typ {
	case ipc.TypeInit:
		var t ipc.Task
		p.mu.Lock()
		defer p.mu.Unlock()
		if json.Unmarshal(payload, &t) == nil && p.init == nil {
			p.init = &t
			close(p.begun)
		}
	case ipc.TypePing:
		_ = p.Heartbeat() // a closed output shows at the next message
	case ipc.TypeCancel:
		var c struct{ Reason string }
		_ = json.Unmarshal(payload, &c) // without a reason it ends all the same
		p.cancel(errors.New(c.Reason))
	case ipc.TypeAck:
		var r ipc.Receipt
		if json.Unmarshal(payload, &r) != nil {
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if w := p.waiting[r.ID]; w != nil {
			delete(p.waiting, r.ID)
			w <- r
		}
	}
}
