package httpapi

import (
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"millrace/service/answers"
)

// Kinds of problems that come over HTTP alone: with any request, with a body, with what is sent for
// as long as the caller listens.
var (
	anyRefusal = []string{"who", "role", "origin", "plain", "host", "rate"}
	ofBodies   = []string{"too-large", "slow", "media"}
	ofStreams  = []string{"followers"}
)

// refusalsNamed returns kinds of problems.
func refusalsNamed(names ...string) (all []answers.Refusal) {
	for _, name := range names {
		all = append(all, answers.RefusalNamed(name))
	}
	return all
}

// refusals returns the kinds of problems that the operation may come to.
func (o *operation) refusals() []answers.Refusal {
	own := ofBodies
	switch {
	case o.reads() && o.endpoint.Once:
		own = nil
	case o.reads():
		own = ofStreams
	}
	return append(o.endpoint.Refusals(), refusalsNamed(append(slices.Clone(anyRefusal), own...)...)...)
}

// refusals is [operation.refusals] for a carrier.
func (k *carrier) refusals() []answers.Refusal {
	return refusalsNamed(append(append(slices.Clone(anyRefusal), ofStreams...), k.refused...)...)
}

func text(about string) *huma.Param {
	return &huma.Param{Description: about, Schema: &huma.Schema{Type: huma.TypeString}}
}

func header(name, about string) *huma.Param {
	p := text(about)
	p.Name, p.In = name, "header"
	return p
}

var (
	etag = text("names this answer. For what has revisions it begins with the revision, and If-Match takes it.")
	// ofStatus are the headers of refusals.
	ofStatus = map[int]map[string]*huma.Param{
		http.StatusUnauthorized:       {"WWW-Authenticate": text("how to authenticate: with a bearer token")},
		http.StatusTooManyRequests:    {"Retry-After": text("for how many seconds to wait")},
		http.StatusServiceUnavailable: {"Retry-After": text("for how many seconds to wait")},
	}
	ifNoneMatch = header("If-None-Match", "the ETag of an answer that the caller has: if it is still the same, the status is 304")
)

// headers returns the headers that the operation takes.
func (o *operation) headers() (all []*huma.Param) {
	if o.reads() {
		all = append(all, ifNoneMatch, header("Last-Event-ID", "for server-sent events: the id of the last one that the caller has; the stream goes on behind it"))
	}
	if o.fields[seenField].is != nil {
		all = append(all, header("If-Match", "the ETag of a GET, or a revision such as \"3\", on which the change is based: if another one is current, the status is 412"),
			header("If-None-Match", "`*` if there must be none yet: else the status is 412"))
	}
	if o.fields["trace"].is != nil {
		all = append(all, header("Traceparent", "the trace of which the task becomes a part, if the field `trace` names none"))
	}
	return all
}

// responses returns the answers of an operation by status: the good one, and the problems.
// Operations with the same problems of one status share the entry.
func responses(doc *huma.OpenAPI, refusals []answers.Refusal, good string, answer *huma.Response, reads bool) map[string]*huma.Response {
	all := map[string]*huma.Response{good: answer}
	if reads {
		all["304"] = &huma.Response{Description: "the caller has the answer already", Headers: map[string]*huma.Param{"ETag": etag}}
	}
	by := map[int][]answers.Refusal{}
	for _, is := range refusals {
		if !slices.Contains(by[is.Status], is) {
			by[is.Status] = append(by[is.Status], is)
		}
	}
	for status, kinds := range by {
		slices.SortFunc(kinds, func(a, b answers.Refusal) int { return strings.Compare(a.Name, b.Name) })
		var names, words []string
		for _, is := range kinds {
			names = append(names, is.Name)
			words = append(words, is.Title+" (`urn:millrace:"+is.Name+"`)")
		}
		name := strings.Join(names, ".")
		if doc.Components.Responses[name] == nil {
			doc.Components.Responses[name] = &huma.Response{
				Description: strings.Join(words, ". ") + ".", Headers: ofStatus[status],
				Content: map[string]*huma.MediaType{"application/problem+json": {Schema: doc.Components.Schemas.Schema(reflect.TypeFor[answers.Problem](), true, "")}},
			}
		}
		all[strconv.Itoa(status)] = &huma.Response{Ref: "#/components/responses/" + name}
	}
	return all
}
