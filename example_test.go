package millrace_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"millrace"
	"millrace/embedded"
)

type Picture struct {
	URL   string `json:"url"`
	Width int    `json:"width,omitempty" doc:"in pixels"`
}

type Thumb struct{ File string }

var resize = millrace.Func("resize", func(ctx context.Context, in Picture) (Thumb, error) {
	name := in.URL[strings.LastIndexByte(in.URL, '/')+1:]
	return Thumb{File: fmt.Sprintf("%d-%s", in.Width, name)}, nil
}, millrace.Retries(3), millrace.Timeout(time.Minute))

// A whole program: it brings a server along, runs a function as a task, and prints what that returns.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	// A directory in place of "" keeps the tasks for the next start; millrace.Open finds a server.
	app, err := embedded.Open(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer app.Close()
	ended := make(chan error)
	go func() { ended <- app.Work(ctx, resize) }()

	run, err := resize.Submit(ctx, app, Picture{URL: "https://example.org/mill.png", Width: 640})
	if err != nil {
		fmt.Println(err)
		return
	}
	thumb, err := run.Result(ctx)
	fmt.Println(thumb.File, err)

	stop()
	fmt.Println(<-ended)
	// Output:
	// 640-mill.png <nil>
	// <nil>
}

// How do I submit a task for later, at most once, with a label to find it by?
func ExampleFunction_Submit() {
	ctx, app := context.Background(), shared() // a shop has millrace.Open here
	var ids []millrace.ID
	for range 2 {
		run, err := resize.Submit(ctx, app, Picture{URL: "https://example.org/wheel.png"},
			millrace.In(time.Hour), millrace.Unique("wheel.png"), millrace.Label("customer", "4711"))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("existed before:", run.Existing)
		ids = append(ids, run.ID)
	}
	t, err := resize.Run(app, ids[1]).Task(ctx)
	fmt.Println(ids[0] == ids[1], t.State, t.Labels["customer"], err)
	// Output:
	// existed before: false
	// existed before: true
	// true scheduled 4711 <nil>
}

