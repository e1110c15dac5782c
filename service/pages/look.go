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
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"millrace/events/jet/rights"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/httpapi"
	"millrace/service/inspect"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/value"
)

// look is one view of a page: the caller, the page, the moment. Templates have it as their $.
type look struct {
	*answers.Sight
	// Title is the title of the page.
	Title string
	// Data is the result of its show.
	Data any
	// At is the moment in the URL, "" for the present.
	At string
	// Live tells that parts are drawn for a follower: then the browser updates ages.
	Live bool
	// Still tells that a browser follows the page only if its user says so: what it shows costs much.
	Still bool

	ages   bool          // a time of a page of the past ages all the same
	moving bool          // the page changes even if the log does not
	file   *inspect.File // the file whose world it is; nil for the server's
	site   *Site
	caller httpapi.Caller
	of     *page
	query  url.Values
	typed  url.Values // in the form of the page
	did    doneTo     // what led to the page
	path   string     // of the request, escaped
	r      *http.Request
}

func (s *Site) newLook(r *http.Request, c httpapi.Caller, p *page, query url.Values) *look {
	return &look{Sight: &answers.Sight{}, Title: p.entry, At: query.Get("at"), site: s, caller: c, of: p, did: doneIn(query), query: query, typed: r.PostForm, path: r.URL.EscapedPath(), r: r, Live: follows(r)}
}

