package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/exit"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// Command is millrace queue.
func (a *Commands) Command() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "queue", Aliases: []string{"queues", "q"},
		Short: "Queues: what waits in them, and how much may run",
		Long: `Queues: what waits in them, and how much may run. A queue exists when a task or
a worker names it.

The most urgent task of a queue goes first (run --priority); every tenth task that starts
has a lower priority, if there is one. Fair keys (run --fair-key) are served in turn.`,
		Example: `  millrace queue ls
  millrace queue pause crawl --for 1h --reason "their site is down"
  millrace queue limit crawl 4
  millrace queue limit crawl --max-waiting 10000
  millrace queue limit crawl --rate 100/1m
  millrace queue limit crawl --window night
  millrace queue purge crawl --older-than 2d --dry-run`,
	})
	c.AddCommand(a.queueList(), a.queueShow(), a.queueLimit(), a.queuePurge())
	return c
}

func (a *Commands) queueList() *cobra.Command {
	var o settings.Output
	var names, rates, watch bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the queues; needs a millrace server", Args: settings.Takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	ratesFlag(c, &rates)
	connect.WatchFlag(c, &watch)
	sight := a.AtFlag(c, sums)
	o.Flags(c)
	c.MarkFlagsMutuallyExclusive("at", "rates")
	c.RunE = a.Online(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		look := a.queuesIn(ctx, cl, &s, client.QueueListRequest{Rates: rates && !names})
		if names {
			asking, cancel := a.Asking(ctx)
			defer cancel()
			page, err := look(asking)
			for _, q := range page.Queues {
				fmt.Fprintln(a.Out, q.Name)
			}
			return err
		}
		return a.Show(ctx, watch, &o, func(ctx context.Context) (connect.Frame, error) {
			page, err := look(ctx)
			t := queueTable(&page, s.Now())
			s.Mark(&t, a.Now())
			return connect.Frame{Table: t, JSON: shownQueues(&page, &s)}, err
		})
	})
	return c
}

// sums is a past moment's request about queues and limits: tasks are counted. What consumers hold
// is not recorded.
var sums = connect.Then{Lacks: []string{"offers by priority", "leases", "rates measured"}}

// queuesIn lists queues in a sight.
func (a *Commands) queuesIn(ctx context.Context, cl *client.Client, s *connect.Sight, r client.QueueListRequest) func(context.Context) (client.QueuePage, error) {
	return connect.Look(ctx, a.App, cl, s, func(ctx context.Context, q connect.Question) (client.QueuePage, error) {
		r.At, r.AtLeast = q.At, q.AtLeast
		return cl.Queues(ctx, r)
	})
}

// queueThen is a queue of the past in JSON, without what is not recorded.
type queueThen struct {
	client.QueueView
	Waiting *struct{}           `json:"waiting,omitempty"`
	Leased  *struct{}           `json:"leased,omitempty"`
	At      *connect.ShownPoint `json:"at,omitempty"`
}

// shownQueues is a page of queues in JSON.
func shownQueues(page *client.QueuePage, s *connect.Sight) any {
	if s.Past == nil {
		return page
	}
	then := make([]queueThen, len(page.Queues))
	for i := range page.Queues {
		then[i].QueueView = page.Queues[i]
	}
	return struct {
		Queues []queueThen         `json:"queues"`
		Seq    uint64              `json:"seq"`
		At     *connect.ShownPoint `json:"at"`
	}{then, page.Seq, s.Past}
}

// ratesFlag adds --rates, which must measure, and so takes time.
func ratesFlag(c *cobra.Command, rates *bool) {
	c.Flags().BoolVar(rates, "rates", false, "also how many tasks come and go in a second; takes half a second")
}

func queueTable(page *client.QueuePage, now time.Time) term.Table {
	t := term.Table{Header: []string{"QUEUE", "STATE", "WAITING", "RUNNING", "LIMIT", "RATE", "OLDEST", "IN/S", "OUT/S", "NODES"}, Spare: []string{"RATE", "IN/S", "OUT/S", "LIMIT", "OLDEST"}}
	for i := range page.Queues {
		q := &page.Queues[i]
		t.Add(term.Plain(q.Name), queueCell(q), term.Plain(waitingText(q)), term.Plain(strconv.Itoa(q.States[task.Running.String()]+q.States[task.Cancelling.String()])),
			term.Plain(orDash(q.Limit)), term.Plain(queueRateText(q)), term.Plain(wording.Age(q.Oldest, now)), term.Plain(perSecond(q.In)), term.Plain(perSecond(q.Out)), term.Plain(strconv.Itoa(len(q.Nodes))))
	}
	t.Foot = []string{fmt.Sprintf("%s, as of sequence %d", wording.Plural(len(page.Queues), "queue"), page.Seq)}
	for i := range page.Queues {
		if u := page.Queues[i].Unserved; u != nil {
			t.Foot = append(t.Foot, wording.Unserved(u, "of queue "+page.Queues[i].Name, now))
		}
	}
	t.Foot = append(t.Foot, wording.UnservedNodes(page.UnservedNodes, now)...)
	return t
}

