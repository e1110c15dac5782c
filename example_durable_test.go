package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"millrace"
)

// How do I charge a card once, whatever fails afterwards?
func ExampleStep() {
	order := millrace.Func("order", func(ctx context.Context, number string) (string, error) {
		receipt, err := millrace.Step(ctx, "charge", func(context.Context) (string, error) {
			fmt.Println("charging", number)
			return "receipt of " + number, nil
		}, millrace.Retries(5))
		if err != nil {
			return "", err
		}
		if millrace.Current(ctx).Attempt == 1 {
			return "", millrace.RetryAfter(errors.New("no mail server"), time.Millisecond)
		}
		return receipt, nil // the second attempt has it from the log
	}, millrace.Retries(3))
	app, end := running(order)
	defer end()
	ctx := context.Background()
	run, err := order.Submit(ctx, app, "4711")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output:
	// charging 4711
	// receipt of 4711 <nil>
}

// How do I undo what was done, if a later step cannot succeed?
func ExampleStepError() {
	trip := millrace.Func("trip", func(ctx context.Context, to string) (string, error) {
		if _, err := millrace.Step(ctx, "flight", func(context.Context) (string, error) { return "LH 1", nil }); err != nil {
			return "", err
		}
		_, err := millrace.Step(ctx, "hotel", func(context.Context) (string, error) {
			return "", millrace.Final(errors.New("no room in " + to))
		}, millrace.Retries(5))
		if failed := (*millrace.StepError)(nil); errors.As(err, &failed) {
			return millrace.Step(ctx, "cancel flight", func(context.Context) (string, error) {
				return "stay at home: " + failed.Message, nil
			})
		}
		return "go to " + to, err // also millrace.ErrSuspended, while a step waits for its next try
	})
	app, end := running(trip)
	defer end()
	ctx := context.Background()
	run, err := trip.Submit(ctx, app, "Rome")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: stay at home: no room in Rome <nil>
}

// How does a task wait for days without a worker?
func ExampleSleep() {
	remind := millrace.Func("remind-later", func(ctx context.Context, to string) (string, error) {
		if err := millrace.Sleep(ctx, "grace", 20*time.Millisecond); err != nil { // or 72*time.Hour
			return "", err
		}
		return fmt.Sprintf("dear %s, says attempt %d", to, millrace.Current(ctx).Attempt), nil
	})
	app, end := running(remind)
	defer end()
	ctx := context.Background()
	run, err := remind.Submit(ctx, app, "ada")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: dear ada, says attempt 2 <nil>
}

