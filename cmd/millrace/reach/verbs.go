package reach

import "millrace/jet/roles"

// Verbs are the requests to the service by which commands do their work for users who may not read
// the log: viewers and submitters. Any other command takes the role operator, and so do parts of these
// for which the service has no request.
var Verbs = map[string]roles.Verb{
	"run": roles.TaskSubmit, "plan": roles.TaskPlan, "task copy": roles.TaskCopy,

	"task ls": roles.TaskList, "task show": roles.TaskGet, "task why": roles.TaskWhy, "task tree": roles.TaskTree, "task diff": roles.TaskDiff, "task wait": roles.TaskWait,
	"task events": roles.TaskEvents, "task attempts": roles.TaskEvents, "task trace": roles.TaskTrace, "task logs": roles.TaskOutput, "task artifacts": roles.TaskFiles,
	"task data": roles.TaskRecords, "task data ls": roles.TaskRecords, "task data tail": roles.TaskRecords, "task data export": roles.TaskRecords,
	"data ls": roles.TaskRecords, "data tail": roles.TaskRecords, "data export": roles.TaskRecords,

	"dlq ls": roles.DeadList, "dlq show": roles.DeadList, "events tail": roles.EventList, "events show": roles.EventList, "events export": roles.EventList,
	"diff": roles.LogDiff, "verify": roles.LogVerify, "replay": roles.LogReplay, "whatif": roles.LogWhatIf,

	"node ls": roles.NodeList, "node show": roles.NodeGet, "node events": roles.EventList, "node wait": roles.NodeWait, "node ping": roles.NodePing,
	"queue ls": roles.QueueList, "queue show": roles.QueueList, "limit ls": roles.LimitList, "limit show": roles.LimitList,

	"job ls": roles.JobList, "job show": roles.JobGet, "job history": roles.JobHistory, "job diff": roles.JobDiff, "job breaker show": roles.BreakerGet,
	"calendar ls": roles.CalendarList, "calendar show": roles.CalendarGet, "calendar history": roles.CalendarHistory, "calendar diff": roles.CalendarDiff,
	"schedule ls": roles.ScheduleList, "schedule show": roles.ScheduleGet, "schedule next": roles.ScheduleNext, "schedule diff": roles.ScheduleDiff,

	"files ls": roles.FilesList, "files show": roles.FilesGet, "files diff": roles.FilesDiff,
}