// base leads from a path to where the pages begin. Links begin with it and never with a slash: so
// the prefix of a proxy stays.
func base(path string) string {
	if n := strings.Count(path, "/") - 1; n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// link leads from a path to another one, given by its parts, with a query.
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

// within returns a path among the pages of the same world.
func (l *look) within(parts []string) []string {
	if l.file == nil {
		return parts
	}
	if len(parts) == 0 {
		parts = []string{""} // its overview ends with a slash, so that relative links stay in it
	}
	return append([]string{"incidents", l.file.Name}, parts...)
}

// Opened returns the incident file shown; nil for the server's own log.
func (l *look) Opened() *inspect.File { return l.file }

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

// To leads to a page whose path is a list of parts, as of a sequence; 0 for the same moment.
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

// Here leads to this page with some of its query changed: pairs of names and values, "" removes
// one.
func (l *look) Here(pairs ...string) string {
	query := maps.Clone(l.query)
	for i := 0; i+1 < len(pairs); i += 2 {
		if query.Del(pairs[i]); pairs[i+1] != "" {
			query.Set(pairs[i], pairs[i+1])
		}
	}
	return l.Self() + "?" + query.Encode()
}

// keeping is some of the query of this page: names, and then a pair of a name and its new value.
func (l *look) keeping(names ...string) string {
	last := len(names) - 1
	query := url.Values{names[last-1]: {names[last]}}
	for _, name := range names[:last-1] {
		if l.query.Has(name) {
			query[name] = l.query[name]
		}
	}
	return query.Encode()
}

// Self leads to this page without its query, which forms add.
func (l *look) Self() string { return "./" + l.path[strings.LastIndexByte(l.path, '/')+1:] }

// Back is the address of this page, for an action that redirects to it.
func (l *look) Back() string {
	if len(l.query) == 0 {
		return l.path
	}
	return l.path + "?" + l.query.Encode()
}

// Hidden returns the fields of the query except some, for forms that keep them.
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

// Asked returns a field of the query.
func (l *look) Asked(name string) string { return l.query.Get(name) }

// Asset leads to a file that the page loads.
func (l *look) Asset(name string) string { return base(l.path) + All().Path(name) }

// Base leads to where the pages begin.
func (l *look) Base() string { return base(l.path) }

// Page is the name of the page.
func (l *look) Page() string { return l.of.name }

// Caller returns the caller's name, "" if it is unknown.
func (l *look) Caller() string { return l.caller.Name }

// Leaves tells whether the browser can log the caller out.
func (l *look) Leaves() bool { return l.caller.Browser() }

// entry is a page in the navigation.
type entry struct {
	Name, Link string
	Here       bool
}

// Begin and End are when what the page can show begins and ends, in milliseconds since 1970.
func (l *look) Begin() int64 {
	if l.file != nil {
		return l.file.From.At.UnixMilli()
	}
	return l.site.begins(l.r.Context(), l.Log, l.Point.At).UnixMilli()
}

// End is the other end.
func (l *look) End() int64 {
	if l.file != nil {
		return l.file.To.At.UnixMilli()
	}
	return l.site.server.Desk.Now().UnixMilli()
}

// Entries returns the pages in the navigation that the caller may see.
func (l *look) Entries() (all []entry) {
	for _, p := range pages {
		if p.entry == "" || !l.caller.Role.May(p.verb) || l.file != nil && !p.inFiles || l.file == nil && p.onlyInFiles {
			continue
		}
		var parts []string
		if path := strings.Trim(strings.TrimSuffix(p.path, "{$}"), "/"); path != "" {
			parts = []string{path}
		}
		all = append(all, entry{p.entry, l.Link(parts...), strings.Trim(p.path, "/") == l.under()})
	}
	return all
}

// under returns the path of the page in the navigation to which the page belongs.
func (l *look) under() string {
	first, _, _ := strings.Cut(strings.TrimPrefix(l.of.path, "/"), "/")
	switch first {
	case "bulk":
		return "tasks"
	case "edit":
		return l.r.PathValue("kind") + "s"
	case "run":
		return l.r.PathValue("of") + "s"
	}
	return first
}

// Acts tells whether the caller may perform a verb, and so whether there is a button for it. In the
// past there is none.
func (l *look) Acts(verb string) bool { return !l.Past && l.caller.Role.May(rights.Verb(verb)) }

// May tells whether the caller may use a verb. A file answers none that need more than a view.
func (l *look) May(verb string) bool {
	return l.caller.Role.May(rights.Verb(verb)) && (l.file == nil || verb != string(rights.TaskDiff))
}

// inFile names the incident file that the request is about; "" if it is about the server's log.
func (l *look) inFile() string { return l.r.PathValue("file") }

// see looks at what the request is about, as of its moment.
func (l *look) see(ctx context.Context, look func(context.Context) error) error {
	if l.inFile() == "" {
		return l.site.server.Desk.See(ctx, l.caller.Name, l.At, func(ctx context.Context, sight *answers.Sight) error {
			l.Sight = sight
			return look(ctx)
		})
	}
	f, err := l.fileIn()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	if l.Sight, err = l.site.intoFile(ctx, f, l.At); err != nil {
		return err
	}
	l.file = f
	return look(ctx)
}

// ask performs a verb of the service.
func (l *look) ask(ctx context.Context, verb rights.Verb, request, into any) error {
	if !l.caller.Role.May(verb) {
		verb = verb.Own()
	}
	if !l.caller.Role.May(verb) || l.file != nil {
		return answers.ErrRole
	}
	return l.site.server.Desk.Ask(ctx, l.caller.Name, verb, request, into)
}

// panel is the error of a part of a page. Other parts are shown nevertheless.
type panel struct{ Wrong *answers.Problem }

func (p *panel) fail(err error) {
	if err != nil {
		problem := problemOf(err)
		p.Wrong = &problem
	}
}

// table is a part of a page with rows.
type table[T any] struct {
	panel
	Rows []T
	// More is how many are not shown.
	More int
	// Broken names those that are not valid.
	Broken string
}

// set sets the rows, or why there are none.
func (r *table[T]) set(all []T, err error) *table[T] {
	r.Rows = all
	r.fail(err)
	return r
}

// cut leaves the first rows.
func (r *table[T]) cut(most int) {
	shown := min(len(r.Rows), most)
	r.Rows, r.More = r.Rows[:shown], len(r.Rows)-shown
}

// list is a table whose columns are those of the command line, and some that its template alone fills.
type list[R any] struct {
	table[R]
	columns []term.Column[R]
}

// cell is a heading, or what stands below it.
type cell struct {
	Name, Title, Text string
	At                time.Time
	Number            bool
}

// Heads returns the headings, and Cells what a row has below them.
func (t *list[R]) Heads() []cell { return t.Cells(nil) }

func (t *list[R]) Cells(row *R) (cells []cell) {
	for _, c := range t.columns {
		is := cell{Name: c.Called(), Title: strings.ToLower(c.Title), Number: c.Number}
		if row != nil && c.Cell != nil {
			is.Text = c.Cell(row).Text
		}
		if row != nil && c.At != nil {
			is.At = c.At(row)
		}
		cells = append(cells, is)
	}
	return cells
}

// classes are those of columns that are wide, and of the page's own that have numbers.
var classes = map[string]string{
	"why": "wide", "next step": "wide", "bounds": "wide", "held by": "wide", "used by": "wide", "runs": "wide", "first bytes": "wide",
	"oldest": "num", "held": "num", "tasks": "num", "failed": "num", "p50": "num", "p95": "num",
}

// Class is the class of a cell.
func (c cell) Class() string {
	if c.Number {
		return "num"
	}
	return classes[c.Name]
}

// Moment shows the moment of the page, in the past with its day.
func (l *look) Moment() template.HTML {
	now := *l
	if l.Past { // how long ago it was is from today
		now.Now = l.site.server.Desk.Now()
		now.ages = true
	}
	return now.time(l.Point.At, l.Past)
}

// Time shows a moment, and how long ago it was.
func (l *look) Time(at time.Time) template.HTML { return l.time(at, false) }

// Moments shows a moment without how long ago it was.
func (l *look) Moments(at time.Time) template.HTML {
	text, _, _ := strings.Cut(string(l.time(at, false)), "</time>")
	// Nothing in it is foreign.
	return template.HTML(text + "</time>")
}

// time shows a moment: whole, or without its day if that is the day of the page.
func (l *look) time(at time.Time, whole bool) template.HTML {
	if at.IsZero() {
		return ""
	}
	utc, mark := at.UTC(), ""
	text := utc.Format(time.TimeOnly)
	if whole {
		mark = ` data-whole="1"`
	}
	if y, m, d := l.Now.UTC().Date(); whole || utc.Year() != y || utc.Month() != m || utc.Day() != d {
		text = utc.Format(time.DateTime)
	}
	ago := ""
	switch {
	case l.Past && !l.ages: // it does not grow
		ago = ` <small>(` + ageOf(at, l.Now) + `)</small>`
	case l.Live:
		ago = ` <small class="ago"></small>`
	default:
		ago = ` <small class="ago">(` + ageOf(at, l.Now) + `)</small>`
	}
	stamp := utc.Format(time.RFC3339Nano)
	// Nothing in it is foreign.
	return template.HTML(`<time datetime="` + stamp + `" title="` + stamp + `" tabindex="0"` + mark + `>` + text + `</time>` + ago)
}

func ageOf(at, now time.Time) string {
	age := wording.Age(at, now)
	if at.After(now) {
		return age
	}
	return age + " ago"
}

// For shows how long something has gone on.
func (l *look) For(from time.Time) template.HTML {
	if from.IsZero() {
		return ""
	}
	text := wording.Span(max(l.Now.Sub(from), 0))
	if l.Past {
		return template.HTML(text)
	}
	if l.Live {
		text = ""
	}
	return template.HTML(`<span class="for" data-since="` + from.UTC().Format(time.RFC3339Nano) + `">` + text + `</span>`)
}

// shownName is how much of a command a list shows, and shownParams of parameters.
const (
	shownName   = 60
	shownParams = 120
)

// functions are the functions of templates beside the methods of a look.
var functions = template.FuncMap{
	"span":      func(d any) string { return wording.Span(durationOf(d)) },
	"took":      func(from, to time.Time) string { return wording.Span(max(to.Sub(from), 0)) },
	"json":      pretty,
	"field":     fieldOf,
	"planned":   func(s job.Schedule) string { return wording.Planned(&s) },
	"pairs":     wording.Pairs,
	"given":     given,
	"short":     func(id any) string { return task.ID(fmt.Sprint(id)).Short() },
	"brief":     brief,
	"clocks":    clocks,
	"flat":      view.Flat,
	"there":     there,
	"hyphen":    func(text string) string { return strings.ReplaceAll(text, " ", "-") },
	"nextOf":    nextOfDead,
	"code":      func(t task.Task) string { return wording.Code(&t) },
	"said":      func(t task.Task) string { return wording.Said(&t) },
	"icon":      func(state any) string { return icons[fmt.Sprint(state)] },
	"cut":       func(text string) string { return term.Cut(text, shownName) },
	"count":     count,
	"capital":   capital,
	"text":      func(v any) string { return fmt.Sprint(v) },
	"dict":      dict,
	"clock":     func(at int64) string { return time.Unix(at, 0).UTC().Format(time.TimeOnly) },
	"missing":   wording.Missing,
	"axis":      axisOf,
	"bytes":     wording.ByteCount,
	"busy":      func(m node.Machine) string { return wording.Busy(&m) },
	"filled":    func(m node.Machine) string { return wording.Filled(&m) },
	"processor": func(u *task.Usage) time.Duration { return (u.UserTime + u.SystemTime).Std() },
	"split":     func(text string) []string { return strings.Split(text, "`") },
	"odd":       func(n int) bool { return n%2 == 1 },
	"join":      func(list []string) string { return strings.Join(list, ", ") },
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

// wholeIDs are ids of tasks and batches in a text.
var wholeIDs = regexp.MustCompile(`\b0[0-9A-HJKMNP-TV-Z]{25}\b`)

// briefly are ids and times in a text.
var briefly = regexp.MustCompile(wholeIDs.String() + "|" + stamps.String())

// brief shows a text with its ids in short, and whole where a pointer rests on them, and with its times
// on the clock of the page.
func brief(text string) template.HTML { return marked(text, briefly) }

// dict gives a template several named values.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// given are parameters as one types them, cut.
func given(params json.RawMessage) string {
	var values map[string]json.RawMessage
	_ = json.Unmarshal(params, &values) // without any there are no names
	texts := make(map[string]string, len(values))
	for name, is := range values {
		texts[name] = wording.Value(is)
	}
	return term.Cut(wording.Pairs(texts), shownParams)
}

// capital returns a text as the beginning of a sentence.
func capital(text string) string {
	first, n := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[n:]
}

// count formats a number for people.
func count(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// fieldOf shows the value of a field that has changed, with times of Millrace on the clock of the page.
func fieldOf(field string, value json.RawMessage) template.HTML {
	text, is := wording.Unquoted(value)
	if !is {
		text = pretty(value)
	}
	if wording.OfUsers(field) {
		return template.HTML(template.HTMLEscapeString(text)) // nothing foreign is left in it
	}
	return clocks(text)
}

// pretty formats JSON for people; other text stays as it is.
func pretty(v any) string {
	if raw, ok := v.(json.RawMessage); ok && len(raw) == 0 {
		return ""
	}
	text, err := value.Indented(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}

// rawText returns a message of the log as it was written, indented if it is JSON.
func rawText(raw []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// icons distinguish states without colours. Common fonts have all of them.
var icons = map[string]string{
	"scheduled": "◷", "held": "‖", "pending": "…", "running": "▶", "retrying": "↻", "cancelling": "◌", "finished": "✓", "error": "✗", "cancelled": "⊘", "abnormal": "!",
	"online": "◌", "ready": "✓", "draining": "‖", "quarantined": "!", "offline": "✗", "retired": "⊘",
}
