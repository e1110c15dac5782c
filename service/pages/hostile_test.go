package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"millrace/task/job"
	"millrace/task/output"
	"millrace/task/param"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/incident"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// saidBy makes events of all types, each with a fact about something that has the text as its name,
// unless that is a task.
func saidBy(text string, id task.ID) []events.Fact {
	about := func(f events.Fact, all ...any) (facts []events.Fact) {
		for _, e := range all {
			f.Event = e
			facts = append(facts, f)
		}
		return facts
	}
	list := [][]events.Fact{
		// First, for what is before goes.
		about(events.Fact{}, &task.HorizonChosen{}, &task.HorizonSealed{}, &task.HorizonCarried{}, &task.HorizonPurged{}, &task.ArchiveRemoved{}),
		about(events.Fact{Def: task.Named(task.DefJob, text)}, &task.DefinitionApplied{}, &task.DefinitionCarried{}),
		about(events.Fact{Def: task.Named(task.DefSchedule, text)}, &task.DefinitionApplied{}, &task.SchedulePaused{}, &task.ScheduleResumed{}),
		about(events.Fact{Def: task.Named(task.DefCalendar, text)}, &task.DefinitionApplied{}, &task.DefinitionRemoved{}),
		about(events.Fact{Schedule: text}, &task.ScheduleFired{}, &task.ScheduleAdmitted{}, &task.ScheduleSkipped{}, &task.ScheduleQueued{}),
		about(events.Fact{Node: node.ID(text)}, &node.Registered{}, &node.WentOnline{}, &node.BecameReady{}, &node.Drained{}, &node.Changed{}, &node.Labelled{}, &node.WasQuarantined{}, &node.WasReleased{}, &node.WentOffline{}),
		about(events.Fact{Node: node.ID("gone " + text)}, &node.Registered{}, &node.WasRetired{}, &node.Carried{}),
		about(events.Fact{Queue: text}, &queue.Carried{}, &queue.Paused{}, &queue.Limited{}, &queue.Purged{}, &queue.Resumed{}, &queue.Paused{}),
		about(events.Fact{Job: text}, &limit.Opened{}, &limit.HalfOpened{}, &limit.Tried{}, &limit.Closed{}, &task.JobTallied{}),
		about(events.Fact{Key: text}, &birth.KeyClaimed{}),
		about(events.Fact{Scope: "job.a"}, &task.Granted{}),
		about(events.Fact{}, &task.CopiesRestored{}),
		about(events.Fact{Message: 7}, &task.MessageDismissed{}),
		about(events.Fact{Task: id}, &task.Submitted{}, &task.Queued{}, &task.Due{}, &task.Unheld{}, &task.Reassigned{}, &task.Postponed{}, &task.Collapsed{}, &task.Throttled{}, &task.AttemptStarted{}, &task.AttemptExtended{}, &task.AttemptAdopted{}, &task.AttemptStepped{}, &task.AttemptParked{},
			&task.AttemptFailed{}, &task.AttemptReleased{}, &task.AttemptLost{}, &task.AttemptLate{}, &task.Expanded{}, &task.CancelRequested{}, &task.CancelConfirmed{}, &task.Reopened{}, &task.Concluded{}, &task.AttemptFinished{}, &task.GivenUp{}, &task.Dismissed{}, &task.Carried{}, &task.Kept{}),
	}
	var all []events.Fact
	for _, facts := range list {
		all = append(all, facts...)
	}
	return all
}

// placed returns the kind and the subject of a fact, which follow from what it is about.
func placed(f *events.Fact) (events.Kind, string) {
	switch f.Event.(type) {
	case task.Carried, task.DefinitionCarried:
		return events.KindCarried, "mr.carried." + f.About()
	case task.JobTallied:
		return events.KindTally, "mr.tally." + f.Job
	case task.HorizonEvent:
		return events.KindHorizon, "mr.horizon"
	}
	switch {
	case f.Task != "":
		return events.KindChain, "mr.task." + string(f.Task)
	case f.Def != "":
		return events.KindDefinition, "mr.def." + string(f.Def)
	case f.Schedule != "":
		return events.KindTick, "mr.tick." + f.Schedule
	case f.Node != "":
		return events.KindNode, "mr.node." + string(f.Node)
	case f.Queue != "":
		return events.KindQueue, "mr.queues." + f.Queue
	case f.Job != "":
		return events.KindBreaker, "mr.breaker." + f.Job
	case f.Key != "":
		return events.KindKey, "mr.key." + f.Key
	case f.Scope != "":
		return events.KindLimit, "mr.admit." + string(f.Scope)
	case f.Message != 0:
		return events.KindDead, "mr.dead.7"
	}
	return events.KindCopies, "mr.copies"
}

