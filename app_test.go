package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace"
	"millrace/embedded"
	"millrace/events/jet/embed"
	"millrace/internal/testkit"
)

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestPanic(t *testing.T) {
	broken := millrace.Action("broken", func(context.Context, struct{}) error { panic("no wheel") })
	app, end := running(broken)
	defer end()
	run := must(broken.Submit(t.Context(), app, struct{}{}))(t)
	if _, err := run.Result(t.Context()); !errors.Is(err, millrace.ErrFailed) || !strings.Contains(err.Error(), "panicked: no wheel") {
		t.Errorf("the result is %v", err)
	}
	var log strings.Builder
	if err := run.Log(t.Context(), func(l millrace.Line) error { log.WriteString(l.Text); return nil }); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "app_test.go") {
		t.Errorf("the log has no stack: %s", log.String())
	}
}

// A function may extend its timeout as often as its options allow; then its context ends.
func TestMoreTime(t *testing.T) {
	long := millrace.Func("long", func(ctx context.Context, _ struct{}) (string, error) {
		first, err := millrace.MoreTime(ctx, time.Minute)
		if err != nil {
			return "", err
		}
		last, err := millrace.MoreTime(ctx, 24*time.Hour)
		if err != nil {
			return "", err
		}
		_, has := ctx.Deadline()
		return fmt.Sprint(has, last.Sub(first) > time.Minute, last.Sub(millrace.Current(ctx).StartedAt)), nil
	}, millrace.Extendable(time.Minute, time.Hour))
	fixed := millrace.Action("fixed", func(ctx context.Context, _ struct{}) error {
		_, err := millrace.MoreTime(ctx, time.Hour)
		return err
	}, millrace.Timeout(time.Minute))
	over := millrace.Action("over", func(ctx context.Context, _ struct{}) error {
		<-ctx.Done()
		return ctx.Err()
	}, millrace.Extendable(time.Millisecond, time.Millisecond))
	app, end := running(long, fixed, over)
	defer end()
	if got := must(must(long.Submit(t.Context(), app, struct{}{}))(t).Result(t.Context()))(t); got != "false true 1h1m0s" {
		t.Errorf("got %s", got)
	}
	if _, err := must(fixed.Submit(t.Context(), app, struct{}{}))(t).Result(t.Context()); err == nil || !strings.Contains(err.Error(), "is fixed") {
		t.Errorf("a fixed timeout was extended: %v", err)
	}
	_, err := must(over.Submit(t.Context(), app, struct{}{}))(t).Result(t.Context())
	if failure := (*millrace.Failure)(nil); !errors.As(err, &failure) || failure.Task.Reason != "timeout" {
		t.Errorf("the end of the time is %v", err)
	}
	if _, err := millrace.MoreTime(t.Context(), time.Hour); !errors.Is(err, millrace.ErrNotRunning) {
		t.Errorf("outside of a function: %v", err)
	}
}

// No more tasks of a function than its options allow run on a worker, or anywhere.
func TestConcurrency(t *testing.T) {
	for name, option := range map[string]millrace.Option{"per-worker": millrace.PerWorker(1), "anywhere": millrace.Concurrency(1)} {
		running1 := make(chan bool, 1)
		one := millrace.Func("one-"+name, func(context.Context, int) (bool, error) {
			select {
			case running1 <- true:
				defer func() { <-running1 }()
				return true, nil
			default:
				return false, nil
			}
		}, option)
		app, end := running(one)
		for _, run := range must(one.SubmitAll(t.Context(), app, make([]int, 20)))(t) {
			if !must(run.Result(t.Context()))(t) {
				t.Errorf("%s: two run at once", name)
			}
		}
		end()
	}
}

