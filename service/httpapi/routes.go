package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"millrace/events/jet/rights"
	"millrace/service/answers"
)

// prefix begins the paths of all requests. An incompatible change gets another number.
const prefix = "/api/v1"

// route says where a verb of the service is. Braces hold a field of the request; the other fields
// are in the query of a GET, or else in the body.
type route struct {
	verb   rights.Verb
	method string
	path   string
}

// routes is the table of all verbs.
var routes = []route{
	{rights.TaskList, http.MethodGet, "/tasks"},
	{rights.RowList, http.MethodGet, "/rows"},
	{rights.TaskSubmit, http.MethodPost, "/tasks"},
	{rights.TaskSubmit, http.MethodPut, "/tasks/{id}"},
	{rights.TaskGet, http.MethodGet, "/tasks/{id}"},
	{rights.TaskPlan, http.MethodGet, "/tasks/{id}/plan"},
	{rights.TaskPlan, http.MethodPost, "/plan"},
	{rights.TaskBulk, http.MethodPost, "/bulk"},
	{rights.TaskWait, http.MethodGet, "/tasks/{id}/wait"},
	{rights.TaskWhy, http.MethodGet, "/tasks/{id}/why"},
	{rights.TaskTree, http.MethodGet, "/tasks/{id}/tree"},
	{rights.TaskDiff, http.MethodGet, "/tasks/{id}/diff"},
	{rights.TaskEvents, http.MethodGet, "/tasks/{id}/events"},
	{rights.TaskOutput, http.MethodGet, "/tasks/{id}/output"},
	{rights.TaskRecords, http.MethodGet, "/tasks/{id}/records"},
	{rights.TaskFiles, http.MethodGet, "/tasks/{id}/artifacts"},
	{rights.TaskTrace, http.MethodGet, "/tasks/{id}/trace"},
	{rights.TaskEdit, http.MethodPost, "/tasks/{id}/edit"},
	{rights.TaskCancel, http.MethodPost, "/tasks/{id}/cancel"},
	{rights.TaskRetry, http.MethodPost, "/tasks/{id}/retry"},
	{rights.TaskSignal, http.MethodPost, "/tasks/{id}/signal"},
	{rights.TaskRelease, http.MethodPost, "/tasks/{id}/release"},
	{rights.TaskCopy, http.MethodPost, "/tasks/{id}/copy"},
	{rights.DeadDismiss, http.MethodPost, "/tasks/{id}/dismiss"},
	{rights.TasksCancel, http.MethodPost, "/tasks/cancel"},
	{rights.TasksRetry, http.MethodPost, "/tasks/retry"},
	{rights.TasksSignal, http.MethodPost, "/tasks/signal"},
	{rights.TasksDismiss, http.MethodPost, "/tasks/dismiss"},
	{rights.TasksCount, http.MethodPost, "/tasks/count"},

	{rights.EventList, http.MethodGet, "/events"},
	{rights.LogVerify, http.MethodGet, "/verify"},
	{rights.LogDiff, http.MethodGet, "/diff"},
	{rights.LogReplay, http.MethodGet, "/replay"},
	{rights.LogWhatIf, http.MethodPost, "/whatif"},
	{rights.DeadList, http.MethodGet, "/messages"},
	{rights.DeadDismiss, http.MethodPost, "/messages/{seq}/dismiss"},

	{rights.QueueList, http.MethodGet, "/queues"},
	{rights.QueueList, http.MethodGet, "/queues/{queue}"},
	{rights.QueuePause, http.MethodPost, "/queues/{queue}/pause"},
	{rights.QueueResume, http.MethodPost, "/queues/{queue}/resume"},
	{rights.QueueLimit, http.MethodPost, "/queues/{queue}/limit"},
	{rights.QueuePurge, http.MethodPost, "/queues/{queue}/purge"},
	{rights.LimitList, http.MethodGet, "/limits"},

	{rights.NodeList, http.MethodGet, "/nodes"},
	{rights.NodeGet, http.MethodGet, "/nodes/{id}"},
	{rights.NodeWait, http.MethodGet, "/nodes/{id}/wait"},
	{rights.NodePing, http.MethodGet, "/pings"},
	{rights.NodePing, http.MethodGet, "/nodes/{id}/ping"},
	{rights.NodeDrain, http.MethodPost, "/nodes/{id}/drain"},
	{rights.NodeUndrain, http.MethodPost, "/nodes/{id}/undrain"},
	{rights.NodeCordon, http.MethodPost, "/nodes/{id}/cordon"},
	{rights.NodeUncordon, http.MethodPost, "/nodes/{id}/uncordon"},
	{rights.NodeRelease, http.MethodPost, "/nodes/{id}/release"},
	{rights.NodeLabel, http.MethodPost, "/nodes/{id}/label"},

	{rights.NodeRetire, http.MethodPost, "/nodes/{id}/retire"},

	{rights.JobList, http.MethodGet, "/jobs"},
	{rights.JobValidate, http.MethodPost, "/jobs/validate"},
	{rights.JobSchema, http.MethodGet, "/schemas/job"},
	{rights.JobGet, http.MethodGet, "/jobs/{name}"},
	{rights.JobApply, http.MethodPut, "/jobs/{name}"},
	{rights.JobRemove, http.MethodDelete, "/jobs/{name}"},
	{rights.BreakerGet, http.MethodGet, "/jobs/{name}/breaker"},
	{rights.BreakerReset, http.MethodPost, "/jobs/{name}/breaker/reset"},
	{rights.CalendarList, http.MethodGet, "/calendars"},
	{rights.CalendarGet, http.MethodGet, "/calendars/{name}"},
	{rights.CalendarApply, http.MethodPut, "/calendars/{name}"},
	{rights.CalendarRemove, http.MethodDelete, "/calendars/{name}"},
	{rights.ScheduleList, http.MethodGet, "/schedules"},
	{rights.ScheduleGet, http.MethodGet, "/schedules/{name}"},
	{rights.ScheduleApply, http.MethodPut, "/schedules/{name}"},
	{rights.ScheduleRemove, http.MethodDelete, "/schedules/{name}"},
	{rights.SchedulePause, http.MethodPost, "/schedules/{name}/pause"},
	{rights.ScheduleResume, http.MethodPost, "/schedules/{name}/resume"},
	{rights.ScheduleRun, http.MethodPost, "/schedules/{name}/run"},
	{rights.ScheduleBackfill, http.MethodPost, "/schedules/{name}/backfill"},
	{rights.ScheduleProgress, http.MethodGet, "/schedules/{name}/backfill"},
	{rights.ScheduleNext, http.MethodGet, "/schedules/{name}/next"},
	{rights.ScheduleNext, http.MethodGet, "/ticks"},

	{rights.JobHistory, http.MethodGet, "/jobs/{name}/history"},
	{rights.JobDiff, http.MethodGet, "/jobs/{name}/diff"},
	{rights.ScheduleHistory, http.MethodGet, "/schedules/{name}/history"},
	{rights.ScheduleDiff, http.MethodGet, "/schedules/{name}/diff"},
	{rights.CalendarHistory, http.MethodGet, "/calendars/{name}/history"},
	{rights.CalendarDiff, http.MethodGet, "/calendars/{name}/diff"},

	{rights.FilesList, http.MethodGet, "/files"},
	{rights.FilesGet, http.MethodGet, "/files/{version}"},
	{rights.FilesDiff, http.MethodGet, "/files/{version}/diff"},
	{rights.FilesVerify, http.MethodGet, "/files/{version}/verify"},
	{rights.FilesSweep, http.MethodPost, "/files/gc"},
	{rights.FilesRemove, http.MethodDelete, "/files/{name}"},

	{rights.ServerHealth, http.MethodGet, "/health"},
}

