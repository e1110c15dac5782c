// Package millrace is how a Go program uses Millrace, a task scheduler whose whole state is a log:
// it submits tasks, runs them, and waits for their results, with types that the compiler checks.
//
// A function gets a name:
//
//	var resize = millrace.Func("resize", func(ctx context.Context, in Resize) (Thumb, error) {
//		…
//	}, millrace.Retries(3), millrace.Queue("images"))
//
// One program submits it and reads what it returned, another one runs it, or one program does both:
//
//	app, err := millrace.Open(ctx)
//	run, err := resize.Submit(ctx, app, Resize{URL: u}, millrace.In(time.Hour), millrace.Unique(u))
//	thumb, err := run.Result(ctx)
//
//	err = app.Work(ctx, resize, mail) // until ctx ends
//
// [Open] finds the server as the command line does. Package millrace/embedded brings one along,
// with a scheduler, in the program's own process; only a program that imports that links a NATS
// server and a database.
//
// A task whose submission has returned without an error comes to exactly one end. It may run more
// than once: when its attempt fails and its options say so, when its node is lost, or when its
// worker ends. Its function should therefore bear that, or hand [Task].Epoch to the other side,
// which only grows, so that an outdated attempt can be refused.
//
// Within a function, [Progress], [Logger], [Record], [Checkpoint], [MoreTime] and others act on the
// task that ctx belongs to. In a plain call, such as a test, they do nothing.
//
// What is not here, [App.Client] has: lists, nodes, queues, files, the past.
package millrace
