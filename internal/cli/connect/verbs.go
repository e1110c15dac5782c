package connect

import "millrace/events/jet/rights"

// Verbs are the requests to the service by which commands do their work for users who may not read
// the log: viewers and submitters. Any other command takes the role operator, and so do parts of these
// for which the service has no request.
var Verbs = map[string]rights.Verb{
	"run": rights.TaskSubmit, "plan": rights.TaskPlan, "task copy": rights.TaskCopy,

	"task ls": rights.TaskList, "task show": rights.TaskGet, "task why": rights.TaskWhy, "task tree": rights.TaskTree, "task diff": rights.TaskDiff, "task wait": rights.TaskWait,
	"task events": rights.TaskEvents, "task attempts": rights.TaskEvents, "task trace": rights.TaskTrace, "task logs": rights.TaskOutput, "task artifacts": rights.TaskFiles,
	"task data": rights.TaskRecords, "task data ls": rights.TaskRecords, "task data tail": rights.TaskRecords, "task data export": rights.TaskRecords,
	"data ls": rights.TaskRecords, "data tail": rights.TaskRecords, "data export": rights.TaskRecords,

	"dlq ls": rights.DeadList, "dlq show": rights.DeadList, "events tail": rights.EventList, "events show": rights.EventList, "events export": rights.EventList,
	"diff": rights.LogDiff, "verify": rights.LogVerify, "replay": rights.LogReplay, "whatif": rights.LogWhatIf,

	"node ls": rights.NodeList, "node show": rights.NodeGet, "node events": rights.EventList, "node wait": rights.NodeWait, "node ping": rights.NodePing,
	"queue ls": rights.QueueList, "queue show": rights.QueueList, "limit ls": rights.LimitList, "limit show": rights.LimitList,

	"job ls": rights.JobList, "job show": rights.JobGet, "job history": rights.JobHistory, "job diff": rights.JobDiff, "job breaker show": rights.BreakerGet,
	"calendar ls": rights.CalendarList, "calendar show": rights.CalendarGet, "calendar history": rights.CalendarHistory, "calendar diff": rights.CalendarDiff,
	"schedule ls": rights.ScheduleList, "schedule show": rights.ScheduleGet, "schedule next": rights.ScheduleNext, "schedule diff": rights.ScheduleDiff,

	"files ls": rights.FilesList, "files show": rights.FilesGet, "files diff": rights.FilesDiff,
}
