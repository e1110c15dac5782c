package httpapi

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"millrace/events/jet/rights"
)

// A submission over HTTP takes its trace context from the header, unless it has its own; other
// requests take none.
func TestTraceOfARequest(t *testing.T) {
	t.Parallel()
	const given, other = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
	all := operations()
	submit := all[slices.IndexFunc(all, func(o operation) bool { return o.verb == rights.TaskSubmit })]
	cancel := all[slices.IndexFunc(all, func(o operation) bool { return o.verb == rights.TaskCancel })]
	for name, c := range map[string]struct {
		o            *operation
		header, body string
		want         string
	}{
		"from the header":       {&submit, given, `{"job":"j"}`, given},
		"another one":           {&submit, given, `{"job":"j","trace":"` + other + `"}`, other},
		"none":                  {&submit, "", `{"job":"j"}`, ""},
		"what is none":          {&submit, "x", `{"job":"j"}`, ""},
		"what is no submission": {&cancel, given, `{}`, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(c.body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Traceparent", c.header)
		for _, part := range c.o.named {
			r.SetPathValue(part, "01JNAT00000000000000000001")
		}
		text, err := c.o.read(r)
		var request struct{ Trace string }
		if err != nil || json.Unmarshal(text, &request) != nil || request.Trace != c.want {
			t.Errorf("%s: %s, %v; want %q", name, text, err, c.want)
		}
	}
}

// A query names each field, and each member of a table, once; a list may have several.
func TestFieldsOfAQueryOnce(t *testing.T) {
	t.Parallel()
	all := operations()
	list := all[slices.IndexFunc(all, func(o operation) bool { return o.verb == rights.TaskList })]
	for query, want := range map[string]string{
		"limit=1&limit=2": "limit is there 2 times", "labels[a]=1&labels[a]=2": "labels[a] is there 2 times",
		"labels[a]=1&labels[b]=1": "", "states=error&states=abnormal": "",
	} {
		err := list.query(query, map[string]json.RawMessage{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
