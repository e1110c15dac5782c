package jet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/definition"
)

// Names of streams and buckets.
const (
	LogStream    = "MR_LOG"     // every fact
	TimerStream  = "MR_TIMER"   // timers, and what has fired until the log has it
	OutputStream = "MR_TASKLOG" // what tasks print
	DataStream   = "MR_DATA"    // what tasks produce
	StateStream  = "MR_STATE"   // how tasks stand, and their checkpoints
	DefsBucket   = "MR_DEFS"    // copies of definitions, for people, with history
	NodesBucket  = "MR_NODES"   // heartbeats, with a TTL
	FilesStream  = "MR_FILES"   // contents of files, by digest
)

// Subjects. Each is literal per task or node, which is what makes the
// compare-and-set on a chain airtight on any number of replicas.
const (
	queuePrefix      = "mr.queue."        // mr.queue.<queue>.<priority>.<task>: offers, those that timers bring at mr.queue.<queue>.<priority>.due.<task>; of a node's own route if <queue> is @<node>, of a selector's if it is ~<hash>; see lanePrefix
	holdPrefix       = "mr.hold."         // mr.hold.<task>: births that cannot run yet
	timerPrefix      = "mr.timer."        // mr.timer.<task>: message schedules that refer to turns of tasks
	duePrefix        = "mr.due."          // mr.due.<queue>.<priority>.<task>, mr.due.<schedule>: what has fired, on its way to the log
	chainPrefix      = "mr.task."         // mr.task.<task>: transitions
	nodePrefix       = "mr.node."         // mr.node.<node>: transitions
	defPrefix        = "mr.def."          // mr.def.<kind>.<name>: changes of a definition
	keyPrefix        = "mr.unique."       // mr.unique.<hash>: claims of a unique key
	admitPrefix      = "mr.admit."        // mr.admit.<scope>: admissions by the limits of a scope
	copiesSubject    = "mr.copies"        // copies of definitions that were set back, all on one subject
	deadPrefix       = "mr.dead."         // mr.dead.<sequence>: what became of a message that nobody can read
	breakPrefix      = "mr.breaker."      // mr.breaker.<job>: transitions of its breaker
	statePrefix      = "mr.queue_state."  // mr.queue_state.<queue>: what operators have said of it
	cronPrefix       = "mr.cron."         // mr.cron.<schedule>: the message schedule of its next fire
	firePrefix       = "mr.fire."         // mr.fire.<schedule>: its fires, which the server writes
	tickPrefix       = "mr.tick."         // mr.tick.<schedule>: what was decided on its ticks
	outputPrefix     = "mr.tasklog."      // mr.tasklog.<task>: output lines
	dataPrefix       = "mr.data."         // mr.data.<task>: records
	livePrefix       = "mr.live."         // mr.live.<task>: how it stands
	ranPrefix        = "mr.ran."          // mr.ran.<hash>: where the last task of a job or key has started
	checkpointPrefix = "mr.checkpoint."   // mr.checkpoint.<task>: what its next attempt goes on from
	selectorPrefix   = "mr.selector."     // mr.selector.<hash>: what the route of a selector stands for
	laneWordPrefix   = "mr.lane_state."   // mr.lane_state.<queue>.<priority>.<number>: a special lane, and who uses it
	logProbe         = "mr.probe"         // what proves that the log takes messages; servers remove all but the last few
	dueProbe         = "mr.due.log.probe" // what the log sources as a probe: see [Marks]
	hintPrefix       = "mr.hint."         // mr.hint.<node>: core messages, "look at this task"
	lanesPrefix      = "mr.lanes."        // mr.lanes.<queue>: core messages, "it has one lane more"
	schedulersWord   = "mr.schedulers"    // core messages, "+<name>" and "-<name>": a scheduler is here, or goes
	pingPrefix       = "mr.ping."         // mr.ping.<node>: core requests, which its process answers
)

// offerSubject is where an offer lies. What asks for nothing special lies where each
// version has looked for it; other lanes have a name of their own, which no queue can have,
// in place of the queue's.
func offerSubject(w *task.Work, id task.ID) string {
	if l := w.Lane(); special(l) {
		return lanePrefix(l) + string(id)
	}
	return queuePrefix + string(w.Route) + "." + string(id)
}

// special tells whether offers of a lane have a consumer of their own.
func special(l task.Lane) bool {
	if _, own := task.NodeOf(l.Queue); own {
		return false // the node orders what lies there
	}
	return !l.Plain() && (task.IsSelectorQueue(l.Queue) || task.ValidQueue(l.Queue) == nil)
}

// laneSign parts a queue's name and the number of a lane in subjects.
const laneSign = "~"

// lanePrefix begins the subjects of a special lane.
func lanePrefix(l task.Lane) string {
	return queuePrefix + l.Queue + laneSign + strconv.Itoa(l.Number) + "." + strconv.Itoa(l.Priority) + "."
}

// laneFilter is what the consumer of a lane takes.
func laneFilter(l task.Lane) string {
	if special(l) {
		return lanePrefix(l) + ">"
	}
	return queuePrefix + l.Queue + ".>"
}

// routeAt reads the subject of an offer: the route that lies there, whatever the lane, and the task. It
// is false for a subject at which no offer can lie.
func routeAt(subject string) (task.Route, task.ID, bool) {
	tokens := strings.Split(strings.TrimPrefix(subject, queuePrefix), ".")
	if len(tokens) == 4 && tokens[2] == firedToken {
		tokens = slices.Delete(tokens, 2, 3)
	}
	if len(tokens) != 3 {
		return "", "", false
	}
	queue, priority := tokens[0], tokens[1]
	if at := strings.LastIndex(queue, laneSign); at > 0 { // at 0 it is the mark of a selector
		queue = queue[:at]
	}
	route := task.Route(queue + "." + priority)
	return route, task.ID(tokens[2]), route.Validate() == nil
}

