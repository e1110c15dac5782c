// Command program is what somebody writes who has only read how the module is imported.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"example.org/millrace"
)

type order struct {
	Number string `json:"number"`
}

var shout = millrace.Func("shout", func(ctx context.Context, o order) (string, error) {
	millrace.Progress(ctx, 0.5, "shouting")
	return strings.ToUpper(o.Number), nil
}, millrace.Retries(3), millrace.Queue("loud"))

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	app, err := millrace.Open(ctx)
	if err != nil {
		return err
	}
	defer app.Close()
	run, err := shout.Submit(ctx, app, order{Number: "a1"}, millrace.In(time.Second), millrace.Unique("a1"))
	if err != nil {
		return err
	}
	said, err := run.Result(ctx)
	fmt.Println(said)
	return err
}