// How do I submit many?
func ExampleFunction_SubmitAll() {
	double := millrace.Func("double", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
	app, end := running(double)
	defer end()
	ctx := context.Background()
	runs, err := double.SubmitAll(ctx, app, []int{1, 2, 3})
	if err != nil {
		fmt.Println(err)
	}
	for _, run := range runs {
		n, err := run.Result(ctx)
		fmt.Println(n, err)
	}
	// Output:
	// 2 <nil>
	// 4 <nil>
	// 6 <nil>
}

// How do I learn why a task has failed?
func ExampleRun_Result() {
	charge := millrace.Func("charge", func(context.Context, string) (int, error) {
		return 0, millrace.Final(errors.New("the card has expired")) // another attempt would not mend that
	}, millrace.Retries(10))
	app, end := running(charge)
	defer end()
	ctx := context.Background()
	run, err := charge.Submit(ctx, app, "card 1")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Result(ctx)
	var failure *millrace.Failure
	if errors.As(err, &failure) {
		fmt.Printf("%s (%s) after %d attempt: %s\n", failure.Task.State, failure.Task.Reason, failure.Task.Attempt, failure.Task.Message)
	}
	fmt.Println(errors.Is(err, millrace.ErrFailed), errors.Is(err, millrace.ErrCancelled))
	// Output:
	// error (task) after 1 attempt: the card has expired
	// true false
}

// How do I cancel a task, and how does its function notice?
func ExampleRun_Cancel() {
	started := make(chan bool)
	wait := millrace.Action("wait", func(ctx context.Context, _ struct{}) error {
		close(started)
		<-ctx.Done() // pass ctx on to whatever takes time
		fmt.Println("the function:", context.Cause(ctx))
		return ctx.Err()
	})
	app, end := running(wait)
	defer end()
	ctx := context.Background()
	run, err := wait.Submit(ctx, app, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-started
	if err := run.Cancel(ctx, "no longer needed"); err != nil {
		fmt.Println(err)
	}
	_, err = run.Result(ctx)
	fmt.Println("who waits:", errors.Is(err, millrace.ErrCancelled))
	// Output:
	// the function: the task is cancelled
	// who waits: true
}

// How do I try again later without that counting as a failure?
func ExampleSnooze() {
	var calls atomic.Int32
	poll := millrace.Func("poll", func(ctx context.Context, _ struct{}) (string, error) {
		if calls.Add(1) == 1 {
			return "", millrace.Snooze(time.Millisecond) // it is not there yet
		}
		return "it is there", nil
	})
	app, end := running(poll)
	defer end()
	ctx := context.Background()
	run, err := poll.Submit(ctx, app, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	found, err := run.Result(ctx)
	fmt.Println(found, err)
	t, err := run.Task(ctx)
	fmt.Println(t.Attempt, "attempts,", t.Failures, "failures,", err)
	// Output:
	// it is there <nil>
	// 2 attempts, 0 failures, <nil>
}

// How does an attempt go on where the one before it has failed?
func ExampleCheckpoint() {
	sum := millrace.Func("sum", func(ctx context.Context, upTo int) (int, error) {
		type state struct{ Next, Sum int }
		at, resumed, err := millrace.Resume[state](ctx)
		if err != nil {
			return 0, err
		}
		fmt.Println("from", at.Next)
		for ; at.Next <= upTo; at.Next++ {
			if at.Next == 5 && !resumed {
				return 0, millrace.RetryAfter(errors.New("out of breath"), time.Millisecond)
			}
			at.Sum += at.Next
			if err := millrace.Checkpoint(ctx, state{at.Next + 1, at.Sum}); err != nil {
				return 0, err
			}
			millrace.Progress(ctx, float64(at.Next)/float64(upTo), "adding")
		}
		return at.Sum, nil
	}, millrace.Retries(1))
	app, end := running(sum)
	defer end()
	ctx := context.Background()
	run, err := sum.Submit(ctx, app, 10)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// from 0
	// from 5
	// 55 <nil>
}

// How does a task make others, and get what they return?
func ExampleFunction_Spawn() {
	page := millrace.Func("page", func(_ context.Context, n int) (string, error) { return fmt.Sprintf("page %d", n), nil })
	book := millrace.Func("book", func(ctx context.Context, pages int) (string, error) {
		var runs []*millrace.Run[string]
		for n := range pages {
			run, err := page.Spawn(ctx, fmt.Sprint(n), n+1) // the key makes it the same child in each attempt
			if err != nil {
				return "", err
			}
			runs = append(runs, run)
		}
		var all []string
		for _, run := range runs {
			text, err := run.Result(ctx)
			if err != nil {
				return "", err
			}
			all = append(all, text)
		}
		return strings.Join(all, ", "), nil
	})
	app, end := running(page, book)
	defer end()
	ctx := context.Background()
	run, err := book.Submit(ctx, app, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: page 1, page 2, page 3 <nil>
}

// How do I keep what a task finds, also if it fails later?
func ExampleRecord() {
	crawl := millrace.Action("crawl", func(ctx context.Context, site string) error {
		for n := range 3 {
			if err := millrace.Record(ctx, Picture{URL: fmt.Sprintf("%s/%d", site, n)}); err != nil {
				return err
			}
		}
		return errors.New("the rest does not answer")
	})
	app, end := running(crawl)
	defer end()
	ctx := context.Background()
	run, err := crawl.Submit(ctx, app, "https://example.org")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = run.Result(ctx)
	fmt.Println(errors.Is(err, millrace.ErrFailed))
	err = run.Records(ctx, func(r json.RawMessage) error { fmt.Println(string(r)); return nil })
	fmt.Println(err)
	// Output:
	// true
	// {"url":"https://example.org/0"}
	// {"url":"https://example.org/1"}
	// {"url":"https://example.org/2"}
	// <nil>
}

// How do I write into the log of a task, and read it?
func ExampleLogger() {
	hello := millrace.Action("hello", func(ctx context.Context, name string) error {
		millrace.Logger(ctx).With("name", name).Info("hello", "times", 2)
		return nil
	})
	app, end := running(hello)
	defer end()
	ctx := context.Background()
	run, err := hello.Submit(ctx, app, "mill")
	if err == nil {
		_, err = run.Result(ctx)
	}
	if err == nil {
		err = run.Log(ctx, func(line millrace.Line) error {
			fmt.Println(line.Level, line.Text, string(line.Fields))
			return nil
		})
	}
	if err != nil {
		fmt.Println(err)
	}
	// Output: info hello {"name":"mill","times":2}
}

// How do I surround all functions, for example to measure them?
func ExampleApp_Use() {
	ctx := context.Background()
	app, err := embedded.Open(ctx, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer app.Close()
	app.Use(func(ctx context.Context, t *millrace.Task, next func(context.Context) error) error {
		err := next(ctx)
		fmt.Println("attempt", t.Attempt, "of", t.Spec.Handler, "for", t.Labels["tenant"], "ended with", err)
		return err
	})
	app.OnSubmit(func(_ context.Context, s *millrace.Submission) error {
		s.Labels = map[string]string{"tenant": "blue"} // taken from ctx, say
		return nil
	})
	defer work(&millrace.Worker{App: app}, resize)()
	run, err := resize.Submit(ctx, app, Picture{URL: "/a.png"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// attempt 1 of resize for blue ended with <nil>
	// {0-a.png} <nil>
}

// How do people and programs in other languages run a function?
func ExampleApp_Apply() {
	app, end := running(resize)
	defer end()
	ctx := context.Background()
	if err := app.Apply(ctx, resize); err != nil {
		fmt.Println(err)
		return
	}
	// As `millrace run resize -p url=/a.png -p width=80` does:
	made, err := app.Client().Submit(ctx, millrace.Submission{Job: "resize", Texts: map[string]string{"url": "/a.png", "width": "80"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(resize.Run(app, made.ID).Result(ctx))
	_, err = app.Client().Submit(ctx, millrace.Submission{Job: "resize", Texts: map[string]string{"width": "wide"}})
	fmt.Println(err)
	// Output:
	// {80-a.png} <nil>
	// submit: invalid submission: parameter width is "wide", want a whole number; parameter url is missing: want text
}

// How do I run a function every night?
func ExampleFunction_Schedule() {
	ctx, app := context.Background(), shared()
	err := resize.Schedule(ctx, app, "nightly", Picture{URL: "https://example.org/cam.png"},
		millrace.Cron("0 3 * * *", "Europe/Berlin"), millrace.Expire(6*time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	schedules, err := app.Client().Schedules(ctx)
	for _, s := range schedules {
		fmt.Println(s.Name, s.When.Cron, s.When.Timezone, err)
	}
	// Output: nightly 0 3 * * * Europe/Berlin <nil>
}

// How do I set a rule that has no option of its own?
func ExampleFields() {
	ctx, app := context.Background(), shared()
	careful := millrace.Action("careful", func(context.Context, string) error { return nil }, millrace.Fields(`
retry: {max: 5, min: 10s, max_delay: 10m, jitter: 0.2, not_on: [timeout]}
rate: {limit: 10, per: 1m}
`))
	run, err := careful.Submit(ctx, app, "a", millrace.In(time.Hour))
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := run.Task(ctx)
	fmt.Println(t.Spec.Retry.Max, t.Spec.Retry.Min, err)

	careless := millrace.Action("careless", func(context.Context, string) error { return nil }, millrace.Fields("retry: {jiter: 0.2}"))
	_, err = careless.Submit(ctx, app, "a")
	fmt.Println(errors.Is(err, millrace.ErrInvalid), err)
	// Output:
	// 5 10s <nil>
	// true millrace: function careless: 1:9: unknown field `retry.jiter`: did you mean `retry.jitter`?
}

// How do I stop a worker as an http.Server is stopped?
func ExampleWorker_Shutdown() {
	started := make(chan bool)
	slow := millrace.Action("slow", func(ctx context.Context, _ struct{}) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	app := shared()
	w := millrace.Worker{App: app, Slots: 1}
	ended := make(chan error)
	go func() { ended <- w.Run(context.Background(), slow) }()
	ctx := context.Background()
	run, err := slow.Submit(ctx, app, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	<-started
	enough, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	fmt.Println(w.Shutdown(enough)) // it waits for running tasks as long as enough allows
	fmt.Println(<-ended)
	t, err := run.Task(ctx)
	fmt.Println(t.State, err) // another worker runs it
	// Output:
	// context deadline exceeded
	// <nil>
	// pending <nil>
}
