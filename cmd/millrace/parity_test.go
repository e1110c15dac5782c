package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/internal/cli/verb"
	"millrace/service/answers"
	"millrace/service/httpapi"
)

// overHTTP names for each command, of which no entry of a verb speaks, the requests by which the service
// over HTTP does the same, or the reason why it does not.
var overHTTP = map[string]string{
	"dlq requeue":  "POST /tasks/{id}/retry, POST /tasks/retry",
	"dlq rm":       "POST /tasks/{id}/dismiss, POST /tasks/dismiss, POST /messages/{seq}/dismiss",
	"job apply":    "PUT /jobs/{name}",
	"job validate": "POST /jobs/validate", "job schema": "GET /schemas/job",
	"calendar apply": "PUT /calendars/{name}",
	"schedule add":   "PUT /schedules/{name}",
	"cron import":    "PUT /jobs/{name}", "monitor add": "PUT /jobs/{name}", "ping": "POST /monitors/{name}/ping",
	"schedule run": "POST /schedules/{name}/run", "schedule backfill": "POST /schedules/{name}/backfill, GET /schedules/{name}/backfill",
	"queue limit": "POST /queues/{queue}/limit", "queue purge": "POST /queues/{queue}/purge",
	"notify test":  "POST /tasks",
	"files verify": "GET /files/{version}/verify",
	"files pull":   "GET /files/{version}/content", "files push": "PUT /files/{name}", "files gc": "POST /files/gc",
	"incident export": "no: it makes a file", "incident open": "no: it reads a file", "incident import": "no: it reads a file", "events import": "no: it makes a data directory", "backup": "no: it makes a folder", "restore": "no: it makes the streams", "archive": "no: it lies beside the server, who may read its folder reads all", "incident show": "no: it reads a file",
	"ipc": "no: it is for programs of tasks, on their node", "token": "no: that takes the command line, docs/access.md says why", "nats permissions": "no: it is of the NATS server",
	"mcp":         "no: a process; assistants ask the server itself at /mcp",
	"api openapi": "no: /openapi.json, beside what the document has", "config": "no: it is of the machine where it is typed", "version": "no: it is of the program; /openapi.json has that of the server", "upgrade check": "no: it is of the program",
	"bench": "no: a process", "chaos": "no: a process", "demo": "no: a process", "dev": "no: a process", "server": "no: a process", "worker": "no: a process",
	"exit-codes": "no: of the command line", "connection": "no: of the command line",
}

// own says of each command that changes something, and is no part of the entry of a verb, what it does
// that other commands do not.
var own = map[string]string{
	"run":         "it makes tasks of jobs and of command lines, in any number, waits for them and shows what they print",
	"notify test": "it makes a task and waits for it, as run does",
	"task copy":   "it makes a task as run does", "schedule run": "it makes a task as run does",
	"schedule backfill": "it makes tasks one after the other and waits for them",
	"schedule add":      "it reads a schedule from flags, a command line or a file",
	"cron import":       "it reads a crontab", "monitor add": "it makes a job from flags", "ping": "it runs a command, and tries until a server answers",
	"job apply": "it reads files, and pushes folders that they name", "calendar apply": "it reads files",
	"queue limit": "its argument and flags are bounds that may be none",
	"queue purge": "it counts what waits before it asks",
	"dlq requeue": "its tasks are dead letters of a kind", "dlq rm": "its arguments are tasks and messages",
	"files push": "it reads a folder", "files gc": "it removes what nobody names", "archive rm": "it removes what lies beside it, once that is noted",
}

// entered tells whether a command is part of the entry of a verb.
func entered(path string) bool {
	return slices.ContainsFunc(answers.Endpoints(), func(e answers.Endpoint) bool {
		return e.Command != nil && verb.Path(e.Command) == path
	})
}

// requestsOf returns the requests of a command as the entries of verbs have them, else as overHTTP does;
// a reason to have none is the only one.
func requestsOf(path string) (requests []string) {
	if said := overHTTP[path]; said != "" {
		return strings.Split(said, ", ")
	}
	var verbs []rights.Verb
	for _, e := range answers.Endpoints() {
		if slices.Contains(e.Asked, path) || e.Command != nil && verb.Path(e.Command) == path {
			if verbs = append(verbs, e.Verb); e.Command != nil && e.Command.Many != nil {
				verbs = append(verbs, e.Command.Many.Verb, rights.TasksCount)
			}
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
	reads := map[string]bool{"GET /files/{version}/content": true}
	for _, e := range answers.Endpoints() {
		for _, r := range e.Routes {
			reads[r.Method+" "+r.Path] = e.Verb.Access() == rights.Reading
		}
	}
	found, there := map[string]bool{}, map[string]bool{}
	harness.Each(testRoot(), func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		there[path] = true
		requests := requestsOf(path)
		if entered(path) || len(requests) == 0 || strings.HasPrefix(requests[0], "no: ") {
			return
		}
		found[path] = slices.ContainsFunc(requests, func(r string) bool { return !reads[r] })
		if found[path] && own[path] == "" {
			t.Errorf("millrace %s changes something: make it part of the entry of a verb, or say why it is not", path)
		}
	})
	for path := range own {
		if !found[path] {
			t.Errorf("millrace %s changes nothing, or there is no such command", path)
		}
	}
	for _, e := range answers.Endpoints() {
		for _, path := range e.Asked {
			if !there[path] {
				t.Errorf("%s is asked by millrace %s, which is no command", e.Verb, path)
			}
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
	harness.Each(testRoot(), func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		if c.Hidden || c.HasParent() && c.Parent().Hidden || c.HasAvailableSubCommands() && overHTTP[path] == "" || path == "" {
			return
		}
		requests := requestsOf(path)
		// An entry for a noun holds for its verbs.
		for at := path; ; at = at[:max(0, strings.LastIndexByte(at, ' '))] {
			if at == "" {
				if len(requests) == 0 {
					t.Errorf("millrace %s: nothing says by which requests the service over HTTP does this, or why not", path)
				}
				break
			}
			if overHTTP[at] != "" {
				said[at] = true
				break
			}
		}
		flag := c.Flags().Lookup("at")
		if flag == nil || !strings.HasPrefix(flag.Usage, "as it was at a `moment`") || len(requests) == 0 || strings.HasPrefix(requests[0], "no: ") {
			return
		}
		has := false
		for _, request := range requests {
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
