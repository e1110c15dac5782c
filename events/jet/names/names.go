// Package names defines the names of everything that Millrace has on a JetStream server: streams,
// buckets, subjects, consumers. It makes and parses names, and connects to no server.
package names

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"millrace/events"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/value"
)

// Names of streams and buckets.
const (
	LogStream    = "MR_LOG"     // every fact
	TimerStream  = "MR_TIMER"   // timers, and what has fired until the log has it
	OutputStream = "MR_TASKLOG" // what tasks print
	DataStream   = "MR_DATA"    // what tasks produce
	StateStream  = "MR_STATE"   // progress of tasks, and their checkpoints
	DefsBucket   = "MR_DEFS"    // copies of definitions, for people, with history
	NodesBucket  = "MR_NODES"   // heartbeats, with a TTL
	FilesStream  = "MR_FILES"   // contents of files, by digest
)

// Subjects. Each is literal per task or node: so compare-and-set on a chain is exact on any number
// of replicas.
const (
	QueuePrefix = "mr.queue."  // mr.queue.<queue>.<priority>.<task>: offers, those that timers bring at mr.queue.<queue>.<priority>.due.<task>; of a node's own route if <queue> is @<node>, of a selector's if it is ~<hash>; see LanePrefix
	HoldPrefix  = "mr.hold."   // mr.hold.<task>: births that cannot run yet, of earlier versions
	TimerPrefix = "mr.timer."  // mr.timer.<task>: message schedules that refer to turns of tasks
	DuePrefix   = "mr.due."    // mr.due.<queue>.<priority>.<task>, mr.due.<schedule>: what has fired, on its way to the log
	ChainPrefix = "mr.task."   // mr.task.<task>: transitions
	NodePrefix  = "mr.node."   // mr.node.<node>: transitions
	DefPrefix   = "mr.def."    // mr.def.<kind>.<name>: changes of a definition
	KeyPrefix   = "mr.unique." // mr.unique.<hash>: claims of a unique key
	AdmitPrefix = "mr.admit."  // mr.admit.<scope>: admissions by the limits of a scope
	// Copies of definitions that were restored, all on one subject.
	CopiesSubject = "mr.copies"
	// Steps of the log's horizon, all on one subject.
	HorizonSubject = "mr.horizon"
	CarriedPrefix  = "mr.carried."     // mr.carried.<task>, mr.carried.<kind>.<name>: what the log forgets of a task, or of a definition
	TallyPrefix    = "mr.tally."       // mr.tally.<job>: sums of its forgotten tasks
	DeadPrefix     = "mr.dead."        // mr.dead.<sequence>: the fate of an unreadable message
	BreakPrefix    = "mr.breaker."     // mr.breaker.<job>: transitions of its breaker
	StatePrefix    = "mr.queue_state." // mr.queue_state.<queue>: its settings by operators
	CronPrefix     = "mr.cron."        // mr.cron.<schedule>: the message schedule of its next fire
	FirePrefix     = "mr.fire."        // mr.fire.<schedule>: its fires, which the server writes
	TickPrefix     = "mr.tick."        // mr.tick.<schedule>: decisions on its ticks
	OutputPrefix   = "mr.tasklog."     // mr.tasklog.<task>: output lines
	DataPrefix     = "mr.data."        // mr.data.<task>: records
	LivePrefix     = "mr.live."        // mr.live.<task>: its progress
	// Mr.ran.<hash>: where the last task of a job or key started.
	RanPrefix = "mr.ran."
	// Mr.token_used.<name>: when a token for HTTP was last used.
	UsedPrefix       = "mr.token_used."
	CheckpointPrefix = "mr.checkpoint." // mr.checkpoint.<task>: where its next attempt continues
	// Mr.selector.<hash>: the selector that a route stands for.
	SelectorPrefix = "mr.selector."
	// Mr.lane_state.<queue>.<priority>.<number>: a special lane, and its use.
	LaneWordPrefix = "mr.lane_state."
	// Proofs that the log takes messages; servers remove all but the last few.
	LogProbe    = "mr.probe"
	DueProbe    = "mr.due.log.probe" // what the log sources as a probe: see jet.Marks
	HintPrefix  = "mr.hint."         // mr.hint.<node>: core messages, "look at this task"
	LanesPrefix = "mr.lanes."        // mr.lanes.<queue>: core messages, "it has one more lane"
	// Core messages, "+<name>" and "-<name>": a scheduler is here, or leaves.
	SchedulersWord = "mr.schedulers"
	PingPrefix     = "mr.ping." // mr.ping.<node>: core requests, which its process answers
)