// narrow lists the fields beside those of its path that a route takes, where these are not all of
// its verb's.
var narrow = map[string][]string{
	"GET /tasks/{id}/plan": {},
	"GET /queues/{queue}":  {"at", "at_least", "rates"},

	"GET /nodes/{id}/ping": {"timeout"},
	"GET /pings":           {"timeout", "limit", "cursor"},

	"POST /tasks/{id}/dismiss":     {"reason"},
	"POST /messages/{seq}/dismiss": {"reason"},
}

// operation is a route with its endpoint.
type operation struct {
	route
	endpoint answers.Endpoint
	fields   map[string]field // of the request, by their names in JSON
	named    []string         // those in the path
}

// operations returns all of them, in the order of the table.
func operations() []operation {
	by := map[rights.Verb]answers.Endpoint{}
	for _, e := range answers.Endpoints() {
		by[e.Verb] = e
	}
	all := make([]operation, len(routes))
	for i, r := range routes {
		o := operation{route: r, endpoint: by[r.verb]}
		o.fields = fieldsOf(o.endpoint.Request)
		for part := range strings.SplitSeq(r.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				o.named = append(o.named, strings.TrimSuffix(name, "}"))
			}
		}
		if only, ok := narrow[r.method+" "+r.path]; ok {
			maps.DeleteFunc(o.fields, func(name string, _ field) bool {
				return !slices.Contains(only, name) && !slices.Contains(o.named, name)
			})
		}
		all[i] = o
	}
	return all
}

// field is a field of a request or an answer.
type field struct {
	name  string // in JSON
	is    reflect.Type
	owner reflect.Type // the struct that declares it

	optional bool
}

// fieldsOf returns the fields of a type by their names in JSON; fields of embedded types count
// unless a field of the type itself has the name.
func fieldsOf(t reflect.Type) map[string]field {
	all := map[string]field{}
	collect(t, false, all)
	return all
}

// collect adds the fields of a struct; optional tells that the struct itself may be missing.
func collect(t reflect.Type, optional bool, into map[string]field) {
	if t.Kind() == reflect.Pointer {
		t, optional = t.Elem(), true
	}
	var within []reflect.Type
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		_, known := into[name]
		switch {
		case f.Anonymous && name == "":
			within = append(within, f.Type)
		case f.IsExported() && name != "-" && name != "" && !known && f.Tag.Get("hidden") == "":
			into[name] = field{name, f.Type, t, optional || strings.Contains(options, "omit")}
		}
	}
	for _, t := range within {
		collect(t, optional, into)
	}
}
