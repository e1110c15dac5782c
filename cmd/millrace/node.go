package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/view"
)

func (a *app) nodeCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "node", Aliases: []string{"nodes", "n"},
		Short: "Nodes: the workers that run tasks",
	})
	c.AddCommand(a.nodeList(), a.nodeShow(), a.nodeEvents(), a.nodePing(), a.nodeWait(),
		a.nodeOrder("drain", node.OrderDrain), a.nodeOrder("undrain", node.OrderServe),
		a.nodeOrder("cordon", node.OrderCordon), a.nodeOrder("uncordon", node.OrderServe),
		a.nodeLabel(), a.nodeRelease(), a.nodeRetire())
	return c
}

func (a *app) nodeList() *cobra.Command {
	var o output
	var names, watch bool
	var at string
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the nodes; needs a millrace server", Args: takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	watchFlag(c, &watch)
	atFlag(c.Flags(), &at)
	o.flags(c)
	c.MarkFlagsMutuallyExclusive("at", "watch")
	c.RunE = a.momentFlag(&at, a.online(func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := a.sight(ctx, cl, at, whole, notBeating)
		if err != nil {
			return err
		}
		rules, err := a.nodeRules()
		if err != nil {
			return err
		}
		look := func(ctx context.Context) (client.NodePage, error) {
			if s.past != nil {
				return client.NodesOf(ctx, s.view, s.now(), rules)
			}
			page, err := cl.Nodes(ctx, client.NodeListRequest{})
			if page.Nodes == nil {
				page.Nodes = []client.NodeView{}
			}
			return page, err
		}
		if names {
			asking, cancel := a.asking(ctx)
			defer cancel()
			page, err := look(asking)
			for _, n := range page.Nodes {
				fmt.Fprintln(a.out, n.ID)
			}
			return err
		}
		return a.show(ctx, watch, &o, func(ctx context.Context) (frame, error) {
			page, err := look(ctx)
			t := nodeTable(&page, &s)
			s.mark(&t, a.now())
			return frame{table: t, json: struct {
				client.NodePage
				At *shownPoint `json:"at,omitempty"`
			}{page, s.past}}, err
		})
	}))
	return c
}

// notBeating is what the log does not tell of a node.
const notBeating = "heartbeats"

// nodeTable lays the nodes out.
func nodeTable(page *client.NodePage, s *sight) table {
	now := s.now()
	t := table{
		header: []string{"NODE", "STATE", "SINCE", "BUSY", "QUEUES", "BEAT", "ONLINE", "READY", "SESSIONS", "MEAN", "FLAP", "VERSION", "LABELS", "REASON"},
		spare:  []string{"MEAN", "FLAP", "SESSIONS", "ONLINE", "READY", "VERSION", "LABELS", "BEAT", "QUEUES"},
	}
	for i := range page.Nodes {
		n := &page.Nodes[i]
		beat := "none"
		switch {
		case s.past != nil:
			beat = "not recorded"
		case !n.LastBeat.IsZero():
			beat = age(n.LastBeat, now) + " ago"
		}
		mean := ""
		if n.MeanSession > 0 {
			mean = span(n.MeanSession.Std())
		}
		reason := n.Reason
		if n.Standing.Order == node.OrderCordon {
			reason = words(n.Standing.Words(), reason)
		}
		flap := ""
		if n.Score > 0 {
			flap = fmt.Sprintf("%.1f", n.Score)
		}
		t.add(plain(string(n.ID)), stateOf(n), plain(age(n.Since, now)), plain(fmt.Sprintf("%d/%d", n.Running, n.Slots)),
			plain(strings.Join(n.Queues, ",")), plain(beat), plain(age(n.OnlineSince, now)), plain(age(n.ReadySince, now)),
			plain(fmt.Sprint(n.Sessions)), plain(mean), plain(flap), plain(n.Version), plain(pairs(n.Labels)), plain(reason))
	}
	t.foot = []string{fmt.Sprintf("%s, as of sequence %d", plural(len(page.Nodes), "node"), page.Seq)}
	return t
}

// onNode makes what runs a command that is given one node's name.
func (a *app) onNode(do func(ctx context.Context, cl *client.Client, id node.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		id := node.ID(args[0])
		if err := id.Validate(); err != nil {
			return misuse(c, "%w", err)
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		if err = do(c.Context(), cl, id); errors.Is(err, node.ErrUnknown) {
			asking, cancel := a.asking(c.Context())
			defer cancel()
			return orMeant(err, string(id), nodeNames(asking, cl))
		}
		return err
	}
}

// nodeRules are the numbers by which it is said what must happen to a node.
func (a *app) nodeRules() (node.Settings, error) {
	profile := profileProd
	if a.dev {
		profile = profileDev
	}
	s, _, err := a.loadSettings(nil, profile)
	return node.Settings{TTL: s.NodeTTL}, err
}

func (a *app) nodeShow() *cobra.Command {
	var o output
	var at string
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info"},
		Short: "Print all that is known of a node, from the log",
		Args:  takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
	}
	atFlag(c.Flags(), &at)
	o.flags(c)
	c.RunE = a.momentFlag(&at, a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		s, err := a.sight(ctx, cl, at, whole, notBeating)
		if err != nil {
			return err
		}
		asking, cancel := a.asking(ctx)
		defer cancel()
		records, err := nodeFacts(asking, s.view, id)
		if err != nil {
			return s.unknown(err)
		}
		rules, err := a.nodeRules()
		if err != nil {
			return err
		}
		v := client.ViewNode(events.FoldNode(id, records), s.now(), rules)
		if err := busy(asking, cl, &s, &v); err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(struct {
				client.NodeView
				At *shownPoint `json:"at,omitempty"`
			}{v, s.past})
		}
		t := nodeDetails(&v, records, s.now())
		s.mark(&t, a.now())
		return a.print(t)
	}))
	return c
}

