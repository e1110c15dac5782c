package httpapi

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"millrace/events/jet/rights"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task/birth"
	"millrace/task/value"
)

// wrong returns an error in a request.
func wrong(format string, args ...any) error { return client.Wrongf(format, args...) }

// reads tells whether a request has its fields in the query. HEAD is a GET for the headers alone.
func reads(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// read turns an HTTP request into the JSON that the endpoint takes.
func (o *operation) read(r *http.Request) ([]byte, error) {
	request := map[string]json.RawMessage{}
	if reads(r) {
		if err := o.query(r.URL.RawQuery, request); err != nil {
			return nil, err
		}
	} else {
		if r.URL.RawQuery != "" {
			return nil, wrong("%s takes no query: what it wants stands in the body", o.verb)
		}
		if err := readBody(r, request); err != nil {
			return nil, err
		}
		if err := o.knows(request); err != nil {
			return nil, err
		}
	}
	if err := o.condition(r, request); err != nil {
		return nil, err
	}
	if parent := r.Header.Get("Traceparent"); o.fields["trace"].is != nil && request["trace"] == nil && birth.ValidTrace(parent) {
		request["trace"] = json.RawMessage(strconv.Quote(parent))
	}
	for _, name := range o.named {
		value, err := valueOf(o.fields[name].is, name, r.PathValue(name))
		if err != nil {
			return nil, err
		}
		request[name] = value
	}
	return value.JSON(request)
}

// seenField is the field with the revision that a change is based on.
const seenField = "if_revision"

// condition turns a condition in the headers into a field of the request. If-Match holds an ETag,
// or a revision; If-None-Match with a star means that there must be none. If the verb takes no
// condition, the request is refused: else the caller would believe that the condition held.
func (o *operation) condition(r *http.Request, into map[string]json.RawMessage) error {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	if reads(r) || match == "" && none == "" {
		return nil
	}
	seen, ok := revisionIn(match)
	if match == "" {
		seen, ok = 0, none == "*"
	}
	switch {
	case o.fields[seenField].is == nil:
		return wrong("%s takes neither If-Match nor If-None-Match", o.verb)
	case !ok || match != "" && none != "":
		return wrong("want If-Match with the ETag of a GET, or with a revision such as \"3\"; or If-None-Match: *, for what is not there yet")
	case into[seenField] != nil:
		return wrong("%s is in the headers: leave it out of the body", seenField)
	}
	into[seenField] = strconv.AppendUint(nil, seen, 10)
	return nil
}

// revisionIn returns the revision at the beginning of an ETag.
func revisionIn(tag string) (uint64, bool) {
	tag = strings.TrimPrefix(tag, "W/")
	if len(tag) > 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
		tag = tag[1 : len(tag)-1]
	}
	tag, _, _ = strings.Cut(tag, "-")
	n, err := strconv.ParseUint(tag, 10, 64)
	return n, err == nil
}

// readBody reads a JSON object, or nothing.
func readBody(r *http.Request, into map[string]json.RawMessage) error {
	body, err := io.ReadAll(r.Body)
	switch kind := r.Header.Get("Content-Encoding"); {
	case kind != "" && !strings.EqualFold(kind, "identity") && (len(body) > 0 || err != nil):
		return fmt.Errorf("%w: it is encoded as %q, and is read as it is", answers.ErrMedia, kind)
	case err != nil:
		return unread(err)
	case len(body) == 0:
		return nil
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return fmt.Errorf("%w: it comes as %q", answers.ErrMedia, r.Header.Get("Content-Type"))
	}
	if !json.Valid(body) {
		return wrong("the body is no JSON: %w", value.Plainly(json.Unmarshal(body, new(any))))
	}
	members, err := value.Members(body)
	if errors.As(err, new(*value.Misfit)) {
		return wrong("%w", err)
	} else if err != nil {
		return wrong("the body is no JSON object")
	}
	maps.Copy(into, members)
	return nil
}

// unread says why a body could not be read.
func unread(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return answers.ErrSlow
	case errors.As(err, new(*http.MaxBytesError)):
		return answers.ErrTooLarge
	}
	return wrong("the body has not come: %w", err)
}

// taken returns the names of the fields that a body may have.
func (o *operation) taken() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(o.fields)), func(name string) bool { return slices.Contains(o.named, name) })
}

// asked returns the names of the fields that a query may have.
func (o *operation) asked() []string {
	return slices.DeleteFunc(o.taken(), func(name string) bool { return !askable(o.fields[name].is) })
}