// firedToken stands before the task in an offer that a timer has brought. So the NATS server, which after a crash
// looks for the last of them, need not look at births: see [Marks].
const firedToken = "due"

// laneConsumerPrefix begins the names of the consumers of special lanes.
const laneConsumerPrefix = "lane_"

// laneConsumer is the consumer of a lane, shared by all who serve its queue.
func laneConsumer(l task.Lane) string {
	if !special(l) {
		return consumerName(l.Queue)
	}
	return fmt.Sprintf("%s%02d_%02d_%s", laneConsumerPrefix, l.Priority, l.Number, l.Queue)
}

// laneOf is the reverse of laneConsumer for special lanes.
func laneOf(consumer string) (l task.Lane, ok bool) {
	rest, ok := strings.CutPrefix(consumer, laneConsumerPrefix)
	if !ok || len(rest) < 7 {
		return l, false
	}
	priority, err := strconv.Atoi(rest[:2])
	number, err2 := strconv.Atoi(rest[3:5])
	l = task.Lane{Queue: rest[6:], Priority: priority, Number: number}
	return l, err == nil && err2 == nil && laneConsumer(l) == consumer
}

// chainSubject is where the transitions of what the fact is about lie.
func chainSubject(f *events.Fact) string {
	switch {
	case f.Task != "":
		return chainPrefix + string(f.Task)
	case f.Node != "":
		return nodePrefix + string(f.Node)
	case f.Queue != "":
		return statePrefix + f.Queue
	case f.Def != "":
		return defSubject(f.Def)
	case f.Schedule != "":
		return tickPrefix + f.Schedule
	case f.Job != "":
		return breakPrefix + f.Job
	case f.Key != "":
		return uniqueSubject(f.Key)
	case f.Message != 0:
		return deadPrefix + strconv.FormatUint(f.Message, 10)
	case f.Scope != "":
		return admitPrefix + string(f.Scope)
	}
	return copiesSubject
}

// defSubject is where the changes of a definition lie.
func defSubject(d definition.Def) string { return defPrefix + string(d) }

func uniqueSubject(key string) string { return keyPrefix + task.KeyMark(key) }

// place reads a subject: what kind of record lies there, and what it is about.
func place(subject string) (kind events.Kind, about events.Fact) {
	switch {
	case strings.HasPrefix(subject, chainPrefix):
		return events.KindChain, events.Fact{Task: task.ID(subject[len(chainPrefix):])}
	case isProbe(subject), subject == logProbe:
		return events.KindProbe, about
	case strings.HasPrefix(subject, queuePrefix):
		return events.KindOffer, events.Fact{Task: task.ID(subject[strings.LastIndexByte(subject, '.')+1:])}
	case strings.HasPrefix(subject, holdPrefix):
		return events.KindHold, events.Fact{Task: task.ID(subject[len(holdPrefix):])}
	case strings.HasPrefix(subject, nodePrefix):
		return events.KindNode, events.Fact{Node: node.ID(subject[len(nodePrefix):])}
	case strings.HasPrefix(subject, defPrefix):
		return events.KindDefinition, events.Fact{Def: definition.Def(subject[len(defPrefix):])}
	case strings.HasPrefix(subject, statePrefix):
		return events.KindQueue, events.Fact{Queue: subject[len(statePrefix):]}
	case strings.HasPrefix(subject, keyPrefix):
		return events.KindKey, about
	case strings.HasPrefix(subject, admitPrefix):
		return events.KindLimit, events.Fact{Scope: task.Scope(subject[len(admitPrefix):])}
	case subject == copiesSubject:
		return events.KindCopies, about
	case strings.HasPrefix(subject, breakPrefix):
		return events.KindBreaker, events.Fact{Job: subject[len(breakPrefix):]}
	case strings.HasPrefix(subject, firePrefix):
		return events.KindFire, events.Fact{Schedule: subject[len(firePrefix):]}
	case strings.HasPrefix(subject, tickPrefix):
		return events.KindTick, events.Fact{Schedule: subject[len(tickPrefix):]}
	case strings.HasPrefix(subject, deadPrefix):
		seq, _ := strconv.ParseUint(subject[len(deadPrefix):], 10, 64) // 0 is no fact's
		return events.KindDead, events.Fact{Message: seq}
	}
	return events.KindOther, about
}

// probeToken stands where an offer has its task. No task has such an id.
const probeToken = ".probe"

// probeSubject is where a node puts what proves that its own route reaches it.
// It is one subject for ever: see [Store.TidyProbes].
func probeSubject(id node.ID) string {
	return queuePrefix + id.Queue() + "." + strconv.Itoa(task.DefaultPriority) + probeToken
}

// anyProbe are the probes of all nodes.
const anyProbe = queuePrefix + "*.*" + probeToken

func isProbe(subject string) bool {
	return strings.HasPrefix(subject, queuePrefix+"@") && strings.HasSuffix(subject, probeToken)
}

// nodeConsumerPrefix begins the name of the consumer of a node's own route.
const nodeConsumerPrefix = "MR_NODE_"

func nodeConsumer(id node.ID) string { return nodeConsumerPrefix + string(id) }

// selectorConsumerPrefix begins the name of the consumer of a selector's route.
const selectorConsumerPrefix = "MR_SELECT_"

// consumerName is the durable consumer of a queue or of a selector's route, shared by
// all who serve it, or the one of a node's own route.
func consumerName(queue string) string {
	if node, own := task.NodeOf(queue); own {
		return nodeConsumerPrefix + node
	}
	if task.IsSelectorQueue(queue) {
		return selectorConsumerPrefix + queue[1:]
	}
	return "queue_" + queue
}
