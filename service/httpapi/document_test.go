package httpapi

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/events/logtest"
	"millrace/history/whatif"
	"millrace/service/answers"
	"millrace/service/client"
)

// Each answer matches the document.
func TestDocument(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	var r client.Receipt
	for _, body := range []string{
		`{"spec":{"run":{"argv":["date"]},"retry":{"max":3},"place":{"labels":["zone=eu"]},"concurrency":[{"key":"a","max":1}]},"params":{"a":[1]},"labels":{"zone":"eu"}}`,
		`{"spec":{"steps":[{"name":"a","run":{"argv":["date"]}},{"name":"b","run":{"argv":["date"]},"needs":[{"step":"a"}]}]}}`,
		`{"spec":{"run":{"argv":["date"]},"signal":{}}}`,
	} {
		s.want(200, "POST", prefix+"/tasks", body, &r)
	}
	s.want(200, "POST", prefix+"/queues/crawl/limit", `{"running":4,"waiting":1000,"rate":{"limit":100,"per":"1m"}}`, nil)
	s.want(200, "POST", prefix+"/queues/crawl/pause", `{"for":"1h","reason":"a"}`, nil)
	var page client.ListPage
	s.want(200, "GET", prefix+"/tasks?at_least="+itoa(r.Seq), "", &page)
	values := strings.NewReplacer("{id}", string(r.ID), "{queue}", "crawl", "{name}", "nightly", "{seq}", "1")
	s.documented(&operation{route: route{method: "GET", path: "/tasks"}}, s.send("GET", prefix+"/tasks", ""))
	paths, _ := s.plain["paths"].(map[string]any)
	for _, o := range operations() {
		if _, ok := paths[prefix+o.path].(map[string]any)[strings.ToLower(o.method)]; !ok {
			t.Errorf("the document has no %s %s", o.method, o.path)
			continue
		}
		at := prefix + values.Replace(o.path)
		if strings.HasPrefix(o.path, "/nodes/") {
			at = prefix + strings.ReplaceAll(o.path, "{id}", "node-1")
		}
		// Waits for what does not come.
		if o.method == http.MethodGet && !strings.HasSuffix(o.path, "/wait") {
			got := s.send(o.method, at, "")
			s.documented(&o, got)
			if got.status >= 500 {
				t.Errorf("%s: %s", at, got.body)
			}
		}
	}
	for i := range page.Tasks {
		get := slices.IndexFunc(operations(), func(o operation) bool { return o.path == "/tasks/{id}" && o.method == http.MethodGet })
		s.documented(&operations()[get], s.want(200, "GET", prefix+"/tasks/"+string(page.Tasks[i].ID), "", nil))
	}
}

// What is not there is 404 wherever the document says so, and says so wherever it is.
func TestDocumentOfNothing(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	s.want(200, "PUT", prefix+"/jobs/hello", `{"definition":{"run":{"argv":["date"]}}}`, nil) // the log has a beginning
	for _, o := range operations() {
		if len(o.named) == 0 || o.method == http.MethodPost || o.method == http.MethodPut || o.verb == rights.NodeWait { // a node may still come
			continue
		}
		at := strings.NewReplacer("{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{queue}", "nosuch", "{name}", "nosuch", "{version}", "nosuch").Replace(o.path)
		if strings.HasPrefix(at, "/nodes/") {
			at = strings.Replace(at, "01ARZ3NDEKTSV4RRFFQ69G5FAV", "nosuch", 1)
		}
		switch o.verb {
		case rights.ScheduleProgress:
			at += "?from=2026-02-01&to=2026-02-02"
		case rights.TaskDiff, rights.JobDiff, rights.ScheduleDiff, rights.CalendarDiff:
			at += "?at=end"
		case rights.FilesDiff:
			at += "?with=other"
		}
		if got := s.send(o.method, prefix+at, ""); got.status != 404 {
			t.Errorf("%s %s is answered with %d: %s", o.method, at, got.status, got.body)
		}
	}
}

