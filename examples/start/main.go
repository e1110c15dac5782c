// Command start is the smallest program that does all: it brings a server along, runs a function as
// a task that survives the process, and prints what that has returned.
package main

import (
	"context"
	"fmt"
	"os"

	"millrace"
	"millrace/embedded"
)

var greet = millrace.Func("greet", func(ctx context.Context, name string) (string, error) {
	return "hello, " + name, nil // an error would be followed by up to three more attempts
}, millrace.Retries(3))

func main() {
	if err := run(context.Background(), "data"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	app, err := embedded.Open(ctx, dir) // or millrace.Open(ctx), which finds a server
	if err != nil {
		return err
	}
	defer app.Close()
	work, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- app.Work(work, greet) }()

	task, err := greet.Submit(ctx, app, "mill")
	if err == nil {
		var words string
		words, err = task.Result(ctx)
		fmt.Println(words)
	}
	stop()
	if failed := <-ended; err == nil {
		err = failed
	}
	return err
}
