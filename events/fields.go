package events

// field is one of the fields of facts that this version knows. A field belongs
// to some types only; in a fact of another type it is unknown, like a field of a
// version to come.
type field uint8

// The fields. fNone is what no name stands for, and no type carries it.
const (
	fNone field = iota
	fType
	fV
	fID
	fAt
	fTask
	fNode
	fActor
	fCause
	fCorr
	fAttempt
	fEpoch
	fOffer
	fAfter
	fSession
	fReason
	fClass
	fMessage
	fDetail
	fExit
	fDue
	fDeadline
	fJob
	fRoute
	fPriority
	fGroup
	fParent
	fRevision
	fSpec
	fParams
	fResult
	fSaid
	fLabels
	fDeadlines
	fHost
	fVersion
	fPID
	fSlots
	fQueues
	fTookOver
	fRetry
	fUsage
	fDigest
	fFrom
	fTo
	fConnection
	fTook
	fKept
	fStopped
	fLow
	fOrder
	fGrace
	fUntil
	fLost
	fProbes
	fChildren
	fState
	fLeft
	fRetryOf
	fHolds
	fHold
	fFairKey
	fRunning
	fWaiting
	fQueue
	fEnded
	fGrants
	fRates
	fKey
	fHolder
	fBefore
	fRetryAfter
	fNeeds
	fInputs
	fCode
	fSchedule
	fTick
	fTrigger
	fMade
	fCount
	fLedger
	fSeq
)

// fields is a set of fields, one bit each. The zero value is empty.
type fields [2]uint64

func setOf(list ...field) (s fields) { return s.with(list...) }

func (s fields) has(f field) bool { return s[f/64]&(1<<(f%64)) != 0 }

func (s fields) with(list ...field) fields {
	for _, f := range list {
		s[f/64] |= 1 << (f % 64)
	}
	return s
}

func (s fields) without(f field) fields {
	s[f/64] &^= 1 << (f % 64)
	return s
}

// Fields that several types carry.
var (
	anyFields    = setOf(fType, fV, fID, fAt, fActor, fCause, fCorr)
	ofTask       = anyFields.with(fTask)
	ofWork       = ofTask.with(fJob, fRevision, fSpec, fParams, fLabels, fRoute, fPriority, fDeadlines, fGroup, fParent, fHolds, fNeeds, fInputs, fFairKey, fSchedule, fTick, fTrigger)
	ofAttempt    = ofTask.with(fAttempt, fEpoch)
	ofNode       = anyFields.with(fNode)
	ofDefinition = anyFields.with(fJob)
	ofQueue      = anyFields.with(fQueue)
	ofSchedule   = anyFields.with(fSchedule, fRevision)
	ofMessage    = anyFields.with(fSeq)
)

// carries lists the fields of each type.
var carries = map[Type]fields{
	TaskSubmitted:       ofWork.with(fDue, fRetryOf),
	TaskQueued:          ofWork.with(fDue, fAttempt, fAfter, fReason),
	AttemptStarted:      ofTask.with(fAttempt, fNode, fSession, fOffer, fTookOver),
	AttemptFinished:     ofAttempt.with(fExit, fResult, fUsage),
	AttemptFailed:       ofAttempt.with(fClass, fExit, fMessage, fRetry, fReason, fRetryAfter, fUsage),
	AttemptReleased:     ofAttempt.with(fReason),
	AttemptLost:         ofAttempt.with(fReason),
	AttemptExtended:     ofAttempt.with(fUntil),
	AttemptLate:         ofTask.with(fEpoch, fNode, fSaid),
	TaskCancelRequested: ofTask.with(fReason, fDeadline),
	TaskCancelled:       ofTask.with(fReason, fCode, fEpoch, fExit),
	TaskAbnormal:        ofTask.with(fReason, fDetail),
	TaskReassigned:      ofTask.with(fFrom, fTo, fReason, fUntil),
	TaskPostponed:       ofTask.with(fReason, fDetail, fDue),
	TaskReopened:        ofTask.with(fReason),
	LimitGranted:        anyFields.with(fGrants, fRates),
	UniqueClaimed:       anyFields.with(fKey, fHolder, fBefore),
	TaskDismissed:       ofTask.with(fReason),
	MessageDismissed:    ofMessage.with(fReason),
	BreakerOpened:       ofDefinition.with(fReason, fUntil),
	BreakerHalfOpened:   ofDefinition.with(fReason, fUntil, fLeft),
	BreakerTried:        ofDefinition.with(fReason, fUntil, fLeft),
	BreakerClosed:       ofDefinition.with(fReason),
	TaskUnheld:          ofTask.with(fHold, fReason, fInputs),
	TaskExpanded:        ofTask.with(fChildren),
	TaskConcluded:       ofTask.with(fState, fReason, fMessage, fResult),
	NodeLabelled:        ofNode.with(fLabels, fReason),
	NodeRegistered:      ofNode.with(fSession, fHost, fPID, fVersion, fLabels, fSlots, fQueues, fProbes),
	NodeOnline:          ofNode.with(fSession, fReason, fConnection),
	NodeReady:           ofNode.with(fSession, fReason, fConnection, fTook, fKept, fStopped, fLow),
	NodeDraining:        ofNode.with(fSession, fReason),
	JobApplied:          ofDefinition.with(fRevision, fDigest),
	JobRemoved:          ofDefinition.with(fRevision),
	QueuePaused:         ofQueue.with(fReason, fUntil),
	QueueResumed:        ofQueue.with(fReason),
	QueueLimited:        ofQueue.with(fRunning, fWaiting, fReason),
	QueuePurged:         ofQueue.with(fReason, fEnded),
	ScheduleApplied:     ofSchedule.with(fDigest),
	ScheduleRemoved:     ofSchedule,
	SchedulePaused:      ofSchedule.with(fReason),
	ScheduleResumed:     ofSchedule.with(fReason),
	ScheduleFired:       ofSchedule.with(fTick, fDue, fDetail),
	ScheduleAdmitted:    ofSchedule.with(fTick, fDue, fTrigger, fMade, fDetail, fLedger),
	ScheduleSkipped:     ofSchedule.with(fTick, fUntil, fCount, fReason, fDetail, fLedger),
	ScheduleQueued:      ofSchedule.with(fTick, fTrigger, fDetail, fLedger),
	NodeOffline:         ofNode.with(fSession, fReason, fLost, fLow),
	NodeChanged:         ofNode.with(fReason, fOrder, fGrace),
	NodeQuarantined:     ofNode.with(fReason, fUntil),
	NodeReleased:        ofNode.with(fReason),
	NodeRetired:         ofNode.with(fReason),
}

