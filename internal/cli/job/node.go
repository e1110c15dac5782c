package job

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/node"
)

// Nodes is millrace node.
func (a *Commands) Nodes() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "node", Aliases: []string{"nodes", "n"},
		Short: "Nodes: the workers that run tasks",
	})
	c.AddCommand(a.nodeList(), a.nodeShow(), a.nodeEvents(), a.nodePing(), a.nodeWait())
	return c
}

func (a *Commands) nodeList() *cobra.Command {
	return (&connect.Reading[client.NodePage]{
		Use: "ls", Short: "List the nodes; needs a millrace server",
		Then: busyNodes, Watch: true, Request: nodesAt,
		Table: nodeList.Table, Names: nodeList.Names, Called: "names",
		JSON: func(page client.NodePage, _ *connect.Sight) any {
			page.Nodes = append([]client.NodeView{}, page.Nodes...)
			return page
		},
	}).Command(a.App)
}

// nodesAt asks a server for the nodes.
func nodesAt(ctx context.Context, cl *client.Client, _ string, q connect.Question) (client.NodePage, error) {
	return cl.Nodes(ctx, client.NodeListRequest{At: q.At, AtLeast: q.AtLeast})
}

// busyNodes is a past moment's request about nodes and their load.
var busyNodes = connect.Then{Lacks: []string{"heartbeats"}}

var nodeList = connect.List[client.NodePage, client.NodeView]{
	Of: func(page client.NodePage) []client.NodeView { return page.Nodes },
	Columns: func(s *connect.Sight) []term.Column[client.NodeView] {
		return wording.NodeColumns(s.Now(), s.Past != nil)
	},
	Foot: func(page client.NodePage, s *connect.Sight) []string {
		return append([]string{fmt.Sprintf("%s, as of sequence %d", wording.Plural(len(page.Nodes), "node"), page.Seq)}, wording.UnservedNodes(page.Unserved, s.Now())...)
	},
}

// validNode refuses what cannot be the name of a node.
func validNode(name string) error { return node.ID(name).Validate() }

// nodeRules are the numbers by which it is judged what must happen to a node.
func (a *Commands) nodeRules(ctx context.Context, cl *client.Client) (node.Settings, error) {
	rules, err := a.InForce(ctx, cl)
	return rules.Nodes(), err
}

// shownNode is a node with its facts.
type shownNode struct {
	client.NodeView
	records []events.Record
}

func (a *Commands) nodeShow() *cobra.Command {
	return (&connect.Reading[shownNode]{
		Use: "show NAME", Short: "Print a node as the log has it",
		Of: "node", Complete: a.CompleteNodes, Valid: validNode, Then: busyNodes,
		Read: a.readNode, Slow: true,
		Table: func(n shownNode, s *connect.Sight) term.Table { return nodeDetails(&n.NodeView, n.records, s.Now()) },
	}).Command(a.App)
}

// readNode reads a node from the log, and asks a server how busy it is.
func (a *Commands) readNode(ctx context.Context, cl *client.Client, s *connect.Sight, name string) (n shownNode, err error) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	list := func(least uint64) (client.NodePage, error) {
		return connect.Look(ctx, a.App, cl, s, func(ctx context.Context, q connect.Question) (client.NodePage, error) {
			q.AtLeast = max(q.AtLeast, least)
			return nodesAt(ctx, cl, name, q)
		})(asking)
	}
	if n.records, err = nodeFacts(asking, s.View, node.ID(name)); errors.Is(err, node.ErrUnknown) {
		if page, bad := list(0); bad == nil {
			err = awaited(err, name, page.Unserved, s.Now())
		}
	}
	if err != nil {
		return n, err
	}
	rules, err := a.nodeRules(ctx, cl)
	if err != nil {
		return n, err
	}
	n.NodeView = client.ViewNode(events.FoldNode(node.ID(name), n.records), s.Now(), rules)
	page, err := list(n.Head)
	if err != nil && !errors.Is(err, jet.ErrNoService) {
		return n, err
	}
	busy(&n.NodeView, page.Nodes)
	return n, nil
}

// awaited says of a node that has never registered which tasks wait for it alone.
func awaited(err error, name string, unserved []client.UnservedNode, now time.Time) error {
	for i := range unserved {
		if u := &unserved[i]; u.Node == name {
			return &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf("%w; %s for it alone since %s", err, waits(u.Tasks), wording.Moment(u.Since, now)), Hint: term.Hint("start `millrace worker --name %s`", name)}
		}
	}
	return err
}

func waits(n int) string {
	if n == 1 {
		return "1 task waits"
	}
	return fmt.Sprintf("%d tasks wait", n)
}

