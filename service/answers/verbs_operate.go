package answers

import (
	"millrace/events/jet/rights"
	"millrace/service/client"
	"millrace/task/node"
)

// nodeVerbs give orders to nodes.
var nodeVerbs = []*Endpoint{
	on(rights.NodeDrain, `no new work, and what runs ends or is given back: {"id":"node-1","reason":"…","grace":"1m"}`, (*Service).drain, ordered...).at("POST /nodes/{id}/drain").typed(&Command{
		Use: "node drain NAME", Short: "Take all work from a node; its worker stays up",
		Long: `Gives a node no new work, lets its running tasks end, gives back the rest at the
end of the grace time, and waits until no task runs. The worker stays up. The drain
survives restarts of the worker and lasts until "millrace node undrain".`,
	}).button(Button{
		Why:  "The node takes no new work. What runs may end, or goes back to its queue. This holds over restarts of the worker.",
		Asks: []Asked{{Name: "grace", Label: "Grace period, such as 10m"}}, Has: underOrder(node.OrderServe),
	}),
	on(rights.NodeUndrain, `take work again: {"id":"node-1"}`, order(node.OrderServe), ordered...).at("POST /nodes/{id}/undrain").typed(&Command{
		Use: "node undrain NAME", Short: "Let a node take work again after a drain",
	}).button(Button{Why: "The node takes work again.", Has: underOrder(node.OrderDrain)}),
	on(rights.NodeCordon, `no new work: {"id":"node-1","reason":"…"}`, order(node.OrderCordon), ordered...).at("POST /nodes/{id}/cordon").typed(&Command{
		Use: "node cordon NAME", Short: "Give a node no new work; what runs goes on",
		Long: `Gives a node no new work; its running tasks go on. This survives restarts of the worker
and lasts until "millrace node uncordon".`,
	}).button(Button{Why: "The node takes no new work. What runs goes on.", Has: underOrder(node.OrderServe)}),
	on(rights.NodeUncordon, `take work again: {"id":"node-1"}`, order(node.OrderServe), ordered...).at("POST /nodes/{id}/uncordon").typed(&Command{
		Use: "node uncordon NAME", Short: "Let a node take work again after a cordon",
	}).button(Button{Why: "The node takes work again.", Has: underOrder(node.OrderCordon)}),
	on(rights.NodeLabel, `change labels of a node, null removes one: {"id":"node-1","labels":{"zone":"eu","gpu":null}}`, (*Service).labelNode, ordered...).at("POST /nodes/{id}/label").typed(&Command{
		Use: "node label NAME [KEY=VALUE|KEY-]...", Short: "Change labels of a node, by which tasks choose it",
		Long: `Changes labels of a node: KEY=VALUE sets one, KEY- removes it. The change survives restarts of
the worker, whatever labels it is started with. Tasks that wait for such a label start at
once; running tasks go on.`,
		Example: `  millrace node label crawler-7 zone=eu gpu- --reason "moved"`,
		Line:    "labels",
	}).button(Button{
		Why: "null removes a label.", Asks: []Asked{{Name: "labels", Label: "Changes, as JSON", Long: true, Is: func(any) string { return `{"zone":"eu"}` }}},
	}),
	on(rights.NodeRelease, `end a quarantine: {"id":"node-1"}`, changing((*client.Client).ReleaseNode), ordered...).at("POST /nodes/{id}/release").typed(&Command{
		Use: "node release NAME", Short: "End a node's quarantine and forget how often it came and went",
	}).button(Button{Why: "The quarantine ends now.", Has: when(func(n *client.NodeView) bool { return n.Quarantine != nil })}),
	on(rights.NodeRetire, `say that a node does not come back: {"id":"node-1","reason":"…"}`, changing((*client.Client).RetireNode), ordered...).at("POST /nodes/{id}/retire").typed(&Command{
		Use: "node retire NAME", Aliases: []string{"rm"}, Short: "Record that a node will not come back",
		Long: `Records that a node will not come back, and removes what the NATS server holds for it,
except its history. Its worker must have ended. A worker that starts under this name later
registers as a new node.`,
		Reason: "retired by an operator",
	}).button(Button{
		Why: "The node does not come back. Tasks that only it could run end.", Has: when(func(n *client.NodeView) bool { return n.State == node.Offline }),
	}),
}

// underOrder is for buttons of nodes that have this order.
func underOrder(o node.Order) func(any) bool {
	return when(func(n *client.NodeView) bool { return n.Standing.Order == o })
}

// queueVerbs say whether queues flow.
var queueVerbs = []*Endpoint{
	on(rights.QueuePause, `start nothing of a queue: {"queue":"crawl","reason":"…","for":"1h"}`, (*Service).pauseQueue).at("POST /queues/{queue}/pause").typed(&Command{
		Use: "queue pause NAME", Short: "Start no task of a queue; running tasks go on",
		Long: `Starts no task of a queue, on any node, until "millrace queue resume" or for a while
(--for). Running tasks go on, and tasks can be submitted. A waiting task keeps its own pending
timeout, but the start deadline for queues without nodes does not apply.`,
	}).button(Button{
		Why: "No task of the queue starts. What runs goes on.", Asks: []Asked{{Name: "for", Label: "For, such as 1h; empty: until resumed"}},
		Has: when(func(q *client.QueueView) bool { return q.Paused == nil }),
	}),
	on(rights.QueueResume, `end a pause: {"queue":"crawl"}`, (*Service).resumeQueue).at("POST /queues/{queue}/resume").typed(&Command{
		Use: "queue resume NAME", Short: "Start the tasks of a queue again after a pause",
	}).button(Button{Why: "Its tasks start again.", Has: when(func(q *client.QueueView) bool { return q.Paused != nil })}),
}
