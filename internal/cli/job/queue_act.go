package job

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/queue"
)

func (a *Commands) queueLimit() *cobra.Command {
	var o settings.Output
	var reason, most, rate, window string
	var seen settings.Seen
	var burst int
	var notify []string
	c := &cobra.Command{
		Use: "limit NAME [N|none]", Short: "Bound how many tasks of a queue run at once, wait or start in a time, and in which hours; say who is told",
		Long: `Lets at most N tasks of a queue run at once, over all nodes; running tasks go on.
--max-waiting N refuses submissions while N tasks wait, with exit code 5; a task
that is due later counts from when it is due.

--rate 100/1m lets 100 attempts start in a minute, evenly spread, or --burst of them at once after
a quiet time. It holds for all tasks of the queue, in addition to the limits of their jobs: also for
tasks that wait already, for retries, and for tasks that ask for labels. A task that waits for the rate
is held until a millrace server admits it. A new rate begins untouched; --rate none removes it.

--window CALENDAR lets tasks of the queue start only while that calendar is open. Workers apply it by
themselves; tasks that run when it closes go on. --window none removes it.

--notify TARGET tells a target of the servers of what fails in the queue, and of what works again, beside
whom jobs, schedules and the servers themselves name; TARGET=failure,waiting,queue,remind=4h chooses what, and tells
again so often what waits for a person. --notify none ends it.`,
		Example: `  millrace queue limit crawl 4
  millrace queue limit crawl --max-waiting 10000
  millrace queue limit crawl --rate 100/1m --burst 20
  millrace queue limit crawl --rate none
  millrace queue limit crawl --window night
  millrace queue limit crawl --notify oncall=failure,queue
  millrace queue limit crawl none --max-waiting none`,
		Args: settings.Takes(1, 2, "limit"), ValidArgsFunction: a.CompleteQueues,
	}
	c.Flags().StringVar(&most, "max-waiting", "", "how many tasks may wait: a number, or none")
	c.Flags().StringVar(&rate, "rate", "", "how many tasks may start in a time: `number/time` such as 100/1m, or none")
	settings.Count(c.Flags(), &burst, "burst", "", "so many of --rate at once (default 1)")
	c.Flags().StringVar(&window, "window", "", "the `calendar` in whose hours tasks start, or none")
	notifyFlag(c, &notify)
	seen.Flag(c, "queue")
	c.Flags().StringVar(&reason, "reason", "", "why, in `words`; the log keeps them")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		to := queue.Limit{Reason: reason}
		var err error
		if len(args) == 2 {
			if to.Running, err = parseBound(args[1]); err != nil {
				return term.Misuse(c, "%w", err)
			}
		}
		if most != "" {
			if to.Waiting, err = parseBound(most); err != nil {
				return term.Misuse(c, "--max-waiting: %w", err)
			}
		}
		if to.Rate, err = parseQueueRate(rate, burst); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if c.Flags().Changed("window") {
			if window == "none" {
				window = ""
			}
			to.Window = &window
		}
		if to.Notify, err = parseNotify(notify); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if to.Empty() {
			return term.Misuse(c, "the limit is missing: a number or none, --max-waiting, --rate, --window, or --notify")
		}
		if err := to.Validate(); err != nil {
			return term.Misuse(c, "%w", err)
		}
		to.Seen = seen.Revisions()
		return a.onQueue(func(ctx context.Context, cl *client.Client, name string) error {
			asking, cancel := a.Asking(ctx)
			defer cancel()
			q, err := cl.LimitQueue(asking, name, to)
			return a.sayQueue(q, err, &o)
		})(c, args)
	}
	return c
}

// parseBound parses a number of at least 1, or none, which is 0.
func parseBound(s string) (*int, error) {
	n := 0
	if s == "none" {
		return &n, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return nil, fmt.Errorf("%q is no bound: want a number of at least 1, or none", s)
	}
	return &n, nil
}

// parseQueueRate parses --rate and --burst; nil if no rate is given.
func parseQueueRate(rate string, burst int) (*limit.Rate, error) {
	switch {
	case rate == "" && burst == 0:
		return nil, nil
	case rate == "":
		return nil, errors.New("--burst belongs to --rate; give that, too")
	case rate == "none" && burst != 0:
		return nil, errors.New("--burst is part of a rate, and --rate none takes it away: leave one of them out")
	case rate == "none":
		return &limit.Rate{}, nil
	}
	r, err := settings.ParseRate(rate)
	if err != nil {
		return nil, fmt.Errorf("--rate is %q, want a number and a time, such as 100/1m, or none: %w", rate, err)
	}
	r.Burst = burst
	return &r, nil
}

// notifyFlag adds --notify, which [parseNotify] reads.
func notifyFlag(c *cobra.Command, to *[]string) {
	c.Flags().StringArrayVar(to, "notify", nil, "whom to tell of its tasks: a `target`, or target=failure,remind=4h with kinds; several times for several")
}

