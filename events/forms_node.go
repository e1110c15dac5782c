package events

import (
	"fmt"
	"slices"
	"time"

	"millrace/node"
	"millrace/task"
)

var nodeForms = []form{
	formOf(NodeRegistered, aboutNode, slices.Concat([]field[node.Registered]{
		text("session", func(e *node.Registered) *string { return &e.Session }),
	}, of(func(e *node.Registered) *node.Profile { return &e.Profile },
		text("host", func(p *node.Profile) *string { return &p.Host }),
		number("pid", func(p *node.Profile) *int { return &p.PID }),
		text("version", func(p *node.Profile) *string { return &p.Version }),
		table("labels", func(p *node.Profile) *map[string]string { return &p.Labels }),
		number("slots", func(p *node.Profile) *int { return &p.Slots }),
		list("queues", func(p *node.Profile) *[]string { return &p.Queues }),
		truth("probes", func(p *node.Profile) *bool { return &p.Probes }),
		truth("announces", func(p *node.Profile) *bool { return &p.Announces }),
		list("handlers", func(p *node.Profile) *[]string { return &p.Handlers }),
		truth("commands", func(p *node.Profile) *bool { return &p.Commands }),
		span("ttl", func(p *node.Profile) *task.Duration { return &p.TTL }),
	), []field[node.Registered]{
		moment("until", func(e *node.Registered) *time.Time { return &e.Until }),
	})...),
	formOf(NodeOnline, aboutNode,
		text("session", func(e *node.WentOnline) *string { return &e.Session }),
		text("reason", func(e *node.WentOnline) *string { return &e.Reason }),
		sequence("connection", func(e *node.WentOnline) *uint64 { return &e.Connection }),
	),
	formOf(NodeReady, aboutNode,
		text("session", func(e *node.BecameReady) *string { return &e.Session }),
		text("reason", func(e *node.BecameReady) *string { return &e.Reason }),
		sequence("connection", func(e *node.BecameReady) *uint64 { return &e.Connection }),
		span("took", func(e *node.BecameReady) *task.Duration { return &e.Took }),
		number("kept", func(e *node.BecameReady) *int { return &e.Kept }),
		number("stopped", func(e *node.BecameReady) *int { return &e.Stopped }),
		sequence("low", func(e *node.BecameReady) *uint64 { return &e.Low }),
		sequence("lanes_low", func(e *node.BecameReady) *uint64 { return &e.LanesLow }),
	),
	formOf(NodeDraining, aboutNode,
		text("session", func(e *node.Drained) *string { return &e.Session }),
		text("reason", func(e *node.Drained) *string { return &e.Reason }),
	),
	formOf(NodeOffline, aboutNode,
		text("session", func(e *node.WentOffline) *string { return &e.Session }),
		text("reason", func(e *node.WentOffline) *string { return &e.Reason }),
		truth("lost", func(e *node.WentOffline) *bool { return &e.Lost }),
		sequence("low", func(e *node.WentOffline) *uint64 { return &e.Low }),
		sequence("lanes_low", func(e *node.WentOffline) *uint64 { return &e.LanesLow }),
	),
	checked(NodeChanged, aboutNode, func(e *node.Changed) error {
		if e.Order > node.OrderDrain {
			return fmt.Errorf("there is no %s", e.Order)
		}
		return nil
	},
		always("order", func(e *node.Changed) *node.Order { return &e.Order }), // that nothing is asked any more is the fact
		text("reason", func(e *node.Changed) *string { return &e.Reason }),
		span("grace", func(e *node.Changed) *task.Duration { return &e.Grace }),
	),
	formOf(NodeQuarantined, aboutNode,
		text("reason", func(e *node.WasQuarantined) *string { return &e.Reason }),
		moment("until", func(e *node.WasQuarantined) *time.Time { return &e.Until }),
	),
	formOf(NodeReleased, aboutNode, text("reason", func(e *node.WasReleased) *string { return &e.Reason })),
	formOf(NodeRetired, aboutNode, text("reason", func(e *node.WasRetired) *string { return &e.Reason })),
	formOf(NodeLabelled, aboutNode,
		always("labels", func(e *node.Labelled) *map[string]*string { return &e.Labels }), // null takes one away
		text("reason", func(e *node.Labelled) *string { return &e.Reason }),
	),
}
