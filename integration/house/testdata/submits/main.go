// Command submits does nothing but submit a task.
package main

import (
	"context"
	"fmt"
	"os"

	"millrace"
)

var mail = millrace.Action("mail", func(context.Context, string) error { return nil })

func main() {
	app, err := millrace.Open(context.Background())
	if err == nil {
		_, err = mail.Submit(context.Background(), app, "4711")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