// utter sets all texts in a value to this one, except those of which only few values are valid.
func utter(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[placement.Route]() && v.Type() != reflect.TypeFor[value.Number]() {
			v.SetString(text)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			utter(v.Elem(), text)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			all, _ := json.Marshal(map[string]any{text: text, "title": text, "run": map[string]any{"argv": []string{text}}, "cron": text, "job": text, "timezone": text}) // a text is always JSON
			v.SetBytes(all)
			return
		}
		for i := range v.Len() {
			utter(v.Index(i), text)
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.Set(it.Key())
			value.Set(it.Value())
			utter(key, text)
			utter(value, text)
			v.Clear()
			v.SetMapIndex(key, value)
			return
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range v.NumField() {
			utter(v.Field(i), text)
		}
	case reflect.Interface:
		if !v.IsNil() {
			v.Set(reflect.ValueOf(text))
		}
	}
}

// The text stands in every field of every fact of a file, the names of jobs, nodes, schedules and
// queues included, which no desk would accept. Every page is harmless, none fails, and every link
// leads somewhere.
func TestHostileFacts(t *testing.T) {
	t.Parallel()
	p := still(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, text := range testkit.Size(hostile[:4], hostile) { // each has hundreds of pages
		text = text[:min(len(text), 1000)] // a fact has 512 kB at most
		id := task.ID(events.NewID(now))
		var records []events.Record
		types := map[events.Type]bool{}
		for i, f := range saidBy(text, id) {
			logtest.Fill(t, f.Event, append([]any{placement.QueueRoute("default", 5)}, logtest.Samples...)...)
			said := text
			if _, whole := f.Event.(*task.Carried); whole { // it says all that the others say
				said = text[:min(len(text), 300)]
			}
			utter(reflect.ValueOf(f.Event).Elem(), said)
			if is, ok := f.Event.(*task.Concluded); ok {
				is.State = task.Finished
			}
			f.Event = reflect.ValueOf(f.Event).Elem().Interface()
			f.ID, f.At, f.Type, f.Actor, f.Cause, f.Corr = events.NewID(now), now, events.TypeOf(f.Event), text, text, text
			types[f.Type] = true
			raw, err := events.Encode(nil, &f)
			if err != nil {
				t.Fatalf("%s: %v", f.Type, err)
			}
			kind, place := placed(&f)
			records = append(records, events.Record{Seq: uint64(i + 1), Stored: now.Add(time.Duration(i) * time.Second), Place: place, Kind: kind, Raw: raw, Fact: f})
		}
		for _, typ := range events.Types {
			if !types[typ] {
				t.Errorf("there is no fact %s", typ)
			}
		}
		var b bytes.Buffer
		if err := incident.WriteAll(&b, incident.Manifest{Around: text, Why: text, Millrace: text, AckWait: text, Settings: map[string]string{text: text}, Made: now}, records); err != nil {
			t.Fatal(err)
		}
		to := p.upload(303, "x.mri", b.Bytes())
		paths := []string{"", "steps?at=2&of=" + url.QueryEscape("node "+text)}
		for _, is := range pages {
			if is.inFiles {
				path := strings.TrimSuffix(strings.TrimPrefix(is.path, "/"), "{$}")
				paths = append(paths, strings.NewReplacer("tasks/{id}", "tasks/"+string(id), "nodes/{id}", "nodes/"+url.PathEscape(text), "{name}", url.PathEscape(text), "{seq}", "3").Replace(path))
			}
		}
		seen := map[string]bool{}
		for i := 0; i < len(paths); i++ {
			for _, at := range []string{"", "at=9"} {
				path := to + paths[i]
				if strings.HasPrefix(paths[i], "/") {
					path = paths[i]
				}
				if at != "" {
					path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + at
				}
				w := httptest.NewRecorder()
				p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
				// No page has a name that is not allowed.
				if w.Code >= 500 || w.Code >= 400 && at == "" && !strings.Contains(path, url.PathEscape(text)) {
					t.Errorf("%.80s of %.20q is answered with %d: %s", path, text, w.Code, w.Body)
				}
				found := p.harmless(path, w.Body.String())
				if i >= 40 || at != "" {
					continue
				}
				from, err := url.Parse("http://site" + path)
				if err != nil {
					t.Fatal(err)
				}
				for _, link := range found {
					next, err := from.Parse(link)
					if err != nil {
						t.Errorf("%.80s leads to %.80s: %v", path, link, err)
						continue
					}
					if strings.HasPrefix(next.Path, to) && !seen[next.RequestURI()] {
						seen[next.RequestURI()] = true
						paths = append(paths, next.RequestURI())
					}
				}
			}
		}
	}
}

// hostile are texts that do harm on a page that does not escape them.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, "{{.Data}}", "javascript:alert(1)",
	"a\x1b[31mred\x1b]8;;http://evil.example\aon", "x\r\ndata: forged\r\n\r\nx", "right\u202Eto left\u2066", "nul\x00", `hx-get="/x" hx-on:click="x"`, "</title></textarea></template>",
	strings.Repeat("w", 5000), "a/b?c#d%2fe", "\u2028line",
}

