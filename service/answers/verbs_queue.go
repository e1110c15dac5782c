package answers

import "millrace/events/jet/rights"

// queueVerbs say whether queues flow.
var queueVerbs = []*Endpoint{
	on(rights.QueuePause, `start nothing of a queue: {"queue":"crawl","reason":"…","for":"1h"}`, (*Service).pauseQueue).at("POST /queues/{queue}/pause").typed(&Command{
		Use: "queue pause NAME", Short: "Start no task of a queue; running tasks go on",
		Long: `Starts no task of a queue, on any node, until "millrace queue resume" or for a while
(--for). Running tasks go on, and tasks can be submitted. A waiting task keeps its own pending
timeout, but the start deadline for queues without nodes does not apply.`,
	}),
	on(rights.QueueResume, `end a pause: {"queue":"crawl"}`, (*Service).resumeQueue).at("POST /queues/{queue}/resume").typed(&Command{
		Use: "queue resume NAME", Short: "Start the tasks of a queue again after a pause",
	}),
}