// Subjects of the files' stream.
const (
	ChunkPrefix   = "mr.files.chunk."   // mr.files.chunk.<digest>: contents, never changed
	VersionPrefix = "mr.files.version." // mr.files.version.<digest>: where a manifest lies
	// Mr.files.protect.<digest>: a version that gc must spare, for a day.
	ProtectPrefix = "mr.files.protect."
	LeftPrefix    = "mr.files.left."    // mr.files.left.<task>.<epoch>: the artifacts of an attempt
	StepPrefix    = "mr.files.step."    // mr.files.step.<task>.<digest>.<number>: parts of a step's result that is too large for the log
	DamagedPrefix = "mr.files.damaged." // mr.files.damaged.<digest>: a reader has found other contents there; the next push stores them again
	SweepSubject  = "mr.files.sweep"    // set while gc removes something
)

// The consumer by which the log sources fired timers. Only a server may publish on FiredSubject.
const (
	FiredConsumer = "log"
	FiredSubject  = "mr.fired"
	// FiredHeader is in each message that the log has sourced, and in no other: the server refuses
	// it in published messages.
	FiredHeader = "Nats-Stream-Source"
)

// The API of JetStream, by subject.
const (
	APIInfo         = "$JS.API.STREAM.INFO."
	APIGet          = "$JS.API.STREAM.MSG.GET."
	APIDirect       = "$JS.API.DIRECT.GET."
	APIPurge        = "$JS.API.STREAM.PURGE."
	APIErase        = "$JS.API.STREAM.MSG.DELETE."
	APIConsumer     = "$JS.API.CONSUMER.INFO."
	APIMake         = "$JS.API.CONSUMER.CREATE."
	APINext         = "$JS.API.CONSUMER.MSG.NEXT."
	APIDrop         = "$JS.API.CONSUMER.DELETE."
	APISnapshot     = "$JS.API.STREAM.SNAPSHOT."
	APIRestore      = "$JS.API.STREAM.RESTORE."
	APIPause        = "$JS.API.CONSUMER.PAUSE."
	APIReset        = "$JS.API.CONSUMER.RESET."
	APIUpdate       = "$JS.API.STREAM.UPDATE."
	APIRemove       = "$JS.API.STREAM.DELETE."
	APISaved        = "$JS.SNAPSHOT." // parts of a snapshot: acknowledged as ACK, restored as RESTORE
	ElectedAdvisory = "$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED."
	DeadAdvisory    = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES." + LogStream + ".*"
	BucketSubject   = "$KV."
	ServicePing     = "$SRV.PING.millrace" // asks all servers of the service who they are
	BucketStream    = "KV_"
	ObjectSubject   = "$O."  // contents of object stores, which are archives
	ObjectStream    = "OBJ_" // begins the name of an object store's stream
)

// OfferSubject is the subject of an offer. An offer without special needs lies where every version
// has looked for it; other lanes have a name in place of the queue's that no queue can have.
func OfferSubject(w *task.Work, id task.ID) string { return offerAt(w.Route, w.Lane(), string(id)) }

// DueSubject is the subject of an offer that a timer has brought.
func DueSubject(e *task.Due, id task.ID) string {
	l := placement.Lane{Queue: e.Route.Queue(), Priority: e.Route.Priority(), Number: e.Number}
	return offerAt(e.Route, l, FiredToken+"."+string(id))
}

func offerAt(r placement.Route, l placement.Lane, last string) string {
	if Special(l) {
		return LanePrefix(l) + last
	}
	return QueuePrefix + string(r) + "." + last
}