// Whatever texts come from others, a page has only its own elements and attributes, shows no
// control characters, and loads nothing from elsewhere.
func TestPagesEscape(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.node("w1", ready("w1")...)
	var id task.ID
	for i, text := range testkit.Size(hostile[:8], hostile) {
		p.node(node.ID("n"+strconv.Itoa(i)), node.Registered{Session: "s", Profile: node.Profile{Host: text, Version: text, Labels: map[string]string{"a": text}}}, node.WentOnline{Session: "s", Reason: text})
		if _, err := p.client.PauseQueue(t.Context(), "default", 0, text[:min(len(text), 200)]); err != nil {
			t.Fatal(err)
		}
		s := command("echo", strings.ReplaceAll(text, "\x00", ""))
		s.Labels = map[string]string{"k" + strconv.Itoa(i): text[:min(len(text), 60)]}
		value, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Params = map[string]json.RawMessage{"p": value}
		j := job.Job{Name: "j" + strconv.Itoa(i), Title: text, Description: text, Owner: text, Group: text, Labels: map[string]string{"k": text}, Spec: *s.Spec}
		j.Params.Declared = []param.Param{{Name: "p", Title: text, Description: text, Type: param.String, Enum: []json.RawMessage{value, []byte(`"x"`)}, Default: value}}
		if _, _, err := p.client.Apply(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		id = p.submit(s)
		if err := p.store.Print(p.Context(), output.Lines{Task: id, Attempt: 1, Epoch: 1, Lines: []output.Line{{N: 1, Stream: output.Stdout, Text: text, At: time.Now()}}}); err != nil {
			t.Fatal(err)
		}
		if _, err := p.client.Cancel(p.Context(), id, text[:min(len(text), 200)]); err != nil {
			t.Fatal(err)
		}
		p.seen()
		for _, path := range append(paths(id), "/tasks?q="+url.QueryEscape(`"`+text+`"`), "/"+url.PathEscape(text), "/tasks?at="+url.QueryEscape(text), "/nodes/n"+strconv.Itoa(i), "/jobs/"+j.Name, "/run/job/"+j.Name, "/edit/job?name="+j.Name, "/jobs/"+url.PathEscape(text)) {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			w := httptest.NewRecorder()
			p.ServeHTTP(w, r)
			p.harmless(fmt.Sprintf("%s of %.20q", path, text), w.Body.String())
		}
	}
}

// harmless checks a page against what it may contain, and returns its links.
func (p *place) harmless(what, page string) []string {
	p.Helper()
	all := elements(p.T, page)
	for _, e := range all {
		if is := e.attr["name"]; slices.Contains([]string{"input", "select", "textarea", "button"}, e.name) && slices.Contains(ofForms, is) {
			p.Errorf("%s has a field %s, which hides that of its form from scripts", what, is)
		}
		if slices.Contains([]string{"img", "iframe", "style", "object", "embed", "base"}, e.name) || e.name == "script" && e.attr["src"] == "" {
			p.Errorf("%s has an element %s: %v", what, e.name, e.attr)
		}
		for name := range e.attr {
			if strings.HasPrefix(name, "on") || name == "style" || strings.HasPrefix(name, "hx-") && name != "hx-ignore" {
				p.Errorf("%s has an attribute %s", what, name)
			}
		}
	}
	links := linksOf(all)
	for _, to := range links {
		if !strings.HasPrefix(to, "./") && !strings.HasPrefix(to, "../") {
			p.Errorf("%s leads to %.60s", what, to)
		}
	}
	for _, r := range page {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r)) || r == '\u2028' {
			p.Errorf("%s shows %U", what, r)
			break
		}
	}
	return links
}
