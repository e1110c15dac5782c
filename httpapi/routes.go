package httpapi

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"millrace/api"
	"millrace/jet/roles"
)

// prefix begins the paths of all requests. An incompatible change gets another number.
const prefix = "/api/v1"

// route says where a verb of the service is. Braces hold a field of the request; the other fields
// are in the query of a GET, or else in the body.
type route struct {
	verb   roles.Verb
	method string
	path   string
}

// routes is the table of all verbs.
var routes = []route{
	{roles.TaskList, http.MethodGet, "/tasks"},
	{roles.RowList, http.MethodGet, "/rows"},
	{roles.TaskSubmit, http.MethodPost, "/tasks"},
	{roles.TaskSubmit, http.MethodPut, "/tasks/{id}"},
	{roles.TaskGet, http.MethodGet, "/tasks/{id}"},
	{roles.TaskPlan, http.MethodGet, "/tasks/{id}/plan"},
	{roles.TaskPlan, http.MethodPost, "/plan"},
	{roles.TaskBulk, http.MethodPost, "/bulk"},
	{roles.TaskWait, http.MethodGet, "/tasks/{id}/wait"},
	{roles.TaskWhy, http.MethodGet, "/tasks/{id}/why"},
	{roles.TaskTree, http.MethodGet, "/tasks/{id}/tree"},
	{roles.TaskDiff, http.MethodGet, "/tasks/{id}/diff"},
	{roles.TaskEvents, http.MethodGet, "/tasks/{id}/events"},
	{roles.TaskOutput, http.MethodGet, "/tasks/{id}/output"},
	{roles.TaskRecords, http.MethodGet, "/tasks/{id}/records"},
	{roles.TaskFiles, http.MethodGet, "/tasks/{id}/artifacts"},
	{roles.TaskTrace, http.MethodGet, "/tasks/{id}/trace"},
	{roles.TaskEdit, http.MethodPost, "/tasks/{id}/edit"},
	{roles.TaskCancel, http.MethodPost, "/tasks/{id}/cancel"},
	{roles.TaskRetry, http.MethodPost, "/tasks/{id}/retry"},
	{roles.TaskSignal, http.MethodPost, "/tasks/{id}/signal"},
	{roles.TaskRelease, http.MethodPost, "/tasks/{id}/release"},
	{roles.TaskCopy, http.MethodPost, "/tasks/{id}/copy"},
	{roles.DeadDismiss, http.MethodPost, "/tasks/{id}/dismiss"},
	{roles.TasksCancel, http.MethodPost, "/tasks/cancel"},
	{roles.TasksRetry, http.MethodPost, "/tasks/retry"},
	{roles.TasksSignal, http.MethodPost, "/tasks/signal"},
	{roles.TasksDismiss, http.MethodPost, "/tasks/dismiss"},
	{roles.TasksCount, http.MethodPost, "/tasks/count"},

	{roles.EventList, http.MethodGet, "/events"},
	{roles.LogVerify, http.MethodGet, "/verify"},
	{roles.LogDiff, http.MethodGet, "/diff"},
	{roles.LogReplay, http.MethodGet, "/replay"},
	{roles.LogWhatIf, http.MethodPost, "/whatif"},
	{roles.DeadList, http.MethodGet, "/messages"},
	{roles.DeadDismiss, http.MethodPost, "/messages/{seq}/dismiss"},

	{roles.QueueList, http.MethodGet, "/queues"},
	{roles.QueueList, http.MethodGet, "/queues/{queue}"},
	{roles.QueuePause, http.MethodPost, "/queues/{queue}/pause"},
	{roles.QueueResume, http.MethodPost, "/queues/{queue}/resume"},
	{roles.QueueLimit, http.MethodPost, "/queues/{queue}/limit"},
	{roles.QueuePurge, http.MethodPost, "/queues/{queue}/purge"},
	{roles.LimitList, http.MethodGet, "/limits"},

	{roles.NodeList, http.MethodGet, "/nodes"},
	{roles.NodeGet, http.MethodGet, "/nodes/{id}"},
	{roles.NodeWait, http.MethodGet, "/nodes/{id}/wait"},
	{roles.NodePing, http.MethodGet, "/pings"},
	{roles.NodePing, http.MethodGet, "/nodes/{id}/ping"},
	{roles.NodeDrain, http.MethodPost, "/nodes/{id}/drain"},
	{roles.NodeUndrain, http.MethodPost, "/nodes/{id}/undrain"},
	{roles.NodeCordon, http.MethodPost, "/nodes/{id}/cordon"},
	{roles.NodeUncordon, http.MethodPost, "/nodes/{id}/uncordon"},
	{roles.NodeRelease, http.MethodPost, "/nodes/{id}/release"},
	{roles.NodeLabel, http.MethodPost, "/nodes/{id}/label"},

	{roles.NodeRetire, http.MethodPost, "/nodes/{id}/retire"},

	{roles.JobList, http.MethodGet, "/jobs"},
	{roles.JobValidate, http.MethodPost, "/jobs/validate"},
	{roles.JobSchema, http.MethodGet, "/schemas/job"},
	{roles.JobGet, http.MethodGet, "/jobs/{name}"},
	{roles.JobApply, http.MethodPut, "/jobs/{name}"},
	{roles.JobRemove, http.MethodDelete, "/jobs/{name}"},
	{roles.BreakerGet, http.MethodGet, "/jobs/{name}/breaker"},
	{roles.BreakerReset, http.MethodPost, "/jobs/{name}/breaker/reset"},
	{roles.CalendarList, http.MethodGet, "/calendars"},
	{roles.CalendarGet, http.MethodGet, "/calendars/{name}"},
	{roles.CalendarApply, http.MethodPut, "/calendars/{name}"},
	{roles.CalendarRemove, http.MethodDelete, "/calendars/{name}"},
	{roles.ScheduleList, http.MethodGet, "/schedules"},
	{roles.ScheduleGet, http.MethodGet, "/schedules/{name}"},
	{roles.ScheduleApply, http.MethodPut, "/schedules/{name}"},
	{roles.ScheduleRemove, http.MethodDelete, "/schedules/{name}"},
	{roles.SchedulePause, http.MethodPost, "/schedules/{name}/pause"},
	{roles.ScheduleResume, http.MethodPost, "/schedules/{name}/resume"},
	{roles.ScheduleRun, http.MethodPost, "/schedules/{name}/run"},
	{roles.ScheduleBackfill, http.MethodPost, "/schedules/{name}/backfill"},
	{roles.ScheduleProgress, http.MethodGet, "/schedules/{name}/backfill"},
	{roles.ScheduleNext, http.MethodGet, "/schedules/{name}/next"},
	{roles.ScheduleNext, http.MethodGet, "/ticks"},

	{roles.JobHistory, http.MethodGet, "/jobs/{name}/history"},
	{roles.JobDiff, http.MethodGet, "/jobs/{name}/diff"},
	{roles.ScheduleHistory, http.MethodGet, "/schedules/{name}/history"},
	{roles.ScheduleDiff, http.MethodGet, "/schedules/{name}/diff"},
	{roles.CalendarHistory, http.MethodGet, "/calendars/{name}/history"},
	{roles.CalendarDiff, http.MethodGet, "/calendars/{name}/diff"},

	{roles.FilesList, http.MethodGet, "/files"},
	{roles.FilesGet, http.MethodGet, "/files/{version}"},
	{roles.FilesDiff, http.MethodGet, "/files/{version}/diff"},
	{roles.FilesVerify, http.MethodGet, "/files/{version}/verify"},
	{roles.FilesSweep, http.MethodPost, "/files/gc"},
	{roles.FilesRemove, http.MethodDelete, "/files/{name}"},

	{roles.ServerHealth, http.MethodGet, "/health"},
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
	endpoint api.Endpoint
	fields   map[string]field // of the request, by their names in JSON
	named    []string         // those in the path
}

// operations returns all of them, in the order of the table.
func operations() []operation {
	by := map[roles.Verb]api.Endpoint{}
	for _, e := range api.Endpoints() {
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