// A body has the fields that its request takes, all of them and no other.
func TestBodies(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	has := map[string]string{}
	doc := document("0.0.0", operations())
	values := strings.NewReplacer("{id}", "01ARZ3NDEKTSV4RRFFQ69G5FAV", "{queue}", "crawl", "{name}", "nightly", "{seq}", "1")
	for _, o := range operations() {
		if o.reads() {
			continue
		}
		names := []string{}
		if body := o.body(doc.Components.Schemas); body != nil {
			names = slices.Sorted(maps.Keys(body.Content["application/json"].Schema.Properties))
		}
		at := o.method + " " + o.path
		has[at] = strings.Join(names, " ")
		got := s.want(400, o.method, prefix+values.Replace(o.path), `{"nosuch":1}`, nil)
		if said := cmp.Or(strings.Join(names, ", "), "none"); !strings.Contains(string(got.body), `there is no field \"nosuch\" in `+string(o.verb)+"; it takes "+said) {
			t.Errorf("%s: %s", at, got.body)
		}
		read := map[string]json.RawMessage{}
		for _, name := range append(names, o.named...) {
			read[name] = json.RawMessage("null")
		}
		body, err := json.Marshal(read)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Desk.Answer(t.Context(), "ada", &o.endpoint, body); err != nil && strings.Contains(err.Error(), "there is no field") {
			t.Errorf("%s: the document has a field that the service does not take: %v", at, err)
		}
	}
	for at, want := range map[string]string{
		"POST /nodes/{id}/undrain": "reason", "POST /nodes/{id}/drain": "grace reason", "POST /nodes/{id}/retire": "reason",
		"POST /queues/{queue}/pause": "for reason", "POST /queues/{queue}/resume": "reason", "POST /queues/{queue}/limit": "if_revision notify rate reason running waiting window",
		"POST /schedules/{name}/pause": "reason", "POST /schedules/{name}/run": "respect_overlap task", "POST /schedules/{name}/backfill": "dry_run from limit max_parallel to",
		"POST /tasks/{id}/dismiss": "reason", "POST /messages/{seq}/dismiss": "reason", "POST /tasks/signal": "all batch data dry_run filter limit name reason tasks",
	} {
		if has[at] != want {
			t.Errorf("%s takes %q, want %q", at, has[at], want)
		}
	}
}

// A list of states is one of names, in a query and in a body, though a state is a byte in Go.
func TestDocumentNamesStates(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Document("0.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Properties map[string]struct {
			ContentEncoding string
			Items           struct{ Type string }
		}
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Parameters []struct {
				Name   string
				Schema struct {
					Type  any
					Items struct{ Type string }
				}
			}
			RequestBody struct {
				Content map[string]struct{ Schema object }
			}
		}
		Components struct {
			Schemas map[string]object
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	asked := map[string]bool{}
	for _, p := range doc.Paths[prefix+"/tasks"]["get"].Parameters {
		asked[p.Name] = true
		if p.Name == "states" && (p.Schema.Type != "array" || p.Schema.Items.Type != "string") {
			t.Errorf("the states of a query are %+v", p.Schema)
		}
	}
	purge := doc.Paths[prefix+"/queues/{queue}/purge"]["post"].RequestBody.Content["application/json"].Schema
	for of, is := range map[string]object{"a filter": doc.Components.Schemas["client.ListRequest"], "a purge": purge} {
		if is := is.Properties["states"]; is.Items.Type != "string" || is.ContentEncoding != "" {
			t.Errorf("the states of %s are %+v", of, is)
		}
	}
	for _, name := range client.Unchoosing {
		if _, there := doc.Components.Schemas["client.ListRequest"].Properties[name]; there {
			t.Errorf("a filter has the field %s, which chooses nothing", name)
		}
		if !asked[name] {
			t.Errorf("a list cannot be asked with %s", name)
		}
	}
}

// The document knows every field that an answer may have, and takes each answer that has none.
func TestDocumentKnowsAll(t *testing.T) {
	t.Parallel()
	s := open(t, nil)
	for _, o := range operations() {
		for _, fill := range []bool{false, true} {
			v := reflect.New(o.endpoint.Answer)
			if fill && o.endpoint.Answer.Kind() == reflect.Struct {
				into := v
				if v.Elem().NumField() > 0 && v.Elem().Type().Field(0).Anonymous {
					// Beside it a page has fields for the service alone.
					into = v.Elem().Field(0).Addr()
				}
				logtest.Fill(t, into.Interface(), append(logtest.Samples, []events.Record(nil), events.Record{}, whatif.Change{Kind: whatif.Not, Seq: 1, About: "a", What: "b", Follows: []string{"c"}}, whatif.Wait{Queue: "a", Was: whatif.Depth{Most: 1}})...)
			}
			body, err := answers.Encode(v.Elem().Interface())
			if err != nil {
				t.Fatalf("%s: %v", o.verb, err)
			}
			s.documented(&o, answer{200, http.Header{"Content-Type": {"application/json"}}, body})
		}
	}
}