// Special tells whether offers of a lane have a consumer of their own.
func Special(l placement.Lane) bool {
	if _, own := placement.NodeOf(l.Queue); own {
		return false // the node orders its own route
	}
	return !l.Plain() && (placement.IsSelectorQueue(l.Queue) || placement.ValidQueue(l.Queue) == nil)
}

// laneSign separates a queue's name and the number of a lane in subjects.
const laneSign = "~"

// LanePrefix begins the subjects of a special lane.
func LanePrefix(l placement.Lane) string {
	return QueuePrefix + l.Queue + laneSign + strconv.Itoa(l.Number) + "." + strconv.Itoa(l.Priority) + "."
}

// LaneFilter is the filter of a lane's consumer.
func LaneFilter(l placement.Lane) string {
	if Special(l) {
		return LanePrefix(l) + ">"
	}
	return QueuePrefix + l.Queue + ".>"
}

// Of are filters that match all subjects of the log with messages about a task.
func Of(id task.ID) []string {
	return []string{"mr.*." + string(id), QueuePrefix + "*.*." + string(id), QueuePrefix + "*.*." + FiredToken + "." + string(id)}
}

// RouteAt parses the subject of an offer: its route, whatever the lane, and its task. It returns
// false for a subject that no offer can have.
func RouteAt(subject string) (placement.Route, task.ID, bool) {
	tokens := strings.Split(strings.TrimPrefix(subject, QueuePrefix), ".")
	if len(tokens) == 4 && tokens[2] == FiredToken {
		tokens = slices.Delete(tokens, 2, 3)
	}
	if len(tokens) != 3 {
		return "", "", false
	}
	queue, priority := tokens[0], tokens[1]
	if at := strings.LastIndex(queue, laneSign); at > 0 { // at 0 it is the mark of a selector
		queue = queue[:at]
	}
	route := placement.Route(queue + "." + priority)
	return route, task.ID(tokens[2]), route.Validate() == nil
}

// FiredToken precedes the task in an offer that a timer has brought. So the NATS server, which
// after a crash looks for the last of those, need not look at births: see jet.Marks.
const FiredToken = "due"

// LaneConsumer is the consumer of a lane, shared by all workers of its queue.
func LaneConsumer(l placement.Lane) string {
	if !Special(l) {
		return ConsumerName(l.Queue)
	}
	return fmt.Sprintf("lane_%02d_%02d_%s", l.Priority, l.Number, l.Queue)
}

// ChainSubject is the subject of the transitions of a fact's task, node or other entity.
func ChainSubject(f *events.Fact) string {
	switch f.Event.(type) {
	case task.HorizonEvent:
		return HorizonSubject
	case task.TallyEvent:
		return TallyPrefix + f.Job
	case task.Carried:
		return CarriedPrefix + string(f.Task)
	case task.CarriedEvent:
		return CarriedPrefix + string(f.Def)
	}
	switch {
	case f.Task != "":
		return ChainPrefix + string(f.Task)
	case f.Node != "":
		return NodePrefix + string(f.Node)
	case f.Queue != "":
		return StatePrefix + f.Queue
	case f.Def != "":
		return DefSubject(f.Def)
	case f.Schedule != "":
		return TickPrefix + f.Schedule
	case f.Job != "":
		return BreakPrefix + f.Job
	case f.Key != "":
		return UniqueSubject(f.Key)
	case f.Message != 0:
		return DeadPrefix + strconv.FormatUint(f.Message, 10)
	case f.Scope != "":
		return AdmitPrefix + string(f.Scope)
	}
	return CopiesSubject
}

// DefSubject is the subject of a definition's changes.
func DefSubject(d task.Def) string { return DefPrefix + string(d) }

// UniqueSubject is the subject of the claims of a unique key.
func UniqueSubject(key string) string { return KeyPrefix + value.Mark(key) }

