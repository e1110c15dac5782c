package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/task"
)

func (a *app) queueCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "queue", Aliases: []string{"queues", "q"},
		Short: "Queues: what waits in them, and how much of it may run",
		Long: `Queues: what waits in them, and how much of it may run. A queue exists when a task or
a worker names it.

Of the tasks of a queue the most urgent goes first (run --priority); of ten that are
started one is of a lower priority, if there are any. Tasks with fair keys
(run --fair-key) are taken in turn.`,
		Example: `  millrace queue ls
  millrace queue pause crawl --for 1h --reason "their site is down"
  millrace queue limit crawl 4
  millrace queue limit crawl --max-waiting 10000
  millrace queue limit crawl --rate 100/1m
  millrace queue limit crawl --window night
  millrace queue purge crawl --older-than 2d --dry-run`,
	})
	c.AddCommand(a.queueList(), a.queueShow(), a.queuePause(), a.queueResume(), a.queueLimit(), a.queuePurge())
	return c
}

func (a *app) queueList() *cobra.Command {
	var o output
	var names, rates, watch bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the queues; needs a millrace server", Args: takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	ratesFlag(c, &rates)
	watchFlag(c, &watch)
	o.flags(c)
	c.RunE = a.online(func(ctx context.Context, cl *client.Client, _ []string) error {
		if names {
			asking, cancel := a.asking(ctx)
			defer cancel()
			page, err := cl.Queues(asking, client.QueueListRequest{})
			for _, q := range page.Queues {
				fmt.Fprintln(a.out, q.Name)
			}
			return err
		}
		return a.show(ctx, watch, &o, func(ctx context.Context) (frame, error) {
			page, err := cl.Queues(ctx, client.QueueListRequest{Rates: rates})
			return frame{table: queueTable(&page, a.now()), json: page}, err
		})
	})
	return c
}

// ratesFlag asks for what has to be measured, and so takes its time.
func ratesFlag(c *cobra.Command, rates *bool) {
	c.Flags().BoolVar(rates, "rates", false, "also how many come and go in a second, which takes half of one")
}

func queueTable(page *client.QueuePage, now time.Time) table {
	t := table{header: []string{"QUEUE", "STATE", "WAITING", "RUNNING", "LIMIT", "RATE", "OLDEST", "IN/S", "OUT/S", "NODES"}, spare: []string{"RATE", "IN/S", "OUT/S", "LIMIT", "OLDEST"}}
	for i := range page.Queues {
		q := &page.Queues[i]
		t.add(plain(q.Name), queueCell(q), plain(waitingText(q)), plain(strconv.Itoa(q.States[task.Running.String()]+q.States[task.Cancelling.String()])),
			plain(orDash(q.Limit)), plain(queueRateText(q)), plain(age(q.Oldest, now)), plain(perSecond(q.In)), plain(perSecond(q.Out)), plain(strconv.Itoa(len(q.Nodes))))
	}
	t.foot = []string{fmt.Sprintf("%s, as of sequence %d", plural(len(page.Queues), "queue"), page.Seq)}
	return t
}

func queueCell(q *client.QueueView) cell {
	switch {
	case q.Paused != nil:
		return cell{"paused", yellow}
	case q.Shut != nil:
		return cell{"closed", yellow}
	}
	return cell{"open", green}
}

// waitingText is how many tasks wait, and of which priorities if there are others than usual.
func waitingText(q *client.QueueView) string {
	text := strconv.Itoa(q.States[task.Pending.String()])
	if q.MaxWaiting > 0 {
		text += fmt.Sprintf("/%d", q.MaxWaiting)
	}
	if p := prioritiesText(q.Waiting); p != "" {
		text += " (" + p + ")"
	}
	return text
}

// prioritiesText lists counts by priority, the highest first; "" if all have the usual one.
func prioritiesText(waiting map[int]int) string {
	var parts []string
	special := false
	for p := task.MaxPriority; p >= task.MinPriority; p-- {
		if n := waiting[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("p%d: %d", p, n))
			special = special || p != task.DefaultPriority
		}
	}
	if !special {
		return ""
	}
	return strings.Join(parts, ", ")
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// boundText is a bound in words.
func boundText(n int, what string) string {
	if n == 0 {
		return "any number may " + what
	}
	return fmt.Sprintf("at most %d may %s", n, what)
}

