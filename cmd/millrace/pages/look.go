package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"millrace/api"
	"millrace/cmd/millrace/opened"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/httpapi"
	"millrace/jet/roles"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/value"
)

// look is one look at a page: who looks, at what, as of when. Templates have it as their $.
type look struct {
	*api.Sight
	// Title is what the page is about.
	Title string
	// Data is what its show has found out.
	Data any
	// At is the moment that the URL names, "" for the present.
	At string
	// Live tells that parts are drawn for who follows: what ages is then left to the browser.
	Live bool

	moving bool         // the page changes though the log does not
	file   *opened.File // whose world it is; nil for that of the server
	site   *Site
	caller httpapi.Caller
	page   *page
	query  url.Values
	typed  url.Values // into the form of the page
	path   string     // of the request, escaped
	r      *http.Request
}

func (s *Site) newLook(r *http.Request, c httpapi.Caller, p *page, query url.Values) *look {
	return &look{Sight: &api.Sight{}, Title: p.entry, At: query.Get("at"), site: s, caller: c, page: p, query: query, typed: r.PostForm, path: r.URL.EscapedPath(), r: r, Live: follows(r)}
}

// base leads from a path to where the pages begin. Links begin with it and never with a slash: whatever a proxy puts before the
// path of all pages stays there.
func base(path string) string {
	if n := strings.Count(path, "/") - 1; n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// link leads from a path to another one, of which the parts are given, with a query.
func link(from string, parts []string, query url.Values) string {
	escaped := make([]string, len(parts))
	for i, part := range parts {
		escaped[i] = url.PathEscape(part)
	}
	to := base(from) + strings.Join(escaped, "/")
	if len(query) > 0 {
		to += "?" + query.Encode()
	}
	return to
}

// Link leads to a page, at the same moment.
func (l *look) Link(parts ...string) string { return link(l.path, l.within(parts), l.moment()) }

// within is a path among the pages of the same world.
func (l *look) within(parts []string) []string {
	if l.file == nil {
		return parts
	}
	if len(parts) == 0 {
		parts = []string{""} // its overview ends with a slash, so that what is relative stays in it
	}
	return append([]string{"incidents", l.file.Name}, parts...)
}

// Opened is the incident file at which somebody looks; nil if it is the server's own log.
func (l *look) Opened() *opened.File { return l.file }

func (l *look) moment() url.Values {
	if l.At == "" {
		return nil
	}
	return url.Values{"at": {l.At}}
}

// LinkAt leads to a page as it was at a sequence.
func (l *look) LinkAt(seq uint64, parts ...string) string {
	return link(l.path, l.within(parts), url.Values{"at": {strconv.FormatUint(seq, 10)}})
}

// To leads to a page whose path is a list of parts, as it was at a sequence; 0 for the same moment.
func (l *look) To(seq uint64, parts []string) string {
	if seq == 0 {
		return l.Link(parts...)
	}
	return l.LinkAt(seq, parts...)
}

// LinkWith leads to a page at the same moment, with more in the query: pairs of names and values.
func (l *look) LinkWith(part string, pairs ...string) string {
	query := url.Values{}
	maps.Copy(query, l.moment())
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	var parts []string
	if part != "" {
		parts = strings.Split(part, "/")
	}
	return link(l.path, l.within(parts), query)
}

// Here leads to this page with some of its query changed: pairs of names and values, "" for none.
func (l *look) Here(pairs ...string) string {
	query := maps.Clone(l.query)
	for i := 0; i+1 < len(pairs); i += 2 {
		if query.Del(pairs[i]); pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return l.self() + "?" + query.Encode()
}

// self leads to this page without its query.
func (l *look) self() string {
	last := l.path[strings.LastIndexByte(l.path, '/')+1:]
	return "./" + last
}

// Self is [look.Here] for forms, which make the query.
func (l *look) Self() string { return l.self() }

// Back is where this page is, for an action that leads back to it.
func (l *look) Back() string {
	if len(l.query) == 0 {
		return l.path
	}
	return l.path + "?" + l.query.Encode()
}

// Hidden are the fields of the query but some, for forms that keep them.
func (l *look) Hidden(but ...string) (fields [][2]string) {
	for _, name := range slices.Sorted(maps.Keys(l.query)) {
		if !slices.Contains(but, name) {
			for _, value := range l.query[name] {
				fields = append(fields, [2]string{name, value})
			}
		}
	}
	return fields
}

// Asked is a field of the query.
func (l *look) Asked(name string) string { return l.query.Get(name) }

// Asset leads to a file that the page loads.
func (l *look) Asset(name string) string { return base(l.path) + l.site.assets.path(name) }

// Base leads to where the pages begin.
func (l *look) Base() string { return base(l.path) }

// Page is the name of the page.
func (l *look) Page() string { return l.page.name }

// Caller is who looks, "" for who is not known.
func (l *look) Caller() string { return l.caller.Name }

// Leaves tells whether the browser can forget who the caller is.
func (l *look) Leaves() bool { return l.caller.Browser() }

// entry is a page in the navigation.
type entry struct {
	Name, Link string
	Here       bool
}

// Entries are the pages in the navigation that the caller may see.
func (l *look) Entries() (all []entry) {
	for _, p := range pages {
		if p.entry == "" || !l.caller.Role.May(p.verb) || l.file != nil && !p.inFiles || l.file == nil && p.onlyInFiles {
			continue
		}
		var parts []string
		if path := strings.Trim(strings.TrimSuffix(p.path, "{$}"), "/"); path != "" {
			parts = []string{path}
		}
		all = append(all, entry{p.entry, l.Link(parts...), p.name == l.page.name || strings.HasPrefix(l.page.name, strings.TrimSuffix(p.name, "s"))})
	}
	return all
}

// Acts tells whether the caller may have something done, and so whether there is a button for it. In the past there is none.
func (l *look) Acts(verb string) bool { return !l.Past && l.caller.Role.May(roles.Verb(verb)) }

// May tells whether the caller may ask for something. What takes more than a view is not asked of a file.
func (l *look) May(verb string) bool {
	return l.caller.Role.May(roles.Verb(verb)) && (l.file == nil || verb != string(roles.TaskDiff))
}

// ask has a verb done that only reads.
func (l *look) ask(ctx context.Context, verb roles.Verb, request, into any) error {
	if !l.caller.Role.May(verb) || l.file != nil {
		return api.ErrRole
	}
	return l.site.server.Desk.Ask(ctx, l.caller.Name, verb, request, into)
}

// panel is what a part of a page shows beside what it has: why it could not be found out. Other parts are shown nevertheless.
type panel struct{ Wrong *api.Problem }

func (p *panel) fail(err error) {
	if err != nil {
		problem := api.ProblemOf(err)
		p.Wrong = &problem
	}
}

// Time is a moment, and how long ago it was.
func (l *look) Time(at time.Time) template.HTML {
	if at.IsZero() {
		return ""
	}
	utc := at.UTC()
	text := utc.Format(time.TimeOnly)
	if y, m, d := l.Now.UTC().Date(); utc.Year() != y || utc.Month() != m || utc.Day() != d {
		text = utc.Format(time.DateTime)
	}
	ago := ""
	switch {
	case l.Past: // it does not grow
		ago = ` <small>(` + ageOf(at, l.Now) + `)</small>`
	case l.Live:
		ago = ` <small class="ago"></small>`
	default:
		ago = ` <small class="ago">(` + ageOf(at, l.Now) + `)</small>`
	}
	stamp := utc.Format(time.RFC3339Nano)
	return template.HTML(`<time datetime="` + stamp + `" title="` + stamp + `" tabindex="0">` + text + `</time>` + ago) // nothing of it is foreign
}

func ageOf(at, now time.Time) string {
	age := told.Age(at, now)
	if at.After(now) {
		return age
	}
	return age + " ago"
}

// For is how long something has gone on.
func (l *look) For(from time.Time) template.HTML {
	if from.IsZero() {
		return ""
	}
	text := told.Span(max(l.Now.Sub(from), 0))
	if l.Past {
		return template.HTML(text)
	}
	if l.Live {
		text = ""
	}
	return template.HTML(`<span class="for" data-since="` + from.UTC().Format(time.RFC3339Nano) + `">` + text + `</span>`)
}

// shownName is how much of a command is shown in a list.
const shownName = 60

// functions are what templates call beside the methods of a look.
var functions = template.FuncMap{
	"span":    func(d any) string { return told.Span(durationOf(d)) },
	"took":    func(from, to time.Time) string { return told.Span(max(to.Sub(from), 0)) },
	"json":    pretty,
	"pairs":   told.Pairs,
	"short":   func(id task.ID) string { return id.Short() },
	"icon":    func(state any) string { return icons[fmt.Sprint(state)] },
	"cut":     func(text string) string { return term.Cut(text, shownName) },
	"count":   count,
	"capital": capital,
	"text":    func(v any) string { return fmt.Sprint(v) },
	"dict":    dict,
	"fields":  fields,
	"clock":   func(at int64) string { return time.Unix(at, 0).UTC().Format(time.TimeOnly) },
	"copyOf":  copyOf,
	"rateOf":  rateOf,
	"missing": told.Missing,
	"join":    func(list []string) string { return strings.Join(list, ", ") },
}

func durationOf(d any) time.Duration {
	switch d := d.(type) {
	case value.Duration:
		return d.Std()
	case time.Duration:
		return d
	}
	return 0
}

// dict gives a template several values under names.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// capital is a text as the beginning of a sentence.
func capital(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:]
}

// count is a number that people read.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// pretty is JSON that people read; what is none is shown as it is.
func pretty(v any) string {
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return ""
	}
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// rawText is a message of the log as it was written, laid out if it is JSON.
func rawText(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// icons tell states apart for who does not see colours. All are signs that usual fonts have.
var icons = map[string]string{
	"scheduled": "◷", "held": "‖", "pending": "…", "running": "▶", "retrying": "↻", "cancelling": "◌", "finished": "✓", "error": "✗", "cancelled": "⊘", "abnormal": "!",
	"online": "◌", "ready": "✓", "draining": "‖", "quarantined": "!", "offline": "✗", "retired": "⊘",
}

// field is one of a form.
type field struct {
	Name, Label, Value, Hint string
	Long                     bool
}

// fields are those of a form: name, label, value, and whether it has room for several lines, again and again.
func fields(all ...any) (list []field) {
	for i := 0; i+3 < len(all); i += 4 {
		long, _ := all[i+3].(bool) // templates give one
		list = append(list, field{Name: fmt.Sprint(all[i]), Label: fmt.Sprint(all[i+1]), Value: fmt.Sprint(all[i+2]), Long: long})
	}
	return list
}

// copyOf is what a copy may be told to change: the parameters, as they are.
func copyOf(params any) string {
	if text := jsonOf(params); text != "" {
		return pretty(map[string]json.RawMessage{"params": json.RawMessage(text)})
	}
	return ""
}

// jsonOf is a value as a form has it; "" for none.
func jsonOf(v any) string {
	text, err := json.MarshalIndent(v, "", "  ")
	if is := string(text); err == nil && is != "null" && is != "{}" {
		return is
	}
	return ""
}

// rateOf is a rate as a form has it; "" for none.
func rateOf(r limit.Rate) string {
	if r.Limit == 0 {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil {
		return ""
	}
	return string(text)
}
