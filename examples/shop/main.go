// Command shop shows how a Go program submits tasks and runs them: mail about orders. `shop work`
// is the worker, `shop order 4711` asks for the mail that confirms an order, `shop remind 4711` for
// one in three days. Both find the server as the command line does, so a running `millrace dev` is
// enough.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/value"
	"millrace/worker"
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
	if slices.Equal(args, []string{"work"}) && os.Getenv("SHOP_ENV") == "production" {
		if err := named(); err != nil {
			return err
		}
	}
	c, err := client.Connect(ctx, client.Options{Name: "shop"})
	if err != nil {
		return err
	}
	defer c.Close()
	switch {
	case slices.Equal(args, []string{"work"}):
		return work(ctx, c)
	case len(args) == 2 && args[0] == "order":
		return report(ctx, out, c, confirm, args[1])
	case len(args) == 2 && args[0] == "remind":
		return report(ctx, out, c, remind, args[1])
	}
	return errors.New("usage: shop work | shop order NUMBER | shop remind NUMBER")
}

// named refuses a server that the operator has not named: a worker runs whatever its server tells
// it to.
func named() error {
	t, err := client.FindServer(client.Options{Name: "shop"})
	if err != nil {
		return err
	}
	if !t.Chosen() {
		return errors.New("which server? set NATS_URL or NATS_CONTEXT")
	}
	return nil
}

// report submits a task, and prints its outcome.
func report(ctx context.Context, out io.Writer, c *client.Client, submit func(context.Context, *client.Client, string) (client.Receipt, error), order string) error {
	receipt, err := submit(ctx, c, order)
	if err != nil {
		return err
	}
	t, err := c.Task(ctx, receipt.ID)
	if err != nil {
		return err
	}
	if t.State == task.Scheduled {
		_, err = fmt.Fprintf(out, "%s is due in three days\n", t.ID)
		return err
	}
	if t, err = c.Wait(ctx, receipt.ID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is %s after attempt %d: %s\n", t.ID, t.State, t.Attempt, t.Result)
	return err
}

// work runs tasks until ctx ends. Running tasks then have Grace to end; the rest is given back to
// other workers.
func work(ctx context.Context, c *client.Client) error {
	s := c.Store()
	w, err := worker.New(worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s}, worker.Config{
		Node:   "shop-1", // the same at each start
		Queues: []string{"mail"},
		Slots:  4,
		Grace:  20 * time.Second,
	})
	if err != nil {
		return err
	}
	w.Handle("mail", mail)
	return w.Run(ctx)
}

// letter holds the parameters of a task of the handler "mail".
type letter struct {
	Order string `json:"order"`
	Text  string `json:"text"`
}

// mail runs one attempt. Its context ends with the task's timeout, with a cancellation, and when
// the worker is to end.
func mail(ctx context.Context, t task.Task) error {
	var l letter
	if err := json.Unmarshal(t.Params, &l); err != nil {
		return worker.Final(fmt.Errorf("parameters: %w", err)) // no other attempt mends that
	}
	id, err := send(ctx, l)
	if errors.Is(err, errBusy) {
		return worker.RetryAfter(err, 2*time.Second) // in place of the policy's delay
	}
	if err != nil {
		return err // another attempt follows, as the task's policy says
	}
	attempt := worker.FromContext(ctx)
	attempt.Output.Line(output.Stdout, "sent "+id) // `millrace task logs` shows it
	attempt.Output.SetResult(json.RawMessage(fmt.Sprintf("%q", id)))
	return nil
}

var errBusy = errors.New("the mail server is busy")

// send stands for whatever a task does.
func send(ctx context.Context, l letter) (id string, err error) {
	return "message of order " + l.Order, ctx.Err()
}

// confirm asks for the mail that confirms an order.
func confirm(ctx context.Context, c *client.Client, order string) (client.Receipt, error) {
	params, err := paramsOf(letter{Order: order, Text: "Thank you!"})
	if err != nil {
		return client.Receipt{}, err
	}
	return c.Submit(ctx, birth.Submission{
		Spec: &job.Spec{
			Handler: "mail",
			// Up to six attempts, 1 s to 10 min apart, for an hour in all.
			Retry: job.Retry{
				Max: 5, Min: value.Duration(time.Second), MaxDelay: value.Duration(10 * time.Minute),
				Jitter: 0.2, Budget: value.Duration(time.Hour),
			},
			Timeout: job.Timeout{Run: value.Duration(30 * time.Second)},
			// While a task for this order has not ended, another submission returns that task.
			Unique: job.Unique{Key: "/confirm/" + order, OnConflict: job.ConflictReturn},
		},
		Queue:    "mail",
		Priority: 8, // 1 to 10, the larger the more urgent; default 5
		Labels:   map[string]string{"order": order},
		Params:   params,
	})
}

// remind asks for a reminder in three days.
func remind(ctx context.Context, c *client.Client, order string) (client.Receipt, error) {
	params, err := paramsOf(letter{Order: order, Text: "How do you like it?"})
	if err != nil {
		return client.Receipt{}, err
	}
	return c.Submit(ctx, birth.Submission{
		Spec:   &job.Spec{Handler: "mail", Retry: job.Retry{Max: 5}},
		Queue:  "mail",
		Delay:  value.Duration(72 * time.Hour), // or At, a time
		Labels: map[string]string{"order": order},
		Params: params,
	})
}

// paramsOf makes parameters of the fields of a struct.
func paramsOf(v any) (fields map[string]json.RawMessage, err error) {
	body, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(body, &fields)
	}
	return fields, err
}
