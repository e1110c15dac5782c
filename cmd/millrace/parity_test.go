package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/internal/cli/clitest"
	"millrace/internal/cli/verb"
	"millrace/service/answers"
	"millrace/service/httpapi"
)

// overHTTP names for each command that is no part of the entry of a verb the requests by which the
// service over HTTP does the same, or the reason why it does not.
var overHTTP = map[string]string{
	"run": "POST /tasks, GET /tasks/{id}/wait, POST /bulk", "plan": "POST /plan", "verify": "GET /verify, GET /rows",

	"task ls": "GET /tasks", "task show": "GET /tasks/{id}", "task why": "GET /tasks/{id}/why", "task tree": "GET /tasks/{id}/tree", "task diff": "GET /tasks/{id}/diff",
	"task events": "GET /tasks/{id}/events", "task attempts": "GET /tasks/{id}/events", "task logs": "GET /tasks/{id}/output", "task artifacts": "GET /tasks/{id}/artifacts, GET /files/{version}/content",
	"task wait": "GET /tasks/{id}/wait", "task copy": "POST /tasks/{id}/copy",
	"task data ls": "GET /tasks/{id}/records", "task data tail": "GET /tasks/{id}/records", "task data export": "GET /tasks/{id}/records",
	"data ls": "GET /tasks/{id}/records", "data tail": "GET /tasks/{id}/records", "data export": "GET /tasks/{id}/records",
	"task trace": "GET /tasks/{id}/trace",

	"dlq ls": "GET /tasks, GET /messages", "dlq show": "GET /tasks/{id}, GET /events", "dlq requeue": "POST /tasks/{id}/retry, POST /tasks/retry",
	"dlq rm":      "POST /tasks/{id}/dismiss, POST /tasks/dismiss, POST /messages/{seq}/dismiss",
	"events tail": "GET /events", "events show": "GET /events", "events export": "GET /events",

	"job ls": "GET /jobs", "job show": "GET /jobs/{name}", "job apply": "PUT /jobs/{name}", "job history": "GET /jobs/{name}/history", "job diff": "GET /jobs/{name}/diff",
	"job breaker show": "GET /jobs/{name}/breaker", "job validate": "POST /jobs/validate", "job schema": "GET /schemas/job",
	"calendar ls": "GET /calendars", "calendar show": "GET /calendars/{name}", "calendar apply": "PUT /calendars/{name}",
	"calendar history": "GET /calendars/{name}/history", "calendar diff": "GET /calendars/{name}/diff",
	"schedule ls": "GET /schedules", "schedule show": "GET /schedules/{name}", "schedule add": "PUT /schedules/{name}",
	"schedule run": "POST /schedules/{name}/run", "schedule backfill": "POST /schedules/{name}/backfill, GET /schedules/{name}/backfill", "schedule next": "GET /ticks, GET /schedules/{name}/next", "schedule diff": "GET /schedules/{name}/diff",

	"queue ls": "GET /queues", "queue show": "GET /queues/{queue}",
	"queue limit": "POST /queues/{queue}/limit", "queue purge": "POST /queues/{queue}/purge", "limit ls": "GET /limits", "limit show": "GET /limits",

	"node ls": "GET /nodes", "node show": "GET /nodes/{id}", "node events": "GET /events", "node wait": "GET /nodes/{id}/wait",
	"node ping": "GET /nodes/{id}/ping, GET /pings",

	"files ls": "GET /files", "files show": "GET /files/{version}", "files diff": "GET /files/{version}/diff", "files verify": "GET /files/{version}/verify",
	"files pull": "GET /files/{version}/content", "files push": "PUT /files/{name}", "files gc": "POST /files/gc",

	"diff": "GET /diff", "replay": "GET /replay", "whatif": "POST /whatif",
	"incident export": "no: it makes a file", "incident open": "no: it reads a file", "incident import": "no: it reads a file", "events import": "no: it makes a data directory", "incident show": "no: it reads a file",
	"ipc": "no: it is for programs of tasks, on their node", "token": "no: that takes the command line, docs/access.md says why", "nats permissions": "no: it is of the NATS server",
	"api openapi": "no: /openapi.json, beside what the document has", "config": "no: it is of the machine where it is typed", "version": "no: it is of the program; /openapi.json has that of the server",
	"bench": "no: a process", "chaos": "no: a process", "demo": "no: a process", "dev": "no: a process", "server": "no: a process", "worker": "no: a process",
	"exit-codes": "no: of the command line", "connection": "no: of the command line",
}

