package pages

import (
	"context"
	"encoding/json"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/service/answers"
	"millrace/service/httpapi"
	"millrace/task"
)

// seenWithin is how long an action waits for lists to show its effect.
const seenWithin = 2 * time.Second

// act performs a verb of the service for a button: the fields of its form, and those in its
// address, are the fields of the request. Then it redirects to the page of the button, or to the
// new task.
func (l *look) act(http.ResponseWriter) error {
	verb := rights.Verb(l.r.PathValue("verb"))
	switch access := verb.Access(); {
	case access == "" || access == rights.Reading:
		return answers.ErrNothing
	case !l.caller.Role.May(verb):
		return answers.ErrRole
	}
	back := l.r.Form.Get("back")
	l.r.Form.Del("back")
	request, err := httpapi.Form(verb, l.r.Form)
	if err != nil {
		return err
	}
	var made struct{ ID string }
	var answer json.RawMessage
	if err := l.ask(l.r.Context(), verb, request, &answer); err != nil {
		return err
	}
	l.site.settle(l.r.Context())
	if verb.Access() == rights.Submitting && json.Unmarshal(answer, &made) == nil && made.ID != "" {
		back = "/tasks/" + made.ID
	}
	return elsewhere(back)
}

// settle waits until lists show what is in the log by now, for a while.
func (s *Site) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	last, err := s.server.Desk.Last(ctx)
	for err == nil && s.server.Desk.Reached() < last {
		err = s.server.Desk.News(ctx, s.server.Desk.Reached())
	}
}

// seeOther redirects to a page. A path that is not a page's leads to the first page.
func seeOther(w http.ResponseWriter, r *http.Request, to string) {
	is, err := url.Parse(to)
	if err != nil || is.IsAbs() || is.Host != "" || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.Contains(to, "..") || strings.ContainsRune(to, '\\') {
		is = &url.URL{Path: "/"}
	}
	at := base(r.URL.EscapedPath()) + strings.TrimPrefix(is.EscapedPath(), "/")
	if is.RawQuery != "" {
		at += "?" + is.RawQuery
	}
	w.Header().Set("Location", at)
	w.WriteHeader(http.StatusSeeOther)
}

// said is a part of a sentence of Millrace: words, a command line, or what a button does instead of it.
type said struct {
	Text, Code string
	button
}

// button does what a command line does.
type button struct {
	Verb           string // "" for none
	Label, Of, Why string
	ID             string
	Fields         []field
}

// buttons are the command lines that a page has a button for, by what they begin with; what follows is whom they
// are about.
var buttons = map[string]button{
	"millrace queue resume ":  {Verb: string(rights.QueueResume), Label: "Resume", Of: "queue", Why: "Its tasks start again."},
	"millrace task signal ":   {Verb: string(rights.TaskSignal), Label: "Signal", Of: "id", Why: "It is given the signal that it waits for.", Fields: fields("data", "Data, as JSON", "", true)},
	"millrace node undrain ":  {Verb: string(rights.NodeUndrain), Label: "Undrain", Of: "id", Why: "It takes new work again."},
	"millrace node uncordon ": {Verb: string(rights.NodeUncordon), Label: "Uncordon", Of: "id", Why: "It takes new work again."},
	"millrace node release ":  {Verb: string(rights.NodeRelease), Label: "Release", Of: "id", Why: "It takes new work at once."},
	"millrace node retire ":   {Verb: string(rights.NodeRetire), Label: "Retire", Of: "id", Why: "It does not come back."},
}

// Prompts takes a sentence apart that tells a person what to do: its commands become buttons, where the caller may
// press them.
func (l *look) Prompts(text string) (all []said) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 0 {
			if n := len(all); n > 0 && all[n-1].Verb != "" {
				part = strings.TrimPrefix(part, ")")
			}
			all = append(all, said{Text: part})
			continue
		}
		is := said{Code: part}
		for words, b := range buttons {
			if id, ok := strings.CutPrefix(part, words); ok && !strings.ContainsAny(id, " <") && l.Acts(b.Verb) {
				is.button = b
				is.ID = id
				before := &all[len(all)-1]
				before.Text = strings.TrimSuffix(before.Text, "(")
			}
		}
		all = append(all, is)
	}
	return all
}

// stamps are times in the texts of Millrace, which are in UTC.
var stamps = regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z|\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} has not come yet`)

// clocks shows a text in which times are on the clock of the page.
func clocks(text string) template.HTML { return marked(text, stamps) }

// marked shows a text in which what matches is an id or a time.
func marked(text string, of *regexp.Regexp) template.HTML {
	var b strings.Builder
	done := 0
	for _, at := range of.FindAllStringIndex(text, -1) {
		is := text[at[0]:at[1]]
		stamp := strings.TrimSuffix(is, " has not come yet")
		when, err := time.Parse(time.RFC3339, strings.TrimSuffix(strings.Replace(stamp, " ", "T", 1), "Z")+"Z")
		switch {
		case wholeIDs.MatchString(is):
			is = `<abbr class="id" title="` + is + `">` + task.ID(is).Short() + `</abbr>`
		case err != nil:
			continue
		default:
			utc := when.UTC().Format(time.RFC3339Nano)
			is = `<time datetime="` + utc + `" title="` + utc + `">` + when.UTC().Format(time.DateTime) + ` UTC</time>` + is[len(stamp):]
		}
		b.WriteString(template.HTMLEscapeString(text[done:at[0]]) + is)
		done = at[1]
	}
	// All that is foreign is escaped.
	return template.HTML(b.String() + template.HTMLEscapeString(text[done:]))
}