// How does a task wait for a person's answer?
func ExampleAwait() {
	type answer struct{ By string }
	spend := millrace.Func("spend", func(ctx context.Context, euros int) (string, error) {
		ok, err := millrace.Await[answer](ctx, "approval", 72*time.Hour)
		if errors.Is(err, millrace.ErrNoSignal) {
			return "nobody has answered", nil
		}
		return fmt.Sprintf("%s has approved %d", ok.By, euros), err
	})
	app, end := running(spend)
	defer end()
	ctx := context.Background()
	run, err := spend.Submit(ctx, app, 200)
	if err != nil {
		fmt.Println(err)
		return
	}
	looking, found := context.WithCancel(ctx)
	defer found()
	_, _ = app.Client().Watch(looking, run.ID, func(t millrace.Task) {
		if t.AwaitsSignal() {
			found()
		}
	})
	// As a button on the task's page does, or `millrace task signal`:
	if err := run.Signal(ctx, answer{By: "ada"}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: ada has approved 200 <nil>
}

// How does a function call another one as a task of its own, without holding a slot meanwhile?
func ExampleCall() {
	half := millrace.Func("half", func(_ context.Context, n int) (int, error) { return n / 2, nil })
	quarter := millrace.Func("quarter", func(ctx context.Context, n int) (int, error) {
		first, err := millrace.Call(ctx, "first", half, n)
		if err != nil {
			return 0, err
		}
		return millrace.Call(ctx, "second", half, first)
	})
	app, end := running(half, quarter)
	defer end()
	ctx := context.Background()
	run, err := quarter.Submit(ctx, app, 12)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: 3 <nil>
}

// How does a function call several at once, and bear that one of them fails?
func ExampleAll() {
	price := millrace.Func("price", func(_ context.Context, of string) (int, error) {
		if of == "" {
			return 0, millrace.Final(errors.New("of what?"))
		}
		return len(of), nil
	})
	total := millrace.Func("total", func(ctx context.Context, _ struct{}) (string, error) {
		shoe, nothing := price.With("shoe"), price.With("")
		if err := millrace.All(ctx, "prices", shoe, nothing); err != nil {
			return "", err
		}
		is, err := shoe.Result()
		if err != nil {
			return "", err
		}
		_, err = nothing.Result()
		return fmt.Sprintf("a shoe is %d; the other has failed: %t", is, err != nil), nil
	})
	app, end := running(price, total)
	defer end()
	ctx := context.Background()
	run, err := total.Submit(ctx, app, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: a shoe is 4; the other has failed: true <nil>
}

// How do I have one function work on all parts of a whole at once, and go on with their results?
func ExampleCallEach() {
	count := millrace.Func("count", func(_ context.Context, text string) (int, error) { return len(strings.Fields(text)), nil })
	book := millrace.Func("book", func(ctx context.Context, pages []string) (total int, err error) {
		words, err := millrace.CallEach(ctx, "pages", count, pages)
		for _, n := range words {
			total += n
		}
		return total, err
	})
	app, end := running(count, book)
	defer end()
	ctx := context.Background()
	run, err := book.Submit(ctx, app, []string{"once upon a time", "the end"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: 6 <nil>
}

// How do I give the other side a key by which it knows a repeated request?
func ExampleNewID() {
	var first millrace.ID
	pay := millrace.Func("pay", func(ctx context.Context, _ struct{}) (string, error) {
		key, err := millrace.NewID(ctx)
		if err != nil {
			return "", err
		}
		if first == "" {
			first = key
		}
		return millrace.Step(ctx, "pay", func(context.Context) (string, error) {
			if millrace.Current(ctx).Attempt == 1 {
				return "", errors.New("the answer was lost")
			}
			return fmt.Sprint("the same key: ", key == first), nil
		}, millrace.Fields("retry: {max: 3, min: 1ms}"))
	})
	app, end := running(pay)
	defer end()
	ctx := context.Background()
	run, err := pay.Submit(ctx, app, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: the same key: true <nil>
}

// How do I change a function while its tasks wait?
func ExampleVersion() {
	greet := millrace.Func("greet", func(ctx context.Context, name string) (string, error) {
		v, err := millrace.Version(ctx, "politely", 1)
		if err != nil {
			return "", err
		}
		if v == 0 { // a task that has begun before the code asked
			return "hey " + name, nil
		}
		return millrace.Step(ctx, "title", func(context.Context) (string, error) { return "dear " + name, nil })
	})
	app, end := running(greet)
	defer end()
	ctx := context.Background()
	run, err := greet.Submit(ctx, app, "ada")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: dear ada <nil>
}

// How do I bound how many tasks of a function run at once, on all workers together?
func ExampleConcurrency() {
	var at, most atomic.Int32
	call := millrace.Action("call", func(context.Context, int) error {
		if n := at.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer at.Add(-1)
		return nil
	}, millrace.Concurrency(1))
	app, end := running(call)
	defer end()
	ctx := context.Background()
	runs, err := call.SubmitAll(ctx, app, []int{1, 2, 3})
	for _, run := range runs {
		if _, failed := run.Result(ctx); failed != nil {
			err = failed
		}
	}
	fmt.Println("at most", most.Load(), "at once,", err)
	// Output: at most 1 at once, <nil>
}

// How does a task start when others have finished?
func ExampleAfter() {
	work := millrace.Func("stage", func(_ context.Context, name string) (string, error) { return name, nil })
	app, end := running(work)
	defer end()
	ctx := context.Background()
	first, err := work.Submit(ctx, app, "build", millrace.In(20*time.Millisecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	second, err := work.Submit(ctx, app, "publish", millrace.After(first.ID))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(second.Result(ctx))
	is, err := first.Task(ctx)
	fmt.Println("and before that:", is.State, err)
	// Output:
	// publish <nil>
	// and before that: finished <nil>
}

// How do I submit again, when I do not know whether it worked the first time?
func ExampleWithID() {
	ctx, app := context.Background(), shared()
	id := millrace.ID("01J9ZJ5V3R8Q4N2M6K7T0W1XYA") // client.NewID draws one; keep it beside your own data
	for range 2 {
		run, err := resize.Submit(ctx, app, Picture{URL: "/b.png"}, millrace.WithID(id))
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(run.ID == id, run.Existing)
	}
	// Output:
	// true false
	// true true
}

// How does a function get more time than its timeout?
func ExampleMoreTime() {
	long := millrace.Func("long", func(ctx context.Context, _ struct{}) (string, error) {
		was, err := millrace.MoreTime(ctx, time.Second) // it has that already
		if err != nil {
			return "", err
		}
		until, err := millrace.MoreTime(ctx, 5*time.Minute)
		return fmt.Sprint("later: ", until.After(was)), err
	}, millrace.Extendable(time.Minute, time.Hour))
	app, end := running(long)
	defer end()
	ctx := context.Background()
	run, err := long.Submit(ctx, app, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(run.Result(ctx))
	// Output: later: true <nil>
}
