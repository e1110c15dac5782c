package httpapi

import (
	"net/http"
	"reflect"
	"strings"

	"millrace/api"
	"millrace/jet"
)

// prefix begins the paths of all requests. What changes so that programs would notice gets another number.
const prefix = "/api/v1"

// route says where a verb of the service is. What stands in braces is a field of the request; of a GET the query has the
// others, of all else the body.
type route struct {
	verb   jet.Verb
	method string
	path   string
}

// routes is the table of what can be asked for.
var routes = []route{
	{jet.TaskList, http.MethodGet, "/tasks"},
	{jet.TaskSubmit, http.MethodPost, "/tasks"},
	{jet.TaskSubmit, http.MethodPut, "/tasks/{id}"},
	{jet.TaskGet, http.MethodGet, "/tasks/{id}"},
	{jet.TaskPlan, http.MethodGet, "/tasks/{id}/plan"},
	{jet.TaskPlan, http.MethodPost, "/plan"},
	{jet.TaskBulk, http.MethodPost, "/bulk"},
	{jet.TaskWait, http.MethodGet, "/tasks/{id}/wait"},
	{jet.TaskWhy, http.MethodGet, "/tasks/{id}/why"},
	{jet.TaskTree, http.MethodGet, "/tasks/{id}/tree"},
	{jet.TaskDiff, http.MethodGet, "/tasks/{id}/diff"},
	{jet.TaskEvents, http.MethodGet, "/tasks/{id}/events"},
	{jet.TaskOutput, http.MethodGet, "/tasks/{id}/output"},
	{jet.TaskRecords, http.MethodGet, "/tasks/{id}/records"},
	{jet.TaskFiles, http.MethodGet, "/tasks/{id}/artifacts"},
	{jet.TaskEdit, http.MethodPost, "/tasks/{id}/edit"},
	{jet.TaskCancel, http.MethodPost, "/tasks/{id}/cancel"},
	{jet.TaskRetry, http.MethodPost, "/tasks/{id}/retry"},
	{jet.TaskSignal, http.MethodPost, "/tasks/{id}/signal"},
	{jet.TaskRelease, http.MethodPost, "/tasks/{id}/release"},
	{jet.TaskCopy, http.MethodPost, "/tasks/{id}/copy"},
	{jet.DeadDismiss, http.MethodPost, "/tasks/{id}/dismiss"},
	{jet.TasksCancel, http.MethodPost, "/tasks/cancel"},
	{jet.TasksRetry, http.MethodPost, "/tasks/retry"},

	{jet.EventList, http.MethodGet, "/events"},
	{jet.LogVerify, http.MethodGet, "/verify"},
	{jet.DeadList, http.MethodGet, "/messages"},
	{jet.DeadDismiss, http.MethodPost, "/messages/{seq}/dismiss"},

	{jet.QueueList, http.MethodGet, "/queues"},
	{jet.QueueList, http.MethodGet, "/queues/{queue}"},
	{jet.QueuePause, http.MethodPost, "/queues/{queue}/pause"},
	{jet.QueueResume, http.MethodPost, "/queues/{queue}/resume"},
	{jet.QueueLimit, http.MethodPost, "/queues/{queue}/limit"},
	{jet.QueuePurge, http.MethodPost, "/queues/{queue}/purge"},
	{jet.LimitList, http.MethodGet, "/limits"},

	{jet.NodeList, http.MethodGet, "/nodes"},
	{jet.NodeGet, http.MethodGet, "/nodes/{id}"},
	{jet.NodeWait, http.MethodGet, "/nodes/{id}/wait"},
	{jet.NodeDrain, http.MethodPost, "/nodes/{id}/drain"},
	{jet.NodeUndrain, http.MethodPost, "/nodes/{id}/undrain"},
	{jet.NodeCordon, http.MethodPost, "/nodes/{id}/cordon"},
	{jet.NodeUncordon, http.MethodPost, "/nodes/{id}/uncordon"},
	{jet.NodeRelease, http.MethodPost, "/nodes/{id}/release"},
	{jet.NodeLabel, http.MethodPost, "/nodes/{id}/label"},

	{jet.NodeRetire, http.MethodPost, "/nodes/{id}/retire"},

	{jet.JobList, http.MethodGet, "/jobs"},
	{jet.JobGet, http.MethodGet, "/jobs/{name}"},
	{jet.JobApply, http.MethodPut, "/jobs/{name}"},
	{jet.JobRemove, http.MethodDelete, "/jobs/{name}"},
	{jet.BreakerGet, http.MethodGet, "/jobs/{name}/breaker"},
	{jet.BreakerReset, http.MethodPost, "/jobs/{name}/breaker/reset"},
	{jet.CalendarList, http.MethodGet, "/calendars"},
	{jet.CalendarGet, http.MethodGet, "/calendars/{name}"},
	{jet.CalendarApply, http.MethodPut, "/calendars/{name}"},
	{jet.CalendarRemove, http.MethodDelete, "/calendars/{name}"},
	{jet.ScheduleList, http.MethodGet, "/schedules"},
	{jet.ScheduleGet, http.MethodGet, "/schedules/{name}"},
	{jet.ScheduleApply, http.MethodPut, "/schedules/{name}"},
	{jet.ScheduleRemove, http.MethodDelete, "/schedules/{name}"},
	{jet.SchedulePause, http.MethodPost, "/schedules/{name}/pause"},
	{jet.ScheduleResume, http.MethodPost, "/schedules/{name}/resume"},
	{jet.ScheduleRun, http.MethodPost, "/schedules/{name}/run"},
	{jet.ScheduleNext, http.MethodGet, "/schedules/{name}/next"},
	{jet.ScheduleNext, http.MethodGet, "/ticks"},

	{jet.FilesList, http.MethodGet, "/files"},
	{jet.FilesGet, http.MethodGet, "/files/{version}"},
	{jet.FilesDiff, http.MethodGet, "/files/{version}/diff"},
	{jet.FilesVerify, http.MethodGet, "/files/{version}/verify"},
	{jet.FilesRemove, http.MethodDelete, "/files/{name}"},

	{jet.ServerHealth, http.MethodGet, "/health"},
}

// operation is a route with its endpoint, as requests and the document need it.
type operation struct {
	route
	endpoint api.Endpoint
	fields   map[string]reflect.Type // of the request, by their names in JSON
	named    []string                // those of the path
}

// operations are all of them, in the order of the table.
func operations() []operation {
	by := map[jet.Verb]api.Endpoint{}
	for _, e := range api.Endpoints() {
		by[e.Verb] = e
	}
	all := make([]operation, len(routes))
	for i, r := range routes {
		o := operation{route: r, endpoint: by[r.verb], fields: map[string]reflect.Type{}}
		fieldsOf(o.endpoint.Request, o.fields)
		for part := range strings.SplitSeq(r.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				o.named = append(o.named, strings.TrimSuffix(name, "}"))
			}
		}
		all[i] = o
	}
	return all
}

// fieldsOf collects the fields of a type by their names in JSON, those of embedded ones where no other has the name.
func fieldsOf(t reflect.Type, into map[string]reflect.Type) {
	var within []reflect.Type
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			within = append(within, f.Type)
		case f.IsExported() && name != "-" && name != "" && into[name] == nil:
			into[name] = f.Type
		}
	}
	for _, t := range within {
		fieldsOf(t, into)
	}
}