// busy adds how busy a node is, and in the present its last heartbeat and the task that keeps it from
// retiring, which only a server knows.
func busy(v *client.NodeView, nodes []client.NodeView) {
	for i := range nodes {
		if n := &nodes[i]; n.ID == v.ID {
			v.Runs(n.Running)
			v.LastBeat, v.Machine, v.Silent, v.KeptBy, v.Next = n.LastBeat, n.Machine, n.Silent, n.KeptBy, n.Next
		}
	}
}

// nodeFacts reads the facts of a node; none is an error.
func nodeFacts(ctx context.Context, v view.View, id node.ID) ([]events.Record, error) {
	records, err := view.All(ctx, v, view.Node(id))
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("node %q: %w", id, node.ErrUnknown)
	}
	return records, err
}

// maxNodeFacts is how many of a node's latest facts are shown.
const maxNodeFacts = 10

func nodeDetails(n *client.NodeView, records []events.Record, now time.Time) term.Table {
	t := term.Table{Title: "Node " + string(n.ID), Foot: []string{fmt.Sprintf("as of sequence %d", n.Head)}}
	t.Add(term.Dim("state"), wording.SeenState(n))
	t.Field("reason", n.Reason)
	t.Field("since", wording.Moment(n.Since, now))
	t.Field("next", n.Next.Who+": "+n.Next.What)
	t.Field("by", wording.Moment(n.Next.By, now))
	t.Field("otherwise", n.Next.Else)
	if n.Standing.Order != node.OrderServe {
		t.Field("order", wording.Words(n.Standing.Words(), wording.By("since", n.Standing.Since)))
	}
	t.Field("online", wording.Moment(n.OnlineSince, now))
	t.Field("ready", wording.Words(wording.Moment(n.ReadySince, now), wording.Took(n.Took), wording.Attempts("kept", n.Kept), wording.Attempts("stopped", n.Stopped)))
	t.Field("last beat", wording.Moment(n.LastBeat, now))
	t.Field("started", wording.Moment(n.Started, now))
	t.Field("session", n.Session)
	if n.Sessions > 0 {
		mean := ""
		if n.MeanSession > 0 {
			mean = "mean " + wording.Span(n.MeanSession.Std())
		}
		t.Field("sessions", wording.Words(fmt.Sprint(n.Sessions), mean, fmt.Sprintf("%d cut short", n.Short), fmt.Sprintf("flap score %.1f", n.Score)))
	}
	t.Field("host", n.Host)
	t.Field("processor", wording.Busy(&n.Machine))
	t.Field("memory", wording.Filled(&n.Machine))
	if n.PID > 0 {
		t.Field("process", fmt.Sprint(n.PID))
	}
	t.Field("version", n.Version)
	t.Field("queues", strings.Join(n.Queues, ", "))
	t.Field("labels", wording.Pairs(n.Labels))
	t.Field("slots", fmt.Sprintf("%d, %d of them busy", n.Slots, n.Running))
	name := "latest events"
	for _, r := range records[max(len(records)-maxNodeFacts, 0):] {
		t.Field(name+" ", nodeFact(&r))
		name = ""
	}
	return t
}

func nodeFact(r *events.Record) string {
	return fmt.Sprintf("#%d %s %s (%s)", r.Seq, wording.Clock(wording.FactTime(r)), wording.FactType(r), wording.FactDetails(r))
}

func (a *Commands) nodeEvents() *cobra.Command {
	return (&connect.Reading[[]events.Record]{
		Use: "events NAME", Aliases: []string{"history"}, Short: "Print the events of a node",
		Of: "node", Complete: a.CompleteNodes, Valid: validNode,
		Read: func(ctx context.Context, _ *client.Client, s *connect.Sight, name string) ([]events.Record, error) {
			return nodeFacts(ctx, s.View, node.ID(name))
		},
		JSON: func(records []events.Record, _ *connect.Sight) any { return client.ShowFacts(records) },
		Table: func(records []events.Record, _ *connect.Sight) term.Table {
			t := term.Table{Header: []string{"SEQ", "TIME", "EVENT", "BY", "DETAILS"}, Spare: []string{"BY", "SEQ"}}
			for i := range records {
				r := &records[i]
				t.Add(term.Plain(fmt.Sprint(r.Seq)), term.Plain(wording.Clock(wording.FactTime(r))), term.Plain(wording.FactType(r)), term.Plain(wording.Actor(r)), term.Plain(wording.FactDetails(r)))
			}
			return t
		},
	}).Command(a.App)
}
