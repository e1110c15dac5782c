package simulation

import "strings"

// unseen are the alterations of a single fact that verify cannot tell from an honest log, and why;
// docs/verify.md tells people the same by kinds. A fact or field named here is found where
// something else in the log contradicts the change, and not where nothing does.
var unseen = []struct{ facts, what, why string }{
	{everyFact, "id at actor corr v",
		"who wrote it and when is its writer's word; a time matters as far as a deadline or decision does"},
	{"task.submitted", "removed job spec params labels route due start_by end_by holds needs inputs parent step revision trigger retry_of window group task",
		"a birth is what somebody wanted. Only its offers, its parent, its schedule and its limits repeat parts of it. A task of which nothing else is in the log may be missing"},
	{"task.queued", "removed after route reason due start_by end_by rated inputs labels params spec job revision parent step needs attempt task",
		"an offer may be stale or there twice; what it says is compared only if it is for the turn in which the task waits"},
	{"task.due", "removed after due route lane task",
		"the same"},
	{"attempt.started", "session by node offer",
		"another session of the node may have claimed it, or by another offer for the same turn; evidence of a lease matters as far as it decides"},
	{"attempt.finished", "removed exit result usage v",
		"without its last fact a task looks as if it ran on (--settled finds it). A result is only compared where others were told of it"},
	{"attempt.failed", "removed class exit message reason usage retry_after by retry",
		"the same; the class matters as far as the retry policy does"},
	{"attempt.released", "reason",
		"words of the node"},
	{"attempt.lost, task.postponed", "by",
		"evidence matters as far as it decides: heartbeats, and the settings of the decider, are not in the log"},
	{"task.postponed", "removed detail due",
		"an operator's word, if no rule is named"},
	{"attempt.late, attempt.extended, attempt.adopted", "removed said node until gap pid session epoch attempt",
		"evidence of what did not count, and words of a node about its own attempt"},
	{"task.cancel_requested", "removed reason deadline",
		"a person's word. If the attempt ended otherwise, nothing follows from it"},
	{"task.cancelled", "removed reason usage exit code by",
		"the same"},
	{"task.concluded", "state reason",
		"a child was opened again between what the scheduler saw and this end: the decision counts as unjudged"},
	{"task.abnormal, task.concluded", "removed by detail message result",
		"without its last fact a task looks as if it waited or ran on; its deadline finds it later"},
	{"task.expanded", "removed by children",
		"the same"},
	{"task.reassigned, task.throttled", "removed node reason until from asked by",
		"the node only says to whom the task was offered"},
	{"task.unheld", "removed inputs reason by hold task",
		"what comes with a signal is a person's word"},
	{"task.reopened, task.dismissed", "removed again reason",
		"a person's word"},
	{"limit.granted", "removed by grants rates",
		"an admission of which no offer came. That others had to come first is not judged if the scheduler's knowledge lies too far back"},
	{"unique.claimed", "removed by before",
		"a claim of which no task was born"},
	{"breaker.opened, breaker.half_opened, breaker.closed, breaker.tried", "removed by reason until left",
		"a worker may have known an earlier state, and started without a trial. The policy is that of the task that asked"},
	{"queue.paused, queue.resumed, queue.limited, queue.purged", "removed queue reason until running waiting rate window ended",
		"an operator's word"},
	{"definition.applied, definition.removed, schedule.paused, schedule.resumed", "removed def definition digest reason revision",
		"the last change of a definition, if nothing names it; a writer need not give a digest"},
	{"schedule.fired, schedule.admitted, schedule.skipped, schedule.queued", "removed by detail revision due trigger ledger",
		"what follows from a tick is compared with the next decision on the schedule, if there is one"},
	{"node.registered, node.online, node.ready, node.draining, node.offline", "removed session reason connection took low kept stopped announces commands handlers host labels pid probes queues slots ttl until version by lost node",
		"a node's word about itself, and heartbeats, which are not in the log"},
	{"node.changed, node.labelled, node.quarantined, node.released, node.retired", "removed order grace labels reason until by",
		"an operator's word, or that of the scores, or of the time that a node was offline"},
}

// everyFact stands in [unseen] for all types.
const everyFact = "every fact"

// uncovered are the alterations of [unseen], as in "attempt.lost removed" and "every fact at".
func uncovered() map[string]bool {
	all := map[string]bool{}
	for _, u := range unseen {
		for _, f := range strings.Split(u.facts, ", ") {
			for _, w := range strings.Fields(u.what) {
				all[f+" "+w] = true
			}
		}
	}
	return all
}