// busy adds how busy a node is, and in the present when it last beat: of that only a server knows.
func busy(ctx context.Context, cl *client.Client, s *sight, v *client.NodeView) error {
	if s.past != nil {
		running, err := client.RunsOn(ctx, s.view, v.ID)
		v.Runs(running)
		return err
	}
	page, err := cl.Nodes(ctx, client.NodeListRequest{AtLeast: v.Head})
	if err != nil && !errors.Is(err, jet.ErrNoService) {
		return err
	}
	for _, n := range page.Nodes {
		if n.ID == v.ID {
			v.Runs(n.Running)
			v.LastBeat, v.Silent = n.LastBeat, n.Silent
		}
	}
	return nil
}

// nodeFacts reads the facts of a node, of which there must be some.
func nodeFacts(ctx context.Context, v view.View, id node.ID) ([]events.Record, error) {
	records, err := view.All(ctx, v, view.Node(id))
	if err == nil && len(records) == 0 {
		err = fmt.Errorf("node %q: %w", id, node.ErrUnknown)
	}
	return records, err
}

// maxNodeFacts is how many of a node's latest facts are shown.
const maxNodeFacts = 10

func nodeDetails(n *client.NodeView, records []events.Record, now time.Time) table {
	t := table{title: "Node " + string(n.ID), foot: []string{fmt.Sprintf("as of sequence %d", n.Head)}}
	t.add(dim("state"), stateOf(n))
	t.field("reason", n.Reason)
	t.field("since", moment(n.Since, now))
	t.field("next", n.Next.Who+": "+n.Next.What)
	t.field("by", moment(n.Next.By, now))
	t.field("otherwise", n.Next.Else)
	t.field("order", words(n.Standing.Words(), by("since", n.Standing.Since)))
	t.field("online", moment(n.OnlineSince, now))
	t.field("ready", words(moment(n.ReadySince, now), tookText(n.Took), attemptsText("kept", n.Kept), attemptsText("stopped", n.Stopped)))
	t.field("last beat", moment(n.LastBeat, now))
	t.field("started", moment(n.Started, now))
	t.field("session", n.Session)
	if n.Sessions > 0 {
		mean := ""
		if n.MeanSession > 0 {
			mean = "mean " + span(n.MeanSession.Std())
		}
		t.field("sessions", words(fmt.Sprint(n.Sessions), mean, fmt.Sprintf("%d cut short", n.Short), fmt.Sprintf("flap score %.1f", n.Score)))
	}
	t.field("host", n.Host)
	if n.PID > 0 {
		t.field("process", fmt.Sprint(n.PID))
	}
	t.field("version", n.Version)
	t.field("queues", strings.Join(n.Queues, ", "))
	t.field("labels", pairs(n.Labels))
	t.field("slots", fmt.Sprintf("%d, %d of them busy", n.Slots, n.Running))
	name := "latest facts"
	for _, r := range records[max(len(records)-maxNodeFacts, 0):] {
		t.field(name+" ", nodeFact(&r))
		name = ""
	}
	return t
}

func nodeFact(r *events.Record) string {
	return fmt.Sprintf("#%d %s %s (%s)", r.Seq, clock(factTime(r)), factType(r), factDetails(r))
}

func (a *app) nodeEvents() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "events NAME", Aliases: []string{"history"}, Short: "Print the facts of a node",
		Args: takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
	}
	o.flags(c)
	c.RunE = a.onNode(func(ctx context.Context, cl *client.Client, id node.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		records, err := nodeFacts(asking, cl.View(), id)
		if err != nil {
			return err
		}
		if o.json() {
			return a.writeJSON(showFacts(records))
		}
		t := table{header: []string{"SEQ", "TIME", "FACT", "BY", "DETAILS"}, spare: []string{"BY", "SEQ"}}
		for i := range records {
			r := &records[i]
			t.add(plain(fmt.Sprint(r.Seq)), plain(clock(factTime(r))), plain(factType(r)), plain(actor(r)), plain(factDetails(r)))
		}
		return a.print(t)
	})
	return c
}