// What needs a scheduler finds one in this process: ticks, tasks that wait for others, signals.
func TestScheduler(t *testing.T) {
	ticks := make(chan bool, 1)
	pulse := millrace.Action("pulse", func(context.Context, struct{}) error {
		select {
		case ticks <- true:
		default:
		}
		return nil
	}, millrace.Every(time.Second))
	first := millrace.Func("first", func(context.Context, int) (string, error) { return "done", nil })
	told := func(ctx context.Context, _ int) (string, error) { return string(millrace.Current(ctx).Inputs), nil }
	second := millrace.Func("second", told)
	asked := millrace.Func("asked", told, millrace.Fields("signal: {name: approval}"))
	app, end := running(pulse, first, second, asked)
	defer end()

	if err := app.Apply(t.Context(), pulse); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ticks:
	case <-time.After(testkit.Patience):
		t.Error("no tick has made a task")
	}
	if err := app.Client().RemoveJob(t.Context(), "pulse"); err != nil {
		t.Error(err)
	}

	one := must(first.Submit(t.Context(), app, 1, millrace.In(50*time.Millisecond)))(t)
	two := must(second.Submit(t.Context(), app, 2, millrace.After(one.ID)))(t)
	if got := must(two.Result(t.Context()))(t); !strings.Contains(got, `"done"`) || !strings.Contains(got, string(one.ID)) {
		t.Errorf("a task that waited for another was told %s", got)
	}

	waits := must(asked.Submit(t.Context(), app, 3))(t)
	if is := must(waits.Task(t.Context()))(t); is.State.String() != "held" {
		t.Errorf("a task that waits for a signal is %s", is.State)
	}
	if err := waits.Signal(t.Context(), map[string]bool{"yes": true}); err != nil {
		t.Fatal(err)
	}
	if got := must(waits.Result(t.Context()))(t); !strings.Contains(got, `"yes":true`) {
		t.Errorf("a task that waited for a signal was told %s", got)
	}
}

// The tasks of a function that is stored as a job are that job's, with what one submission asks
// for.
func TestAsJob(t *testing.T) {
	stored := millrace.Func("stored", func(ctx context.Context, p Picture) (string, error) {
		return millrace.Current(ctx).Job + " of " + p.URL, nil
	}, millrace.AsJob(), millrace.Label("a", "1"), millrace.Fields("breaker: {failures: 5, within: 1m}"))
	app := shared()
	if _, err := stored.Submit(t.Context(), app, Picture{}); err == nil || !strings.Contains(err.Error(), "no such job") {
		t.Errorf("before it is stored: %v", err)
	}
	parent := millrace.Func("parent", func(ctx context.Context, _ struct{}) (string, error) {
		run, err := stored.Spawn(ctx, "only", Picture{URL: "/b"})
		if err != nil {
			return "", err
		}
		return run.Result(ctx)
	}, millrace.Queue("parents"))
	end := work(&millrace.Worker{App: app, Slots: 4}, stored, parent)
	defer end()
	if err := app.Apply(t.Context(), stored); err != nil { // the worker may not have come so far
		t.Fatal(err)
	}
	run := must(stored.Submit(t.Context(), app, Picture{URL: "/a"}, millrace.Retries(7), millrace.Timeout(time.Hour), millrace.Unique("k"),
		millrace.Label("b", "2"), millrace.Priority(9)))(t)
	if got := must(run.Result(t.Context()))(t); got != "stored of /a" {
		t.Errorf("got %s", got)
	}
	if got := must(must(parent.Submit(t.Context(), app, struct{}{}))(t).Result(t.Context()))(t); got != "stored of /b" {
		t.Errorf("a child of it: %s", got)
	}
	is := must(run.Task(t.Context()))(t)
	if is.Spec.Retry.Max != 7 || is.Spec.Timeout.Run.Std() != time.Hour || is.Labels["a"]+is.Labels["b"] != "12" || is.Route.Priority() != 9 || is.Spec.Unique.Key != "/stored/k" || string(is.Spec.Returns) != `{"type":"string"}` {
		t.Errorf("the task is %+v with %v", is.Spec, is.Labels)
	}
	older := millrace.Action("stored", func(context.Context, struct{ Address string }) error { return nil }, millrace.AsJob())
	if _, err := older.Submit(t.Context(), app, struct{ Address string }{"/a"}); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), "Address") {
		t.Errorf("another type of parameters: %v", err)
	}
	if _, err := stored.Submit(t.Context(), app, Picture{}, millrace.PerWorker(1)); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), "give it to Func") {
		t.Errorf("an option for all: %v", err)
	}
}

// A worker that is closed gives its task back, and the context of that says why.
func TestClose(t *testing.T) {
	started := make(chan bool, 1)
	stuck := millrace.Action("stuck", func(ctx context.Context, _ struct{}) error {
		started <- true
		<-ctx.Done()
		return ctx.Err()
	})
	app := shared()
	w := millrace.Worker{App: app}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(context.Background(), stuck) }()
	run := must(stuck.Submit(t.Context(), app, struct{}{}))(t)
	<-started
	w.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if is := must(run.Task(t.Context()))(t); is.State.String() != "pending" || is.Failures != 0 {
		t.Errorf("its task is %s with %d failures", is.State, is.Failures)
	}
	if err := run.Cancel(t.Context(), "the test is over"); err != nil {
		t.Error(err)
	}
}

