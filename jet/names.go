package jet

import (
	"strconv"
	"strings"

	"millrace/events"
	"millrace/node"
	"millrace/task"
)

// Names of streams and buckets.
const (
	LogStream    = "MR_LOG"     // every fact, and the timers
	OutputStream = "MR_TASKLOG" // what tasks print
	DataStream   = "MR_DATA"    // what tasks produce
	JobsBucket   = "MR_JOBS"    // definitions, with history
	NodesBucket  = "MR_NODES"   // heartbeats, with a TTL
)

// Subjects. Each is literal per task or node, which is what makes the
// compare-and-set on a chain airtight on any number of replicas.
const (
	queuePrefix  = "mr.queue."   // mr.queue.<queue>.<priority>.<task>: offers; of a node's own route if <queue> is @<node>
	holdPrefix   = "mr.hold."    // mr.hold.<task>: births that cannot run yet
	timerPrefix  = "mr.timer."   // mr.timer.<task>: message schedules of offers
	chainPrefix  = "mr.task."    // mr.task.<task>: transitions
	nodePrefix   = "mr.node."    // mr.node.<node>: transitions
	jobPrefix    = "mr.job."     // mr.job.<job>: changes of its definition
	deadPrefix   = "mr.dead."    // mr.dead.<sequence>: what became of a message that nobody can read
	breakPrefix  = "mr.breaker." // mr.breaker.<job>: transitions of its breaker
	outputPrefix = "mr.tasklog." // mr.tasklog.<task>: output lines
	dataPrefix   = "mr.data."    // mr.data.<task>: records
	hintPrefix   = "mr.hint."    // mr.hint.<node>: core messages, "look at this task"
)

func offerSubject(r task.Route, id task.ID) string { return queuePrefix + string(r) + "." + string(id) }

// chainSubject is where the transitions of what the fact is about lie.
func chainSubject(f *events.Fact) string {
	switch {
	case f.Task != "":
		return chainPrefix + string(f.Task)
	case f.Node != "":
		return nodePrefix + string(f.Node)
	case f.Message != 0:
		return deadPrefix + strconv.FormatUint(f.Message, 10)
	}
	if _, ok := f.Event.(task.BreakerEvent); ok {
		return breakPrefix + f.Job
	}
	return jobPrefix + f.Job
}

// place reads a subject: what kind of record lies there, and what it is about.
func place(subject string) (kind events.Kind, about events.Fact) {
	switch {
	case strings.HasPrefix(subject, chainPrefix):
		return events.KindChain, events.Fact{Task: task.ID(subject[len(chainPrefix):])}
	case isProbe(subject):
		return events.KindProbe, about
	case strings.HasPrefix(subject, queuePrefix):
		return events.KindOffer, events.Fact{Task: task.ID(subject[strings.LastIndexByte(subject, '.')+1:])}
	case strings.HasPrefix(subject, holdPrefix):
		return events.KindHold, events.Fact{Task: task.ID(subject[len(holdPrefix):])}
	case strings.HasPrefix(subject, nodePrefix):
		return events.KindNode, events.Fact{Node: node.ID(subject[len(nodePrefix):])}
	case strings.HasPrefix(subject, jobPrefix):
		return events.KindJob, events.Fact{Job: subject[len(jobPrefix):]}
	case strings.HasPrefix(subject, breakPrefix):
		return events.KindBreaker, events.Fact{Job: subject[len(breakPrefix):]}
	case strings.HasPrefix(subject, deadPrefix):
		seq, _ := strconv.ParseUint(subject[len(deadPrefix):], 10, 64) // 0 is no fact's
		return events.KindDead, events.Fact{Message: seq}
	}
	return events.KindOther, about
}

// probeToken stands where an offer has its task. No task has such an id.
const probeToken = ".probe"

// probeSubject is where a node puts what proves that its own route reaches it.
// It is one subject for ever, so that proofs leave nothing behind in the server.
func probeSubject(id node.ID) string {
	return queuePrefix + id.Queue() + "." + strconv.Itoa(task.DefaultPriority) + probeToken
}

func isProbe(subject string) bool {
	return strings.HasPrefix(subject, queuePrefix+"@") && strings.HasSuffix(subject, probeToken)
}

// nodeConsumerPrefix begins the name of the consumer of a node's own route.
const nodeConsumerPrefix = "MR_NODE_"

func nodeConsumer(id node.ID) string { return nodeConsumerPrefix + string(id) }

// consumerName is the durable consumer of a queue, shared by all who serve it, or
// the one of a node's own route.
func consumerName(queue string) string {
	if node, own := task.NodeOf(queue); own {
		return nodeConsumerPrefix + node
	}
	return "queue_" + queue
}