func queueCell(q *client.QueueView) term.Cell {
	switch {
	case q.Paused != nil:
		return term.Tinted("paused", term.Yellow)
	case q.Shut != nil:
		return term.Tinted("closed", term.Yellow)
	case q.Unserved != nil:
		return term.Tinted("unserved", term.Red)
	}
	return term.Tinted("open", term.Green)
}

// waitingText is how many tasks wait, and their priorities if there are unusual ones.
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
	for p := placement.MaxPriority; p >= placement.MinPriority; p-- {
		if n := waiting[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("p%d: %d", p, n))
			special = special || p != placement.DefaultPriority
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

// queueRateText is the rate of a queue, and how many tasks wait for it.
func queueRateText(q *client.QueueView) string {
	text := wording.RateWords(q.Rate)
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

func (a *Commands) queueShow() *cobra.Command {
	var o settings.Output
	var rates bool
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info"}, Short: "Print a queue; needs a millrace server",
		Args: settings.Takes(1, 1, "queue"), ValidArgsFunction: a.CompleteQueues,
	}
	ratesFlag(c, &rates)
	sight := a.AtFlag(c, sums)
	o.Flags(c)
	c.MarkFlagsMutuallyExclusive("at", "rates")
	c.RunE = a.onQueue(func(ctx context.Context, cl *client.Client, name string) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		look := a.queuesIn(ctx, cl, &s, client.QueueListRequest{Queue: name, Rates: rates})
		asking, cancel := a.Asking(ctx)
		defer cancel()
		page, err := look(asking)
		q, err := client.OneOf(page, name, err)
		switch {
		case errors.Is(err, client.ErrNoQueue):
			return connect.OrMeant(s.Unknown(err), name, connect.QueueNames(asking, cl))
		case err != nil:
			return err
		case !o.JSON():
			t := queueFields(&q, &s)
			s.Mark(&t, a.Now())
			return a.Print(t)
		case s.Past != nil:
			return a.WriteJSON(queueThen{QueueView: q, At: s.Past})
		}
		return a.WriteJSON(q)
	})
	return c
}

func queueFields(q *client.QueueView, s *connect.Sight) term.Table {
	var out term.Table
	now := s.Now()
	state := queueCell(q)
	out.Field("queue", q.Name)
	out.Field("state", state.Text)
	if p := q.Paused; p != nil {
		out.Field("paused by", p.By)
		out.Field("since", wording.Moment(p.Since, now))
		out.Field("until", wording.Moment(p.Until, now))
		out.Field("reason", p.Reason)
	}
	for _, s := range task.States() {
		if n := q.States[s.String()]; n > 0 {
			out.Field(s.String(), strconv.Itoa(n))
		}
	}
	for p := placement.MaxPriority; p >= placement.MinPriority; p-- {
		if n := q.Waiting[p]; n > 0 {
			out.Field(fmt.Sprintf("offers, priority %d", p), strconv.Itoa(n))
		}
	}
	if s.Past == nil {
		out.Field("leased", strconv.Itoa(q.Leased))
	}
	out.Field("oldest waits since", wording.Moment(q.Oldest, now))
	if u := q.Unserved; u != nil {
		out.Field("unserved", fmt.Sprintf("%s since %s: %s", wording.Plural(u.Tasks, "task"), wording.Moment(u.Since, now), wording.Clocks(u.Why)))
	}
	if q.In != nil && q.Out != nil {
		out.Field("in a second", wording.Words("in "+perSecond(q.In), "out "+perSecond(q.Out)))
	}
	out.Field("limit", queue.Limited{Running: q.Limit, Waiting: q.MaxWaiting}.Words())
	out.Field("window", q.Window)
	if q.Shut != nil {
		out.Field("closed", q.Shut.Detail)
	}
	out.Field("rate", wording.RateWords(q.Rate))
	if r := q.RateState; r != nil {
		_, next := wording.RateText(r.Rate, now)
		out.Field("waiting for it", strconv.Itoa(r.Waiting))
		out.Field("next", next)
	}
	out.Field("served by", strings.Join(q.Nodes, ", "))
	return out
}

// onQueue makes the RunE of a command for one queue, by its name.
func (a *Commands) onQueue(do func(ctx context.Context, cl *client.Client, name string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := value.ValidName("queue", args[0]); err != nil {
			return exit.Misuse(c, "%w", err)
		}
		cl, err := a.Connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		return do(c.Context(), cl, args[0])
	}
}
