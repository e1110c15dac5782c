package httpapi

import (
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"millrace/service/answers"
)

// declaration is what the document says of answers.
type declaration struct {
	mux *http.ServeMux // finds operations
	of  map[string]map[string]declaredAnswer
}

type declaredAnswer struct {
	Ref     string `json:"$ref"`
	Headers map[string]struct{ Description string }
	Content map[string]any
}

var declared = sync.OnceValue(func() declaration {
	is := declaration{http.NewServeMux(), map[string]map[string]declaredAnswer{}}
	text, err := json.Marshal(Document("0.0.0"))
	if err != nil {
		panic(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]declaredAnswer
		}
		Components struct{ Responses map[string]declaredAnswer }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		panic(err)
	}
	for at, methods := range doc.Paths {
		for method, o := range methods {
			pattern := strings.ToUpper(method) + " " + at
			for status, answer := range o.Responses {
				if answer.Ref != "" {
					ref := answer.Ref
					answer = doc.Components.Responses[path.Base(ref)]
					answer.Ref = ref
					o.Responses[status] = answer
				}
			}
			is.of[pattern] = o.Responses
			is.mux.HandleFunc(pattern, func(http.ResponseWriter, *http.Request) {})
		}
	}
	return is
})

// namedHeaders are the headers of answers that the document names.
var namedHeaders = []string{"ETag", "Retry-After", "WWW-Authenticate", "Content-Disposition"}

// undeclared returns what is wrong with an answer to a request, if it is one to an operation that
// the document has: a status, a kind of problem, a media type or a header that it does not have.
func undeclared(method, target string, got answer) string {
	u, err := url.Parse(target)
	if err != nil || !whole(u.EscapedPath()) {
		return ""
	}
	if method == http.MethodHead {
		method = http.MethodGet
	}
	_, pattern := declared().mux.Handler(&http.Request{Method: method, URL: u})
	if pattern == "" {
		return ""
	}
	is, ok := declared().of[pattern][strconv.Itoa(got.status)]
	if !ok {
		return pattern + ": the document has no answer " + strconv.Itoa(got.status)
	}
	for _, name := range namedHeaders {
		if _, ok := is.Headers[name]; ok != (got.header.Get(name) != "") && !strings.HasPrefix(got.header.Get("Content-Type"), "text/event-stream") {
			return pattern + ": the document and the answer differ in the header " + name
		}
	}
	kind, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	if _, ok := is.Content[kind]; !ok && got.status != http.StatusNotModified {
		return pattern + ": the document has no " + kind
	}
	var p answers.Problem
	if got.status >= 400 && json.Unmarshal(got.body, &p) == nil {
		if name := strings.TrimPrefix(p.Type, "urn:millrace:"); !slices.Contains(strings.Split(path.Base(is.Ref), "."), name) {
			return pattern + ": the document has no problem " + name
		}
	}
	return ""
}

// Each parameter, each header, each field and each answer is described.
func TestDocumentDescribes(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(Document("0.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var look func(at string, of any)
	described := func(at string, of any) {
		if is, _ := of.(map[string]any); is["description"] == nil && is["$ref"] == nil {
			t.Errorf("%s is not described", at)
		}
	}
	look = func(at string, of any) {
		switch of := of.(type) {
		case []any:
			for i := range of {
				if strings.HasSuffix(at, "/parameters") {
					described(at+"/"+strconv.Itoa(i), of[i])
				}
				look(at+"/"+strconv.Itoa(i), of[i])
			}
		case map[string]any:
			for name, is := range of {
				if within := path.Base(at); within == "headers" || within == "responses" || within == "properties" || within == "schemas" {
					described(at+"/"+name, is)
				}
				look(at+"/"+name, is)
			}
		}
	}
	look("", doc)
}
