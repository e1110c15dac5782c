package job

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// Queues is millrace queue.
func (a *Commands) Queues() *cobra.Command {
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
	var rates bool
	return (&connect.Reading[client.QueuePage]{
		Use: "ls", Short: "List the queues; needs a millrace server",
		Then: sums, Apart: []string{"rates"}, Watch: true, Flags: ratesFlag(&rates), Request: queuesAt(&rates),
		Table: queueList.Table, Names: queueList.Names, Called: "names", JSON: shownQueues,
	}).Command(a.App)
}

// sums is a past moment's request about queues and limits: tasks are counted. What consumers hold
// is not recorded.
var sums = connect.Then{Lacks: []string{"offers by priority", "leases", "rates measured"}}

// queuesAt asks a server for the queue of a name, or for all.
func queuesAt(rates *bool) func(context.Context, *client.Client, string, connect.Question) (client.QueuePage, error) {
	return func(ctx context.Context, cl *client.Client, name string, q connect.Question) (client.QueuePage, error) {
		return cl.Queues(ctx, client.QueueListRequest{Queue: name, Rates: *rates, At: q.At, AtLeast: q.AtLeast})
	}
}

// queueThen is a queue of the past in JSON, without what is not recorded.
type queueThen struct {
	client.QueueView
	Waiting *struct{} `json:"waiting,omitempty"`
	Leased  *struct{} `json:"leased,omitempty"`
}

// shownQueues is a page of queues in JSON.
func shownQueues(page client.QueuePage, s *connect.Sight) any {
	if s.Past == nil {
		return page
	}
	then := make([]queueThen, len(page.Queues))
	for i := range page.Queues {
		then[i].QueueView = page.Queues[i]
	}
	return struct {
		Queues []queueThen `json:"queues"`
		Seq    uint64      `json:"seq"`
	}{then, page.Seq}
}

// ratesFlag adds --rates, which must measure, and so takes time.
func ratesFlag(rates *bool) func(*cobra.Command) {
	return func(c *cobra.Command) {
		c.Flags().BoolVar(rates, "rates", false, "also how many tasks come and go in a second; takes half a second")
	}
}

var queueList = connect.List[client.QueuePage, client.QueueView]{
	Of:      func(page client.QueuePage) []client.QueueView { return page.Queues },
	Columns: func(s *connect.Sight) []term.Column[client.QueueView] { return wording.QueueColumns(s.Now()) },
	Foot: func(page client.QueuePage, s *connect.Sight) []string {
		foot := []string{fmt.Sprintf("%s, as of sequence %d", wording.Plural(len(page.Queues), "queue"), page.Seq)}
		for i := range page.Queues {
			if u := page.Queues[i].Unserved; u != nil {
				foot = append(foot, wording.Unserved(u, "of queue "+page.Queues[i].Name, s.Now()))
			}
		}
		return append(foot, wording.UnservedNodes(page.UnservedNodes, s.Now())...)
	},
}

func (a *Commands) queueShow() *cobra.Command {
	var rates bool
	return (&connect.Reading[client.QueueView]{
		Use: "show NAME", Short: "Print a queue; needs a millrace server",
		Of: "queue", Complete: a.CompleteQueues, Valid: validQueue,
		Then: sums, Apart: []string{"rates"}, Flags: ratesFlag(&rates),
		Request: func(ctx context.Context, cl *client.Client, name string, q connect.Question) (client.QueueView, error) {
			page, err := queuesAt(&rates)(ctx, cl, name, q)
			return client.OneOf(page, name, err)
		},
		Table: queueFields,
		JSON: func(q client.QueueView, s *connect.Sight) any {
			if s.Past != nil {
				return queueThen{QueueView: q}
			}
			return q
		},
	}).Command(a.App)
}

func queueFields(q client.QueueView, s *connect.Sight) term.Table {
	var out term.Table
	now := s.Now()
	state := wording.QueueState(&q)
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
		out.Field("in a second", wording.Words("in "+wording.PerSecond(q.In), "out "+wording.PerSecond(q.Out)))
	}
	out.Field("limit", queue.Limited{Running: q.Limit, Waiting: q.MaxWaiting}.Words())
	out.Field("window", q.Window)
	for i := range q.Notify {
		out.Field("tells", q.Notify[i].Words())
	}
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

// validQueue refuses what cannot be the name of a queue.
func validQueue(name string) error { return value.ValidName("queue", name) }
