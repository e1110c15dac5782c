package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
)

func (a *app) nodeCommand() *cobra.Command {
	c := noun(&cobra.Command{
		Use: "node", Aliases: []string{"nodes", "n"},
		Short: "Nodes: the workers that run tasks",
	})
	c.AddCommand(a.nodeList(), a.nodeShow())
	return c
}

func (a *app) nodeList() *cobra.Command {
	var o output
	var names bool
	c := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Short: "List the nodes; needs a millrace server", Args: takes(0, 0, "")}
	c.Flags().BoolVar(&names, "names", false, "print nothing but names")
	o.flags(c)
	c.RunE = func(c *cobra.Command, _ []string) error {
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		asking, cancel := a.asking(c.Context())
		defer cancel()
		page, err := cl.Nodes(asking, client.NodeListRequest{})
		if err != nil {
			return err
		}
		if page.Nodes == nil {
			page.Nodes = []client.NodeView{}
		}
		switch {
		case o.json():
			return a.writeJSON(page)
		case names:
			for _, n := range page.Nodes {
				fmt.Fprintln(a.out, n.ID)
			}
			return nil
		}
		return a.print(nodeTable(&page, a.now()))
	}
	return c
}

// nodeTable lays the nodes out.
func nodeTable(page *client.NodePage, now time.Time) table {
	t := table{header: []string{"NODE", "STATE", "SINCE", "BUSY", "QUEUES", "BEAT", "VERSION", "LABELS", "REASON"}}
	for i := range page.Nodes {
		n := &page.Nodes[i]
		beat := "none"
		if !n.LastBeat.IsZero() {
			beat = age(n.LastBeat, now) + " ago"
		}
		t.add(plain(string(n.ID)), nodeCell(n.State), plain(age(n.Since, now)), plain(fmt.Sprintf("%d/%d", n.Running, n.Slots)),
			plain(strings.Join(n.Queues, ",")), plain(beat), plain(n.Version), plain(pairs(n.Labels)), plain(n.Reason))
	}
	t.foot = []string{fmt.Sprintf("%s, as of sequence %d", plural(len(page.Nodes), "node"), page.Seq)}
	return t
}

func (a *app) nodeShow() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "show NAME", Aliases: []string{"view", "info"},
		Short: "Print all that is known of a node, from the log",
		Args:  takes(1, 1, "node"), ValidArgsFunction: a.completeNodes,
	}
	o.flags(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		id := node.ID(args[0])
		if err := id.Validate(); err != nil {
			return misuse(c, "%w", err)
		}
		cl, err := a.connect(c.Context())
		if err != nil {
			return err
		}
		defer cl.Close()
		asking, cancel := a.asking(c.Context())
		defer cancel()
		records, err := cl.Store().Node(asking, id)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			return &fault{code: exitNotFound, err: fmt.Errorf("node %q: no such node", id), hint: hint("`millrace node ls` lists the nodes there are")}
		}
		v := client.NodeView{Node: events.FoldNode(id, records)}
		// How busy it is only a server knows.
		page, err := cl.Nodes(asking, client.NodeListRequest{AtLeast: v.Head})
		if err != nil && !errors.Is(err, jet.ErrNoService) {
			return err
		}
		for _, n := range page.Nodes {
			if n.ID == id {
				v.Running, v.LastBeat = n.Running, n.LastBeat
			}
		}
		if o.json() {
			return a.writeJSON(v)
		}
		return a.print(nodeDetails(&v, records, a.now()))
	}
	return c
}

// maxNodeFacts is how many of a node's latest facts are shown.
const maxNodeFacts = 10

func nodeDetails(n *client.NodeView, records []events.Record, now time.Time) table {
	t := table{title: "Node " + string(n.ID), foot: []string{fmt.Sprintf("as of sequence %d", n.Head)}}
	t.add(dim("state"), nodeCell(n.State))
	t.field("reason", n.Reason)
	t.field("since", moment(n.Since, now))
	t.field("started", moment(n.Started, now))
	t.field("last beat", moment(n.LastBeat, now))
	t.field("session", n.Session)
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
		t.field(name+" ", fmt.Sprintf("#%d %s %s (%s)", r.Seq, clock(factTime(&r)), factType(&r), factDetails(&r)))
		name = ""
	}
	return t
}