// boundsText says in words what bounds a queue has.
func boundsText(running, waiting int, rate task.Rate, window string) string {
	text := words(boundText(running, "run at once"), boundText(waiting, "wait"))
	if rate.Limit > 0 {
		text = words(text, rateWords(rate)+" may start")
	}
	if window != "" {
		text = words(text, "in the window "+window)
	}
	return text
}

// queueRateText is the rate of a queue, and how many wait for it.
func queueRateText(q *client.QueueView) string {
	text := rateWords(q.Rate)
	if text == "" {
		return "-"
	}
	if r := q.RateState; r != nil && r.Waiting > 0 {
		text += fmt.Sprintf(" (%d wait)", r.Waiting)
	}
	return text
}

func perSecond(r *float64) string {
	if r == nil {
		return ""
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}

func (a *app) queueShow() *cobra.Command {
	var o output
	var rates bool
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info"}, Short: "Print all that is known of a queue; needs a millrace server",
		Args: takes(1, 1, "queue"), ValidArgsFunction: a.completeQueues,
	}
	ratesFlag(c, &rates)
	o.flags(c)
	c.RunE = a.onQueue(func(ctx context.Context, cl *client.Client, name string) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		q, err := cl.OneQueue(asking, name, rates)
		if errors.Is(err, client.ErrNoQueue) {
			return orMeant(err, name, queueNames(asking, cl))
		}
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(q)
		}
		return a.print(queueFields(&q, a.now()))
	})
	return c
}

func queueFields(q *client.QueueView, now time.Time) table {
	var out table
	state := queueCell(q)
	out.field("queue", q.Name)
	out.field("state", state.text)
	if p := q.Paused; p != nil {
		out.field("paused by", p.By)
		out.field("since", moment(p.Since, now))
		out.field("until", moment(p.Until, now))
		out.field("reason", p.Reason)
	}
	for _, s := range task.States() {
		if n := q.States[s.String()]; n > 0 {
			out.field(s.String(), strconv.Itoa(n))
		}
	}
	for p := task.MaxPriority; p >= task.MinPriority; p-- {
		if n := q.Waiting[p]; n > 0 {
			out.field(fmt.Sprintf("offers, priority %d", p), strconv.Itoa(n))
		}
	}
	out.field("leased", strconv.Itoa(q.Leased))
	out.field("oldest waits since", moment(q.Oldest, now))
	if q.In != nil && q.Out != nil {
		out.field("in a second", words("in "+perSecond(q.In), "out "+perSecond(q.Out)))
	}
	out.field("limit", words(boundText(q.Limit, "run at once"), boundText(q.MaxWaiting, "wait")))
	out.field("window", q.Window)
	if q.Shut != nil {
		out.field("closed", q.Shut.Detail)
	}
	out.field("rate", rateWords(q.Rate))
	if r := q.RateState; r != nil {
		_, next := rateText(r.Rate, now)
		out.field("waiting for it", strconv.Itoa(r.Waiting))
		out.field("next", next)
	}
	out.field("served by", strings.Join(q.Nodes, ", "))
	return out
}

// onQueue makes what runs a command that is given one queue's name.
func (a *app) onQueue(do func(ctx context.Context, cl *client.Client, name string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := task.ValidName("queue", args[0]); err != nil {
			return misuse(c, "%w", err)
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		return do(c.Context(), cl, args[0])
	}
}

func (a *app) completeQueues(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, queueNames)
}

// queueNames are the names of the queues, as far as a server tells them.
func queueNames(ctx context.Context, cl *client.Client) []string {
	page, _ := cl.Queues(ctx, client.QueueListRequest{})
	var names []string
	for _, q := range page.Queues {
		names = append(names, q.Name)
	}
	slices.Sort(names)
	return names
}
