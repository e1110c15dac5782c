// Command shop shows how a Go program submits tasks and runs them: mail about orders, and what goes
// with it. `shop work` is the worker, `shop serve` a web application that submits and asks for
// results, `shop order 4711` asks for the mail that confirms an order, `shop remind 4711` for
// one in three days, and `shop ship 4711` ships it. All find the server as the command line does, so a running `millrace dev` is
// enough; `shop alone` is the web application and the worker in one process that needs no other.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace"
	"millrace/embedded"
)

// Letter is what the mail of an order says.
type Letter struct {
	Order string `json:"order" doc:"the number of the order"`
	Text  string `json:"text"`
}

// Stock is an article of which some are to be kept.
type Stock struct {
	Article string `json:"article"`
	Pieces  int    `json:"pieces"`
}

var (
	// mail sends one letter and returns the message's id. Up to six attempts follow each other, 1
	// s, 2 s, 4 s and so on apart.
	mail = millrace.Func("mail", send, millrace.Queue("mail"), millrace.Retries(5), millrace.Timeout(30*time.Second))

	// reserve keeps pieces for an order; no more than ten tasks at once ask the warehouse.
	reserve = millrace.Action("reserve", keep, millrace.Retries(3), millrace.Concurrency(10))

	// report counts the orders of a day, and goes on where an attempt before it has ended.
	report = millrace.Func("report", count, millrace.Extendable(time.Minute, time.Hour))
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shop:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if slices.Equal(args, []string{"alone"}) {
		return alone(ctx, "shop-data")
	}
	app, err := millrace.Open(ctx)
	if err != nil {
		return err
	}
	defer app.Close()
	switch {
	case slices.Equal(args, []string{"work"}):
		return work(ctx, app)
	case slices.Equal(args, []string{"serve"}):
		return serve(ctx, app, "127.0.0.1:8080")
	case len(args) == 2 && args[0] == "order":
		return confirmed(ctx, out, app, args[1])
	case len(args) == 2 && args[0] == "ship":
		text, err := shipped(ctx, app, args[1])
		if err == nil {
			_, err = fmt.Fprintln(out, text)
		}
		return err
	case len(args) == 2 && args[0] == "remind":
		run, err := remind(ctx, app, args[1])
		if err == nil {
			_, err = fmt.Fprintf(out, "%s is due in three days\n", run.ID)
		}
		return err
	}
	return errors.New("usage: shop work | shop serve | shop alone | shop order NUMBER | shop remind NUMBER | shop ship NUMBER")
}

// work runs tasks until ctx ends. Running tasks then have Grace to end; the rest is given back to
// other workers.
func work(ctx context.Context, app *millrace.App) error {
	w := millrace.Worker{App: app, Slots: 4, Grace: 20 * time.Second}
	return w.Run(ctx, mail, reserve, report, ship)
}

// alone is everything in one process, with the data in a directory.
func alone(ctx context.Context, dir string) error {
	app, err := embedded.Open(ctx, dir)
	if err != nil {
		return err
	}
	defer app.Close()
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return serve(ctx, app, "127.0.0.1:8080") })
	both.Go(func() error { return work(ctx, app) })
	return both.Wait()
}

var errBusy = errors.New("the mail server is busy")

// send stands for whatever a task does. Its context ends with the task's timeout, with a
// cancellation, and when the worker is to end.
func send(ctx context.Context, l Letter) (id string, err error) {
	if l.Order == "" {
		return "", millrace.Final(errors.New("which order?")) // no other attempt mends that
	}
	id, err = deliver(ctx, l)
	if errors.Is(err, errBusy) {
		return "", millrace.RetryAfter(err, 2*time.Second) // in place of the usual delay
	}
	millrace.Logger(ctx).Info("sent", "id", id) // `millrace task logs` shows it
	return id, err
}

func deliver(ctx context.Context, l Letter) (id string, err error) {
	return "message of order " + l.Order, ctx.Err()
}

func keep(ctx context.Context, s Stock) error {
	if s.Pieces > 1000 {
		return millrace.Snooze(time.Hour) // the next delivery may have them; that is no failure
	}
	return nil
}

// count passes over a thousand orders, and notes every hundred how far it has come.
func count(ctx context.Context, day string) (orders int, err error) {
	if orders, _, err = millrace.Resume[int](ctx); err != nil {
		return 0, err
	}
	for orders < 1000 {
		orders += 100
		millrace.Progress(ctx, float64(orders)/1000, "counting "+day)
		if err := millrace.Checkpoint(ctx, orders); err != nil {
			return 0, err
		}
	}
	return orders, nil
}

// confirm asks for the mail that confirms an order. While that is under way, another call returns
// the same run.
func confirm(ctx context.Context, app *millrace.App, order string) (*millrace.Run[string], error) {
	return mail.Submit(ctx, app, Letter{Order: order, Text: "Thank you!"},
		millrace.Unique("confirm/"+order), millrace.Priority(8), millrace.Label("order", order))
}

// remind asks for a reminder in three days.
func remind(ctx context.Context, app *millrace.App, order string) (*millrace.Run[string], error) {
	return mail.Submit(ctx, app, Letter{Order: order, Text: "How do you like it?"},
		millrace.In(72*time.Hour), millrace.Label("order", order))
}

// confirmed confirms an order and prints what came of it.
func confirmed(ctx context.Context, out io.Writer, app *millrace.App, order string) error {
	run, err := confirm(ctx, app, order)
	if err != nil {
		return err
	}
	id, err := run.Result(ctx)
	if failure := (*millrace.Failure)(nil); errors.As(err, &failure) {
		return fmt.Errorf("the mail has failed %d times: %w", failure.Task.Failures, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s: %s\n", run.ID, id)
	return err
}
