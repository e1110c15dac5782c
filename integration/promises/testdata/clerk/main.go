// Command clerk is a program of somebody else. `clerk submit` submits a task; `clerk work` runs tasks, in
// production only those of a server that somebody has named.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"millrace"
	"millrace/service/client"
)

var file = millrace.Func("file", func(_ context.Context, paper string) (string, error) { return "filed " + paper, nil })

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1] == "work"); err != nil {
		fmt.Fprintln(os.Stderr, "clerk:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, work bool) error {
	server, err := client.FindServer(client.Options{})
	if err != nil {
		return err
	}
	if work && os.Getenv("CLERK_ENV") == "production" && !server.Chosen() {
		return errors.New("which server? set NATS_URL or NATS_CONTEXT")
	}
	app, err := millrace.Open(ctx)
	if err != nil {
		return err
	}
	defer app.Close()
	if work {
		return app.Work(ctx, file)
	}
	task, err := file.Submit(ctx, app, "a letter")
	if err != nil {
		return err
	}
	said, err := task.Result(ctx)
	fmt.Println(said)
	return err
}