// knows refuses a body with a field that the request does not take.
func (o *operation) knows(body map[string]json.RawMessage) error {
	taken := o.taken()
	for _, name := range slices.Sorted(maps.Keys(body)) {
		switch {
		case slices.Contains(taken, name):
		case slices.Contains(o.named, name):
			return wrong("%s stands in the path: leave it out of the body", name)
		default:
			meant := ""
			if word := value.Word(name, taken); word != "" {
				meant = "; is " + word + " meant?"
			}
			return wrong("there is no field %q in %s; it takes %s%s", name, o.verb, cmp.Or(strings.Join(taken, ", "), "none"), meant)
		}
	}
	return nil
}

// query parses the fields of a request from a query: a list is a repeated name, and a table has its
// keys in brackets, as in labels[zone]=eu.
func (o *operation) query(raw string, into map[string]json.RawMessage) error {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return wrong("the query cannot be read: %w", value.Plainly(err))
	}
	tables := map[string]map[string]string{}
	for key, all := range values {
		name, inner, table := strings.Cut(strings.TrimSuffix(key, "]"), "[")
		t := o.fields[name].is
		if slices.Contains(o.named, name) && !table {
			return wrong("%s stands in the path: leave it out of the query", name)
		}
		if t == nil || table != (t.Kind() == reflect.Map) || slices.Contains(o.named, name) {
			return wrong("there is no field %q to ask for with %s; there are %s", key, o.verb, cmp.Or(strings.Join(o.asked(), ", "), "none"))
		}
		switch {
		case table:
			if tables[name] == nil {
				tables[name] = map[string]string{}
			}
			tables[name][inner] = all[0]
			if len(all) > 1 {
				return wrong("%s is there %d times", key, len(all))
			}
		case t.Kind() == reflect.Slice:
			list := make([]json.RawMessage, len(all))
			for i, text := range all {
				if list[i], err = valueOf(t.Elem(), name, text); err != nil {
					return err
				}
			}
			into[name], err = value.JSON(list)
		case len(all) > 1:
			return wrong("%s is there %d times", name, len(all))
		default:
			into[name], err = valueOf(t, name, all[0])
		}
		if err != nil {
			return err
		}
	}
	for name, table := range tables {
		if into[name], err = value.JSON(table); err != nil {
			return err
		}
	}
	return nil
}

// Form turns the fields of a form into the request of a verb. They have the same names as in a
// query. Empty ones are left out; a field that is neither a text nor a number is JSON.
func Form(verb rights.Verb, fields url.Values) (json.RawMessage, error) {
	o := operation{route: route{verb: verb}}
	for _, e := range answers.Endpoints() {
		if e.Verb == verb {
			o.fields = fieldsOf(e.Request)
		}
	}
	request, plain := map[string]json.RawMessage{}, url.Values{}
	for name, all := range fields {
		all = slices.DeleteFunc(slices.Clone(all), func(text string) bool { return text == "" })
		t := o.fields[name].is
		pointer := t != nil && t.Kind() == reflect.Pointer
		if pointer {
			t = t.Elem()
		}
		switch {
		case len(all) == 0:
		case t != nil && !askable(t):
			if !json.Valid([]byte(all[0])) {
				return nil, wrong("%s is no JSON", name)
			}
			request[name] = json.RawMessage(all[0])
		case pointer:
			value, err := valueOf(t, name, all[0])
			if err != nil {
				return nil, err
			}
			request[name] = value
		default:
			plain[name] = all
		}
	}
	if err := o.query(plain.Encode(), request); err != nil {
		return nil, err
	}
	return value.JSON(request)
}

// valueOf encodes a text as JSON of a type; a type that parses its own text gets a string.
func valueOf(t reflect.Type, name, text string) (json.RawMessage, error) {
	if !reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		switch t.Kind() {
		case reflect.Bool:
			if text != "true" && text != "false" {
				return nil, wrong("%s is %q, want true or false", name, text)
			}
			return json.RawMessage(text), nil
		case reflect.Int, reflect.Int64:
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, wrong("%s is %q, want a number", name, text)
			}
			return strconv.AppendInt(nil, n, 10), nil
		case reflect.Uint64:
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				return nil, wrong("%s is %q, want a number from 0 on", name, text)
			}
			return strconv.AppendUint(nil, n, 10), nil
		}
	}
	return value.JSON(text)
}
