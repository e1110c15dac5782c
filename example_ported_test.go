package millrace_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"millrace"
)

// How do I submit many tasks at once? River shows it so:
// https://github.com/riverqueue/river/blob/ce670e3815802e8d4e10b3d213612c393a16cda8/example/example_batch_insert
func Example_batchInsert() {
	batch := millrace.Action("batch_insert", func(context.Context, struct{}) error {
		fmt.Println("Worked a job")
		return nil
	})
	app, end := running(batch)
	defer end()
	ctx := context.Background()
	runs, err := batch.SubmitAll(ctx, app, make([]struct{}, 4))
	if err != nil {
		panic(err)
	}
	urgent, err := batch.Submit(ctx, app, struct{}{}, millrace.Priority(8))
	if err != nil {
		panic(err)
	}
	for _, run := range append(runs, urgent) {
		if _, err := run.Result(ctx); err != nil {
			panic(err)
		}
	}
	// Output:
	// Worked a job
	// Worked a job
	// Worked a job
	// Worked a job
	// Worked a job
}

// How do I run something at each half hour, and once now? River shows it so:
// https://github.com/riverqueue/river/blob/ce670e3815802e8d4e10b3d213612c393a16cda8/example/example_cron_job
func Example_cronJob() {
	hourly := millrace.Action("cron", func(context.Context, struct{}) error {
		fmt.Println("This job runs once immediately, then every hour on the half hour")
		return nil
	}, millrace.Cron("30 * * * *", ""))
	app, end := running(hourly)
	defer end()
	ctx := context.Background()
	if err := app.Apply(ctx, hourly); err != nil {
		panic(err)
	}
	defer app.Client().RemoveSchedule(ctx, "cron") // the example is over
	run, err := hourly.Submit(ctx, app, struct{}{})
	if err != nil {
		panic(err)
	}
	if _, err := run.Result(ctx); err != nil {
		panic(err)
	}
	// Output: This job runs once immediately, then every hour on the half hour
}

// How do I submit for now, for tomorrow, and with more care? asynq's quickstart shows it so:
// https://github.com/hibiken/asynq/blob/022dc297014e1af8fdc85fc7d9dc9b62a97f35f1/README.md
func Example_quickstart() {
	type Email struct {
		User     int    `json:"user_id"`
		Template string `json:"template_id"`
	}
	type Image struct{ Src, Dst string }
	deliver := millrace.Action("email:deliver", func(_ context.Context, e Email) error {
		fmt.Printf("Send Email to User: user_id = %d, template_id = %s\n", e.User, e.Template)
		return nil
	})
	process := millrace.Action("image:process", func(_ context.Context, i Image) error {
		fmt.Printf("Process image: src = %s, dst = %s\n", i.Src, i.Dst)
		return nil
	}, millrace.Queue("critical"), millrace.Retries(10), millrace.Timeout(time.Minute))
	app, end := running(deliver, process)
	defer end()
	ctx := context.Background()
	now, err := deliver.Submit(ctx, app, Email{42, "some:template:id"})
	if err != nil {
		panic(err)
	}
	tomorrow, err := deliver.Submit(ctx, app, Email{42, "other:template:id"}, millrace.In(24*time.Hour))
	if err != nil {
		panic(err)
	}
	image, err := process.Submit(ctx, app, Image{"some/blobstore/url", "other/blobstore/url"})
	if err != nil {
		panic(err)
	}
	_, first := now.Result(ctx)
	_, second := image.Result(ctx)
	fmt.Println(errors.Join(first, second, tomorrow.Cancel(ctx, "the example is over")))
	// Unordered output:
	// Send Email to User: user_id = 42, template_id = some:template:id
	// Process image: src = some/blobstore/url, dst = other/blobstore/url
	// <nil>
}

// How do I tell the customer if the work takes too long, and let it go on? Temporal's sample of timers shows it so:
// https://github.com/temporalio/samples-go/tree/180ebd9b87e4796f0e07d8a813dedb87ce5046ac/timer
func Example_timer() {
	told := make(chan struct{})
	email := millrace.Action("email", func(context.Context, struct{}) error {
		fmt.Println("dear customer, it takes a while")
		close(told)
		return nil
	})
	process := millrace.Action("process", func(ctx context.Context, long bool) error {
		if long {
			<-told
		}
		return nil
	})
	type Order struct {
		Patience time.Duration
		Long     bool
	}
	order := millrace.Func("order-in-time", func(ctx context.Context, o Order) (inTime bool, err error) {
		late, err := email.Spawn(ctx, "late", struct{}{}, millrace.In(o.Patience))
		if err != nil {
			return false, err
		}
		if _, err := millrace.Call(ctx, "process", process, o.Long); err != nil {
			return false, err
		}
		err = late.Cancel(ctx, "it was processed in time")
		if errors.Is(err, millrace.ErrEnded) { // the mail was sent
			return false, nil
		}
		return err == nil, err
	})
	app, end := running(order, process, email)
	defer end()
	ctx := context.Background()
	for _, o := range []Order{{Patience: time.Hour}, {Patience: time.Millisecond, Long: true}} {
		run, err := order.Submit(ctx, app, o)
		if err != nil {
			panic(err)
		}
		fmt.Println(run.Result(ctx))
	}
	// Output:
	// true <nil>
	// dear customer, it takes a while
	// false <nil>
}