// unknownCarries are the fields of a type that this version does not know. If
// it is about a task, node is not one of them, job only if it is about neither, and queue
// and schedule only if it is about nothing else.
var unknownCarries = anyFields.with(fTask, fNode, fJob, fQueue, fSchedule)

// fieldOf returns the field with a name, fNone if none has it.
func fieldOf(name string) field {
	switch name {
	case "type":
		return fType
	case "v":
		return fV
	case "id":
		return fID
	case "at":
		return fAt
	case "task":
		return fTask
	case "node":
		return fNode
	case "actor":
		return fActor
	case "cause":
		return fCause
	case "corr":
		return fCorr
	case "attempt":
		return fAttempt
	case "epoch":
		return fEpoch
	case "offer":
		return fOffer
	case "after":
		return fAfter
	case "session":
		return fSession
	case "reason":
		return fReason
	case "class":
		return fClass
	case "message":
		return fMessage
	case "detail":
		return fDetail
	case "exit":
		return fExit
	case "due":
		return fDue
	case "deadline":
		return fDeadline
	case "job":
		return fJob
	case "route":
		return fRoute
	case "priority":
		return fPriority
	case "group":
		return fGroup
	case "parent":
		return fParent
	case "revision":
		return fRevision
	case "spec":
		return fSpec
	case "params":
		return fParams
	case "result":
		return fResult
	case "said":
		return fSaid
	case "labels":
		return fLabels
	case "deadlines":
		return fDeadlines
	case "host":
		return fHost
	case "version":
		return fVersion
	case "pid":
		return fPID
	case "slots":
		return fSlots
	case "queues":
		return fQueues
	case "took_over":
		return fTookOver
	case "retry":
		return fRetry
	case "usage":
		return fUsage
	case "digest":
		return fDigest
	case "from":
		return fFrom
	case "to":
		return fTo
	case "connection":
		return fConnection
	case "took":
		return fTook
	case "kept":
		return fKept
	case "stopped":
		return fStopped
	case "low":
		return fLow
	case "order":
		return fOrder
	case "grace":
		return fGrace
	case "until":
		return fUntil
	case "lost":
		return fLost
	case "probes":
		return fProbes
	case "children":
		return fChildren
	case "state":
		return fState
	case "seq":
		return fSeq
	case "left":
		return fLeft
	case "retry_of":
		return fRetryOf
	case "holds":
		return fHolds
	case "hold":
		return fHold
	case "fair_key":
		return fFairKey
	case "queue":
		return fQueue
	case "running":
		return fRunning
	case "waiting":
		return fWaiting
	case "ended":
		return fEnded
	case "grants":
		return fGrants
	case "rates":
		return fRates
	case "key":
		return fKey
	case "holder":
		return fHolder
	case "before":
		return fBefore
	case "retry_after":
		return fRetryAfter
	case "needs":
		return fNeeds
	case "inputs":
		return fInputs
	case "code":
		return fCode
	case "schedule":
		return fSchedule
	case "tick":
		return fTick
	case "trigger":
		return fTrigger
	case "made":
		return fMade
	case "count":
		return fCount
	case "ledger":
		return fLedger
	}
	return fNone
}
