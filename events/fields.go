package events

// field is a set of fields of facts, one bit each.
type field uint64

// The fields that this version knows. A field belongs to some types only; in a
// fact of another type it is unknown, like a field of a version to come.
const (
	fType field = 1 << iota
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
	fSeq

	fAny      = fType | fV | fID | fAt | fActor | fCause | fCorr
	fWork     = fJob | fRevision | fSpec | fParams | fLabels | fRoute | fPriority | fDeadlines | fGroup | fParent
	fReported = fAttempt | fEpoch
)

// carries lists the fields of each type.
var carries = map[Type]field{
	TaskSubmitted:       fAny | fTask | fWork | fDue,
	TaskQueued:          fAny | fTask | fWork | fDue | fAttempt | fAfter | fReason,
	AttemptStarted:      fAny | fTask | fAttempt | fNode | fSession | fOffer | fTookOver,
	AttemptFinished:     fAny | fTask | fReported | fExit | fResult | fUsage,
	AttemptFailed:       fAny | fTask | fReported | fClass | fExit | fMessage | fRetry | fUsage,
	AttemptReleased:     fAny | fTask | fReported | fReason,
	AttemptLost:         fAny | fTask | fReported | fReason,
	AttemptLate:         fAny | fTask | fEpoch | fNode | fSaid,
	TaskCancelRequested: fAny | fTask | fReason | fDeadline,
	TaskCancelled:       fAny | fTask | fReason | fEpoch | fExit,
	TaskAbnormal:        fAny | fTask | fReason | fDetail,
	TaskReassigned:      fAny | fTask | fFrom | fTo | fReason,
	TaskReopened:        fAny | fTask | fReason,
	TaskDismissed:       fAny | fTask | fReason,
	MessageDismissed:    fAny | fSeq | fReason,
	NodeRegistered:      fAny | fNode | fSession | fHost | fPID | fVersion | fLabels | fSlots | fQueues | fProbes,
	NodeOnline:          fAny | fNode | fSession | fReason | fConnection,
	NodeReady:           fAny | fNode | fSession | fReason | fConnection | fTook | fKept | fStopped | fLow,
	NodeDraining:        fAny | fNode | fSession | fReason,
	JobApplied:          fAny | fJob | fRevision | fDigest,
	JobRemoved:          fAny | fJob | fRevision,
	NodeOffline:         fAny | fNode | fSession | fReason | fLost | fLow,
	NodeChanged:         fAny | fNode | fReason | fOrder | fGrace,
	NodeQuarantined:     fAny | fNode | fReason | fUntil,
	NodeReleased:        fAny | fNode | fReason,
	NodeRetired:         fAny | fNode | fReason,
}

// unknownCarries are the fields of a type that this version does not know. If
// it is about a task, node is not one of them, and job only if it is about neither.
const unknownCarries = fAny | fTask | fNode | fJob

// fieldOf returns the field with a name, 0 if none has it.
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
	case "seq":
		return fSeq
	}
	return 0
}