// parseNotify parses --notify: targets with the kinds of what each is told, and how often again; nil if it
// is not given.
func parseNotify(given []string) (all []job.Notify, err error) {
	if len(given) == 1 && given[0] == "none" {
		return []job.Notify{}, nil
	}
	for _, text := range given {
		target, kinds, chosen := strings.Cut(text, "=")
		n := job.Notify{To: []string{target}}
		for kind := range strings.SplitSeq(kinds, ",") {
			if every, reminds := strings.CutPrefix(kind, "remind="); reminds {
				err = n.Remind.UnmarshalText([]byte(every))
			} else if chosen {
				n.On = append(n.On, kind)
			}
			if err != nil {
				return nil, fmt.Errorf("--notify %s: remind: %w", text, err)
			}
		}
		all = append(all, n)
	}
	return all, nil
}

// sayQueue prints an operator's settings of a queue.
func (a *Commands) sayQueue(q queue.Queue, err error, o *settings.Output) error {
	if err != nil {
		return err
	}
	if q.Paused = q.PausedAt(a.Now()); o.JSON() {
		return a.WriteJSON(q)
	}
	_, err = fmt.Fprintln(a.Out, wording.QueueLine(&q))
	return err
}

func (a *Commands) queuePurge() *cobra.Command {
	var o settings.Output
	var p client.Purge
	var states []string
	var older settings.Span
	var dry, yes bool
	c := &cobra.Command{
		Use: "purge NAME", Aliases: []string{"clear"}, Short: "Cancel the tasks that wait in a queue; needs a millrace server",
		Long: `Cancels the tasks that wait in a queue: pending ones and those that its rate holds, or those in
the given states; running tasks cannot be purged. Each task ends with an event of its own, so its history stays. Tasks
submitted meanwhile stay.`,
		Args: settings.Takes(1, 1, "queue"), ValidArgsFunction: a.CompleteQueues,
	}
	c.Flags().StringSliceVar(&states, "state", nil, "`states`, with commas: pending, scheduled, held, retrying (default pending, and what the rate holds)")
	c.Flags().Var(&older, "older-than", "only those that were submitted so long ago: 2h, 7d")
	c.Flags().StringVar(&p.Reason, "reason", "the queue was purged", "why, in `words`; the log keeps them")
	c.Flags().BoolVar(&dry, "dry-run", false, "only say how many there are")
	c.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	o.Flags(c)
	c.RunE = func(c *cobra.Command, args []string) (err error) {
		p.Queue = args[0]
		if p.States, err = settings.States(states); err != nil {
			return term.Misuse(c, "%w", err)
		}
		if err := p.Validate(); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return a.onQueue(func(ctx context.Context, cl *client.Client, _ string) error {
			list := func(ctx context.Context, r client.ListRequest) (client.ListPage, error) {
				asking, cancel := context.WithTimeout(ctx, max(a.Conn.Timeout, connect.CatchUp))
				defer cancel()
				return cl.List(asking, r)
			}
			p.Until, p.DryRun = a.Now().Add(-older.D), true
			found, err := cl.PurgeQueue(ctx, &p, list)
			switch {
			case err != nil:
				return err
			case dry || found.Chosen == 0:
				return a.sayPurge(&o, p.Queue, found.Chosen, 0, dry)
			case !yes:
				if err := a.Confirm(c, fmt.Sprintf("cancel %s that wait in queue %s?", wording.Plural(found.Chosen, "task"), p.Queue)); err != nil {
					return err
				}
			}
			p.DryRun = false
			done, failed := cl.PurgeQueue(ctx, &p, list)
			for _, r := range done.Refused {
				failed = errors.Join(failed, errors.New(r.Error))
			}
			if done.Interrupted {
				failed = errors.Join(failed, ctx.Err())
			}
			return term.FirstFault(failed, a.sayPurge(&o, p.Queue, found.Chosen, done.Done, false))
		})(c, args)
	}
	return c
}

func (a *Commands) sayPurge(o *settings.Output, queue string, found, ended int, dry bool) error {
	if o.JSON() {
		return a.WriteJSON(map[string]any{"queue": queue, "found": found, "ended": ended, "dry_run": dry})
	}
	text := fmt.Sprintf("%s cancelled", wording.Plural(ended, "task"))
	if dry {
		text = fmt.Sprintf("%s would be cancelled", wording.Plural(found, "task"))
	}
	_, err := fmt.Fprintln(a.Out, text)
	return err
}

// onQueue makes the RunE of a command for one queue, by its name.
func (a *Commands) onQueue(do func(ctx context.Context, cl *client.Client, name string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := validQueue(args[0]); err != nil {
			return term.Misuse(c, "%w", err)
		}
		return a.Online(func(ctx context.Context, cl *client.Client, args []string) error { return do(ctx, cl, args[0]) })(c, args)
	}
}