// What a wrong function or server is told.
func TestFaults(t *testing.T) {
	app := shared()
	nothing := func(context.Context, int) error { return nil }
	for want, f := range map[string]*millrace.Function[int, struct{}]{
		`handler`:                          millrace.Action("no spaces", nothing),
		`retry.max`:                        millrace.Action("a", nothing, millrace.Retries(-1)),
		`timeout.run`:                      millrace.Action("a", nothing, millrace.Timeout(-1)),
		`unique.key`:                       millrace.Action("a", nothing, millrace.Unique("{")),
		`queue`:                            millrace.Action("a", nothing, millrace.Queue("?")),
		`unknown field`:                    millrace.Action("a", nothing, millrace.Fields("retries: 3")),
		`function's type`:                  millrace.Action("a", nothing, millrace.Fields("params: [{name: value, default: 1}]")),
		`schedule.cron`:                    millrace.Action("a", nothing, millrace.Cron("61 * * * *", "")),
		`function a: concurrency.max is 0`: millrace.Action("a", nothing, millrace.Concurrency(0)),
		`function a: per_node.max is -1`:   millrace.Action("a", nothing, millrace.PerWorker(-1)),
	} {
		if _, err := f.Submit(t.Context(), app, 1); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("submit: %v, want %s", err, want)
		}
		if err := app.Apply(t.Context(), f); !errors.Is(err, millrace.ErrInvalid) {
			t.Errorf("apply: %v, want %s", err, want)
		}
		soon, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		if err := app.Work(soon, f); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("work: %v, want %s", err, want)
		}
		cancel()
	}
	for _, f := range []millrace.Handler{millrace.Func[int, int]("a", nil), millrace.Action[int]("a", nil)} {
		soon, cancel := context.WithTimeout(t.Context(), testkit.Patience)
		if err := app.Work(soon, f); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), "function a: it has nothing to run") {
			t.Errorf("a worker of a function that only submits: %v", err)
		}
		cancel()
	}
	twice := millrace.Action("twice", nothing)
	if err := app.Work(t.Context(), twice, twice); err == nil || !strings.Contains(err.Error(), `"twice"`) {
		t.Errorf("two functions of one name: %v", err)
	}
	for _, app := range []*millrace.App{nil, {}} {
		if _, err := twice.Submit(t.Context(), app, 1); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), "no App") {
			t.Errorf("submit to no App: %v", err)
		}
	}
	if _, err := twice.Submit(t.Context(), app, 1, millrace.Cron("61 * * * *", "")); !errors.Is(err, millrace.ErrInvalid) || !strings.Contains(err.Error(), "planned runs") {
		t.Errorf("one submission with planned runs: %v", err)
	}
	w := millrace.Worker{App: app}
	for _, err := range []error{w.Run(t.Context()), (&millrace.Worker{}).Run(t.Context(), twice)} {
		if err == nil {
			t.Error("a worker without functions or an App has run")
		}
	}
	if _, err := twice.Run(app, "01ARZ3NDEKTSV4RRFFQ69G5FAV").Result(t.Context()); !errors.Is(err, millrace.ErrUnknown) {
		t.Errorf("no task: %v", err)
	}
	if _, err := twice.Spawn(t.Context(), "a", 1); !errors.Is(err, millrace.ErrNotRunning) {
		t.Errorf("a child of nothing: %v", err)
	}
	nowhere := fmt.Sprintf("nats://127.0.0.1:%d", testkit.Port(t))
	if _, err := millrace.Connect(t.Context(), millrace.Options{Server: nowhere}); !errors.Is(err, millrace.ErrNoServer) {
		t.Errorf("no server: %v", err)
	}
}

// Tasks outlive the process, other programs find its server, and a directory has one server.
func TestEmbedded(t *testing.T) {
	t.Setenv("MILLRACE_DEV_DIR", t.TempDir())
	t.Setenv("NATS_URL", "")
	dir := t.TempDir()
	answer := millrace.Func("answer", func(context.Context, struct{}) (int, error) { return 42, nil })
	var id millrace.ID
	for round := range 2 {
		own := must(embedded.Open(t.Context(), dir))(t)
		if _, err := embedded.Open(t.Context(), dir); !errors.Is(err, embed.ErrLocked) {
			t.Errorf("a second server: %v", err)
		}
		if round == 0 {
			other := must(millrace.Open(t.Context()))(t)
			id = must(answer.Submit(t.Context(), other, struct{}{}))(t).ID
			other.Close()
		} else {
			end := work(&millrace.Worker{App: own, Node: "one"}, answer)
			if n := must(answer.Run(own, id).Result(t.Context()))(t); n != 42 {
				t.Errorf("the answer is %d", n)
			}
			end()
		}
		if err := own.Close(); err != nil {
			t.Error(err)
		}
	}
}