// own says of each command that changes something, and is no part of the entry of a verb, what it does
// that other commands do not.
var own = map[string]string{
	"run":       "it makes tasks of jobs and of command lines, in any number, waits for them and shows what they print",
	"task copy": "it makes a task as run does", "schedule run": "it makes a task as run does",
	"schedule backfill": "it makes tasks one after the other and waits for them",
	"schedule add":      "it reads a schedule from flags, a command line or a file",
	"job apply":         "it reads files, and pushes folders that they name", "calendar apply": "it reads files",
	"queue limit": "its argument and flags are bounds that may be none",
	"queue purge": "it counts what waits before it asks",
	"dlq requeue": "its tasks are dead letters of a kind", "dlq rm": "its arguments are tasks and messages",
	"files push": "it reads a folder", "files gc": "it removes what nobody names",
}

// entryOf returns the requests of the verb whose entry has the command of a path; none if no entry has it.
func entryOf(path string) (requests []string) {
	verbs := []rights.Verb{}
	for _, e := range answers.Endpoints() {
		if e.Command == nil || verb.Path(e.Command) != path {
			continue
		}
		verbs = append(verbs, e.Verb)
		if many := e.Command.Many; many != nil {
			verbs = append(verbs, many.Verb, rights.TasksCount)
		}
	}
	for _, e := range answers.Endpoints() {
		for _, r := range e.Routes {
			if slices.Contains(verbs, e.Verb) {
				requests = append(requests, r.Method+" "+r.Path)
			}
		}
	}
	return requests
}

// A command that changes something is part of the entry of a verb, or it is said why it is not.
func TestOwnCommands(t *testing.T) {
	t.Parallel()
	reads := map[string]bool{}
	for _, e := range answers.Endpoints() {
		for _, r := range e.Routes {
			reads[r.Method+" "+r.Path] = e.Verb.Access() == rights.Reading
		}
	}
	found := map[string]bool{}
	for path, requests := range overHTTP {
		if len(entryOf(path)) > 0 {
			t.Errorf("millrace %s is part of the entry of a verb, which has its requests", path)
		}
		changes := !strings.HasPrefix(requests, "no: ") && slices.ContainsFunc(strings.Split(requests, ", "), func(r string) bool {
			return !reads[r] && r != "GET /files/{version}/content"
		})
		if found[path] = changes; changes && own[path] == "" {
			t.Errorf("millrace %s changes something: make it part of the entry of a verb, or say why it is not", path)
		}
	}
	for path := range own {
		if !found[path] {
			t.Errorf("millrace %s changes nothing, or there is no such command", path)
		}
	}
}

// presentOverHTTP says of commands with --at why no request of theirs takes a moment.
var presentOverHTTP = map[string]string{
	"plan":        "no request holds the nodes of then against a job",
	"task logs":   "batches of lines have the time when they were stored",
	"node events": "facts have their sequences: it is those up to one",
	"job history": "facts have their sequences: it is those up to one", "calendar history": "facts have their sequences: it is those up to one",
	"job breaker show": "its facts are in the log",
	"files ls":         "versions have the time when they were pushed",
}

// Each verb of the command line has its requests over HTTP, or a reason to have none; and so it is
// with its --at.
func TestCommandsOverHTTP(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(httpapi.Document("0.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name string }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	said := map[string]bool{}
	clitest.Each(testRoot(), func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if len(entryOf(path)) > 0 {
			return
		}
		if c.Hidden || c.HasParent() && c.Parent().Hidden || c.HasAvailableSubCommands() && overHTTP[path] == "" || path == "" {
			return
		}
		// An entry for a noun holds for its verbs.
		for at := path; ; at = at[:max(0, strings.LastIndexByte(at, ' '))] {
			if at == "" {
				t.Errorf("millrace %s: nothing says by which requests the service over HTTP does this, or why not", path)
				return
			}
			if overHTTP[at] != "" {
				said[at] = true
				break
			}
		}
		flag := c.Flags().Lookup("at")
		if flag == nil || !strings.HasPrefix(flag.Usage, "as it was at a `moment`") || overHTTP[path] == "" || strings.HasPrefix(overHTTP[path], "no: ") {
			return
		}
		has := false
		for request := range strings.SplitSeq(overHTTP[path], ", ") {
			method, at, _ := strings.Cut(request, " ")
			for _, p := range doc.Paths["/api/v1"+at][strings.ToLower(method)].Parameters {
				has = has || p.Name == "at"
			}
		}
		if why := presentOverHTTP[path]; has == (why != "") {
			t.Errorf("millrace %s has --at, a request of it takes at: %t, the reason to take none: %q", path, has, why)
		}
	})
	for _, path := range slices.Sorted(maps.Keys(overHTTP)) {
		if !said[path] {
			t.Errorf("there is no command millrace %s", path)
		}
		if strings.HasPrefix(overHTTP[path], "no: ") {
			continue
		}
		for request := range strings.SplitSeq(overHTTP[path], ", ") {
			method, at, _ := strings.Cut(request, " ")
			if _, ok := doc.Paths["/api/v1"+at][strings.ToLower(method)]; !ok {
				t.Errorf("millrace %s: the document has no %s", path, request)
			}
		}
	}
}