// Place parses a subject: the kind of record that lies there, and what it is about.
func Place(subject string) (kind events.Kind, about events.Fact) {
	switch {
	case strings.HasPrefix(subject, ChainPrefix):
		return events.KindChain, events.Fact{Task: task.ID(subject[len(ChainPrefix):])}
	case isProbe(subject), subject == LogProbe:
		return events.KindProbe, about
	case strings.HasPrefix(subject, QueuePrefix):
		return events.KindOffer, events.Fact{Task: task.ID(subject[strings.LastIndexByte(subject, '.')+1:])}
	case strings.HasPrefix(subject, HoldPrefix):
		return events.KindHold, events.Fact{Task: task.ID(subject[len(HoldPrefix):])}
	case strings.HasPrefix(subject, NodePrefix):
		return events.KindNode, events.Fact{Node: node.ID(subject[len(NodePrefix):])}
	case strings.HasPrefix(subject, DefPrefix):
		return events.KindDefinition, events.Fact{Def: task.Def(subject[len(DefPrefix):])}
	case strings.HasPrefix(subject, StatePrefix):
		return events.KindQueue, events.Fact{Queue: subject[len(StatePrefix):]}
	case strings.HasPrefix(subject, KeyPrefix):
		return events.KindKey, about
	case strings.HasPrefix(subject, AdmitPrefix):
		return events.KindLimit, events.Fact{Scope: limit.Scope(subject[len(AdmitPrefix):])}
	case subject == CopiesSubject:
		return events.KindCopies, about
	case subject == HorizonSubject:
		return events.KindHorizon, about
	case strings.HasPrefix(subject, CarriedPrefix):
		if of := subject[len(CarriedPrefix):]; strings.Contains(of, ".") {
			return events.KindCarried, events.Fact{Def: task.Def(of)}
		}
		return events.KindCarried, events.Fact{Task: task.ID(subject[len(CarriedPrefix):])}
	case strings.HasPrefix(subject, TallyPrefix):
		return events.KindTally, events.Fact{Job: subject[len(TallyPrefix):]}
	case strings.HasPrefix(subject, BreakPrefix):
		return events.KindBreaker, events.Fact{Job: subject[len(BreakPrefix):]}
	case strings.HasPrefix(subject, FirePrefix):
		return events.KindFire, events.Fact{Schedule: subject[len(FirePrefix):]}
	case strings.HasPrefix(subject, TickPrefix):
		return events.KindTick, events.Fact{Schedule: subject[len(TickPrefix):]}
	case strings.HasPrefix(subject, DeadPrefix):
		seq, _ := strconv.ParseUint(subject[len(DeadPrefix):], 10, 64) // no fact has sequence 0
		return events.KindDead, events.Fact{Message: seq}
	}
	return events.KindOther, about
}

// probeToken stands in place of the task of an offer. No task has such an id.
const probeToken = ".probe"

// ProbeSubject is where a node places the probe of its own route. The subject never changes: see
// jet.Store.TidyProbes.
func ProbeSubject(id node.ID) string {
	return QueuePrefix + id.Queue() + "." + strconv.Itoa(placement.DefaultPriority) + probeToken
}

// AnyProbe are the probes of all nodes.
const AnyProbe = QueuePrefix + "*.*" + probeToken

func isProbe(subject string) bool {
	return strings.HasPrefix(subject, QueuePrefix+"@") && strings.HasSuffix(subject, probeToken)
}

// FireConsumer is the consumer of fires of schedules, which all schedulers share.
const FireConsumer = "schedules"

// nodeConsumerPrefix begins the name of the consumer of a node's own route.
const nodeConsumerPrefix = "MR_NODE_"

// NodeConsumer is the name of the consumer of a node's own route.
func NodeConsumer(id node.ID) string { return nodeConsumerPrefix + string(id) }

// selectorConsumerPrefix begins the name of the consumer of a selector's route.
const selectorConsumerPrefix = "MR_SELECT_"

// ConsumerName is the durable consumer of a queue or of a selector's route, shared by all its
// workers, or the consumer of a node's own route.
func ConsumerName(queue string) string {
	if node, own := placement.NodeOf(queue); own {
		return nodeConsumerPrefix + node
	}
	if placement.IsSelectorQueue(queue) {
		return selectorConsumerPrefix + queue[1:]
	}
	return "queue_" + queue
}
