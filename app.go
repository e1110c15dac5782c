package millrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"millrace/events/jet/request"
	"millrace/service/client"
	"millrace/service/rerun"
	"millrace/task/birth"
	"millrace/worker"
)

// Options say how to reach the server, in the terms of the nats command line.
// [client.FindServer] says what applies to fields that are empty.
type Options = client.Options

// Submission is what a program asks for when it submits a task.
type Submission = birth.Submission

// App is a program's connection to Millrace. Its methods are safe for concurrent use.
type App struct {
	client *client.Client
	end    func() error

	mu       sync.Mutex
	around   []Middleware                               // guarded by mu
	onSubmit []func(context.Context, *Submission) error // guarded by mu
}

// Open connects to the server that the command line would use: that of $NATS_URL or $NATS_CONTEXT,
// a `millrace dev` of this user on this machine, or the selected context of the nats command line.
//
// In a program that `millrace replay --with` has started it opens no server: workers of the App run recorded tasks
// again, and nothing that they do reaches anybody.
func Open(ctx context.Context) (*App, error) { return Connect(ctx, Options{}) }

// Connect is [Open] for a server that the program names. The error wraps [ErrNoServer] if none can
// be reached there.
func Connect(ctx context.Context, o Options) (*App, error) {
	if at := os.Getenv(rerun.Variable); at != "" {
		return New(rerun.Dial(at).Client(), nil), nil
	}
	t, err := client.FindServer(o)
	if err != nil {
		return nil, fmt.Errorf("millrace: %w", err)
	}
	c, err := t.Connect(ctx)
	if errors.As(err, new(*request.Denied)) {
		c, err = t.Attend(ctx, err)
	}
	if client.Unreachable(err) {
		return nil, fmt.Errorf("millrace: %w at %s: %w", ErrNoServer, t.Name, err)
	}
	if err != nil {
		return nil, fmt.Errorf("millrace: %w", err)
	}
	return New(c, nil), nil
}

// New returns an App on a client. Close calls end, if it is not nil, once the client is closed. It
// is for packages that bring a server of their own, as embedded does.
func New(c *client.Client, end func() error) *App { return &App{client: c, end: end} }

// Close closes the connection. Workers must have ended.
func (a *App) Close() error {
	a.client.Close()
	if a.end == nil {
		return nil
	}
	return a.end()
}

// Client returns what the App is made on: the whole Go API, for what this package leaves out.
func (a *App) Client() *client.Client { return a.client }

// Middleware surrounds every attempt of every function: it calls next, with a context that may hold
// more, and returns next's error or another one. Errors mean what they mean in a function.
type Middleware func(ctx context.Context, t *Task, next func(context.Context) error) error

// Use adds middleware; the first one added is the outermost. Call it before [App.Work].
func (a *App) Use(m ...Middleware) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.around = append(a.around, m...)
}

// OnSubmit has look see each submission of this App, also of children and schedules, before it is
// sent. Look may change it, for example set Labels or Trace, which [Current] shows where the task
// runs. An error refuses the submission. Functions are called in the order in which they were
// added.
func (a *App) OnSubmit(look func(ctx context.Context, s *Submission) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onSubmit = append(a.onSubmit, look)
}

// looked passes a submission through what OnSubmit has added. A task that a function submits
// belongs to that function's trace, unless it says otherwise.
func (a *App) looked(ctx context.Context, s *Submission) error {
	if of := worker.FromContext(ctx); of != nil && s.Trace == "" {
		s.Trace = of.Traceparent()
	}
	if a == nil {
		return nil
	}
	a.mu.Lock()
	all := a.onSubmit
	a.mu.Unlock()
	for _, look := range all {
		if err := look(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// surround wraps an attempt into the middleware.
func (a *App) surround(t *Task, next func(context.Context) error) func(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := len(a.around) - 1; i >= 0; i-- {
		m, inner := a.around[i], next
		next = func(ctx context.Context) error { return m(ctx, t, inner) }
	}
	return next
}

// Apply stores functions as jobs, with the schedules among their options. Then others can run them
// by name: people at the command line and on pages, programs in any language over HTTP. Their
// parameters are checked against the types of the functions. A job that is stored alike stays; one
// that differs, whoever stored it, is replaced.
func (a *App) Apply(ctx context.Context, functions ...Handler) error {
	for _, f := range functions {
		j, err := f.handler().asJob()
		if err != nil {
			return err
		}
		if _, _, err := a.client.Apply(ctx, j); err != nil {
			return fmt.Errorf("millrace: apply %s: %w", j.Name, err)
		}
	}
	return nil
}
