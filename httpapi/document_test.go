package httpapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"millrace/api"
	"millrace/client"
	"millrace/events"
	"millrace/events/logtest"
)

// Each answer is as the document says.
func TestDocument(t *testing.T) {
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
		if o.method == http.MethodGet && !strings.HasSuffix(o.path, "/wait") { // for what does not come
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

// The document knows every field that an answer may have, and takes each answer that has none.
func TestDocumentKnowsAll(t *testing.T) {
	s := open(t, nil)
	for _, o := range operations() {
		for _, fill := range []bool{false, true} {
			v := reflect.New(o.endpoint.Answer)
			if fill && o.endpoint.Answer.Kind() == reflect.Struct {
				into := v
				if v.Elem().NumField() > 0 && v.Elem().Type().Field(0).Anonymous {
					into = v.Elem().Field(0).Addr() // beside it a page has what is for the service alone
				}
				logtest.Fill(t, into.Interface(), append(logtest.Samples, []events.Record(nil))...)
			}
			body, err := api.Encode(v.Elem().Interface())
			if err != nil {
				t.Fatalf("%s: %v", o.verb, err)
			}
			s.documented(&o, answer{200, http.Header{"Content-Type": {"application/json"}}, body})
		}
	}
}

// TestHostileRequests sends what the document allows, and what it does not: whatever comes, the answer is one that the document has, and
// nothing fails.
func TestHostileRequests(t *testing.T) {
	s := open(t, nil)
	all := operations()
	var made client.Receipt
	s.want(200, "POST", prefix+"/tasks", `{"spec":{"run":{"argv":["date"]}}}`, &made)
	const seed, rounds = 1, 25
	random := rand.New(rand.NewPCG(seed, seed))
	words := []string{string(made.ID), "01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "a", "crawl", "node-1", "-1", "0", "1", "18446744073709551615", "9223372036854775807", "1e9", "null", "true", "[]", "{}", "..", ".", "/", "%2f", "%00",
		"\x00", "\r\n", "<b>", "ü", "\xff", "*", ">", "a.b", "$JS", "1h", "-1h", "2026-03-01T00:00:00Z", "0001-01-01T00:00:00Z", "running", strings.Repeat("x", 3000), `"`, "'; drop table tasks", "@", "#1", "%"}
	word := func() string { return words[random.IntN(len(words))] }
	value := func(t reflect.Type) any {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		return hostile(random, t, word, 3)
	}
	for range rounds {
		for i := range all {
			o := &all[i]
			if o.path == "/nodes/{id}/wait" || strings.HasSuffix(o.path, "/wait") {
				continue // it waits for what does not come
			}
			path := o.path
			for _, name := range o.named {
				text := cmpOr(random.IntN(3) == 0, string(made.ID), word())
				path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(text))
			}
			body := ""
			query := url.Values{}
			for _, name := range slices.Sorted(maps.Keys(o.fields)) {
				if random.IntN(4) > 0 || name == "at_least" || name == "newer_than" || name == "rates" || slices.Contains(o.named, name) && random.IntN(10) > 0 {
					continue
				}
				query.Add(name, word())
				if o.method != http.MethodGet {
					one, err := json.Marshal(map[string]any{name: value(o.fields[name])})
					if err != nil {
						continue
					}
					if body == "" {
						body = string(one)
					} else {
						body = strings.TrimSuffix(body, "}") + "," + strings.TrimPrefix(string(one), "{")
					}
				}
			}
			at := prefix + path
			if o.method == http.MethodGet {
				at += "?" + query.Encode()
			}
			got, err := s.try(o.method, at, body)
			if err != nil {
				t.Fatalf("%s %q %s: %v", o.method, at, body, err)
			}
			if got.status == 301 || got.status == 307 || got.status == 404 && !strings.Contains(string(got.body), "no-") {
				continue // the path has led elsewhere
			}
			if got.status >= 500 {
				t.Errorf("%s %q %s comes to %d: %s", o.method, at, body, got.status, got.body)
			}
			s.documented(o, got)
		}
		if t.Failed() {
			t.Fatalf("the seed is %d", seed)
		}
	}
}

func cmpOr(first bool, a, b string) string {
	if first {
		return a
	}
	return b
}

// hostile is a value that may be of a type, and may be anything.
func hostile(random *rand.Rand, t reflect.Type, word func() string, deep int) any {
	if random.IntN(6) == 0 {
		return []any{nil, 1, -1, 1.5, "", word(), []any{}, map[string]any{}, true, []any{word()}, map[string]any{word(): word()}}[random.IntN(11)]
	}
	switch t.Kind() {
	case reflect.Bool:
		return random.IntN(2) == 0
	case reflect.Int, reflect.Int64:
		return []any{0, 1, -1, 10, 1 << 40}[random.IntN(5)]
	case reflect.Uint64:
		return random.Uint64()
	case reflect.Slice:
		if deep == 0 || t.Elem().Kind() == reflect.Uint8 {
			return word()
		}
		list := []any{}
		for range random.IntN(3) {
			list = append(list, hostile(random, t.Elem(), word, deep-1))
		}
		return list
	case reflect.Map:
		return map[string]any{strings.ToValidUTF8(word(), ""): word()}
	case reflect.Pointer:
		return hostile(random, t.Elem(), word, deep)
	case reflect.Struct:
		if deep == 0 {
			return word()
		}
		fields := map[string]reflect.Type{}
		fieldsOf(t, fields)
		is := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if random.IntN(4) == 0 {
				is[name] = hostile(random, fields[name], word, deep-1)
			}
		}
		return is
	}
	return fmt.Sprint(word())
}
