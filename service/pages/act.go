package pages

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"millrace/events"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/service/notices"
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
	case !l.caller.Role.May(verb) && !l.caller.Role.May(verb.Own()):
		return answers.ErrRole
	}
	back, thing := l.r.Form.Get("back"), ""
	l.r.Form.Del("back")
	if e := offeredBy(verb); e != nil {
		thing = l.r.Form.Get(e.Of)
	}
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
	} else if to, err := url.Parse(back); err == nil && thing != "" {
		query := to.Query()
		query.Set("did", string(verb))
		query.Set("thing", thing)
		to.RawQuery = query.Encode()
		back = to.String()
	}
	return elsewhere(back)
}

// undoes are the verbs that take each other back.
var undoes = map[rights.Verb]rights.Verb{
	rights.QueuePause: rights.QueueResume, rights.QueueResume: rights.QueuePause, rights.SchedulePause: rights.ScheduleResume, rights.ScheduleResume: rights.SchedulePause,
	rights.NodeDrain: rights.NodeUndrain, rights.NodeUndrain: rights.NodeDrain, rights.NodeCordon: rights.NodeUncordon, rights.NodeUncordon: rights.NodeCordon,
}

// Did is the button that was just pressed, with the entry of the one that takes it back; nil for none.
func (l *look) Did() *button {
	did := offeredBy(l.did.verb)
	if did == nil || l.did.thing == "" || !l.Acts(string(did.Verb)) && !l.caller.Role.May(did.Verb.Own()) {
		return nil
	}
	b := button{ID: l.did.thing}
	if undo := offeredBy(undoes[did.Verb]); undo != nil {
		b = l.button(undo, b.ID, nil)
	} else if slices.Contains(did.Button.On, "tasks") {
		b.ID = task.ID(b.ID).Short()
	}
	b.Label = did.Button.Label
	return &b
}

// doneTo is what was done to a thing just before a page is shown.
type doneTo struct {
	verb  rights.Verb
	thing string
}

// doneIn takes it out of a query.
func doneIn(query url.Values) doneTo {
	is := doneTo{rights.Verb(query.Get("did")), query.Get("thing")}
	query.Del("did")
	query.Del("thing")
	return is
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
	is := httpapi.PageAt(to)
	at := base(r.URL.EscapedPath()) + strings.TrimPrefix(is.EscapedPath(), "/")
	if is.RawQuery != "" {
		at += "?" + is.RawQuery
	}
	w.Header().Set("Location", at)
	w.WriteHeader(http.StatusSeeOther)
}

// linkVerbs are what links in notices do, by the word in their address, and linkDid what others may have done
// meanwhile, by the fact that says so.
var (
	linkVerbs = map[string]rights.Verb{"approve": rights.TaskSignal, "reject": rights.TaskReject, "retry": rights.TaskRetry}
	linkDid   = map[events.Type]string{events.TaskUnheld: "approved", events.TaskReopened: "retried", events.TaskCancelled: "cancelled", events.TaskAbnormal: "ended"}
)

// linked is the page of a link in a notice.
type linked struct {
	notices.Permit
	Of     *task.Task
	Button button
	// Over tells that it is too old. Did is what has been done already, of which Fact tells; nil if nothing was.
	Over bool
	Did  string
	Fact *events.Record
}

// linkPage is the template of the page of a link in a notice.
var linkPage = page{name: "act"}

// link answers whoever shows a link of a notice, which needs no login: GET says what it does, and POST does it.
func (s *Site) link(w http.ResponseWriter, r *http.Request) {
	who, _ := r.Context().Value(callerKey{}).(func() (httpapi.Caller, error)) // set by Serve
	l := s.newLook(r, httpapi.Caller{}, &linkPage, url.Values{})
	_, err := who() // a stranger, mostly, who may not try links without end
	if often, ok := errors.AsType[*answers.TooOften](err); ok {
		s.refuse(w, r, l.caller, often)
		return
	}
	is, err := l.linked()
	if err == nil && r.Method == http.MethodPost {
		if !is.Over && is.Did == "" {
			err = l.press(is)
		}
		if err == nil {
			seeOther(w, r, r.URL.EscapedPath())
			return
		}
	}
	var body []byte
	if err == nil {
		l.Data, l.Title = is, is.Button.Label
		body, err = s.shapes()["act"].whole(l)
	}
	if err != nil {
		s.refuse(w, r, l.caller, err)
		return
	}
	s.server.Send(w, r, "text/html; charset=utf-8", body)
}

// linked finds out what a link does, or who was faster.
func (l *look) linked() (is *linked, err error) {
	verb := offeredBy(linkVerbs[l.r.PathValue("do")])
	notice, secret, err := notices.LinkOf(l.r.PathValue("key"))
	if verb == nil || err != nil {
		return nil, answers.ErrNothing
	}
	err = l.site.server.Desk.See(l.r.Context(), "notice", "", func(ctx context.Context, sight *answers.Sight) error {
		told, err := view.GetTask(ctx, sight.View, notice)
		if errors.Is(err, task.ErrUnknown) {
			return answers.ErrNothing
		} else if err != nil {
			return err
		}
		p, err := notices.Opens(&told, l.r.PathValue("do"), secret, sight.Now)
		if errors.Is(err, notices.ErrNoLink) {
			return answers.ErrNothing
		}
		is, l.Sight = &linked{Permit: *p, Over: err != nil}, &answers.Sight{Now: sight.Now}
		records, err := view.All(ctx, sight.View, view.Task(p.Task))
		if err != nil {
			return err
		}
		t := events.FoldTask(p.Task, records)
		is.Of, is.Button = &t, l.button(verb, string(p.Task), &t)
		for i := range records {
			if now := events.FoldTask(p.Task, records[:i+1]); records[i].Seq > p.Seq && !p.Holds(&now) {
				is.Fact, is.Did = &records[i], cmp.Or(linkDid[records[i].Fact.Type], "changed")
				break
			}
		}
		return nil
	})
	return is, err
}

// press does what a link does, under the name of who was told. If somebody was faster, the page says so.
func (l *look) press(is *linked) error {
	if err := l.r.ParseForm(); err != nil {
		return client.Wrongf("the form cannot be read")
	}
	l.r.PostForm.Set("id", string(is.Task))
	request, err := httpapi.Form(is.Button.Verb, l.r.PostForm)
	if err != nil {
		return err
	}
	err = l.site.server.Desk.Act(l.r.Context(), is.By, is.Button.Verb, request, is.Holds)
	if errors.Is(err, task.ErrMovedOn) {
		return nil
	}
	return err
}

// button has a verb done to a thing, by a form.
type button struct {
	*answers.Endpoint
	ID, Label, Why string
	// Base leads to where pages begin, and Back is the page that follows.
	Base, Back string
	// Fields are those of the form besides a reason, and Declared those whose values the thing declares.
	Fields   []field
	Declared []Field
}

// field is a field of a form.
type field struct {
	Name, Label, Value string
	Long               bool
}

// offered are the entries of verbs that have buttons: first those that make something, and last those
// that take it away.
var offered = sync.OnceValue(func() []answers.Endpoint {
	all := slices.DeleteFunc(answers.Endpoints(), func(e answers.Endpoint) bool { return e.Button == nil })
	slices.SortStableFunc(all, func(a, b answers.Endpoint) int { return cmp.Compare(turnOf(&a), turnOf(&b)) })
	return all
})

// offeredBy is the entry of a verb that has a button; nil for none.
func offeredBy(verb rights.Verb) *answers.Endpoint {
	if i := slices.IndexFunc(offered(), func(e answers.Endpoint) bool { return e.Verb == verb }); i >= 0 {
		return &offered()[i]
	}
	return nil
}

// turnOf is where a button stands among others.
func turnOf(e *answers.Endpoint) int {
	switch {
	case e.Verb.Access() == rights.Submitting:
		return 0
	case e.Routes[0].Method == http.MethodDelete:
		return 2
	}
	return 1
}

// button makes that of a verb for a thing, as entries of verbs know it.
func (l *look) button(e *answers.Endpoint, id string, thing any) button {
	b := button{Endpoint: e, ID: id, Label: e.Button.Label, Why: e.Button.Why, Base: l.Base(), Back: l.Back()}
	if e.Routes[0].Method == http.MethodDelete {
		b.Back = "/" + e.Button.On[0]
	}
	if e.Button.Declares != nil {
		b.Declared = newForm(e.Button.Declares(thing), nil).Fields
	}
	for _, a := range e.Button.Asks {
		if b.Declared != nil && a.Label != "" {
			continue
		}
		f := field{Name: a.Name, Label: a.Label, Long: a.Long}
		if a.Is != nil {
			f.Value = a.Is(thing)
		}
		b.Fields = append(b.Fields, f)
	}
	return b
}

// buttons returns those for a thing of a noun that the caller may press.
func (l *look) buttons(noun, id string, thing any) (all []button) {
	for i := range offered() {
		e := &offered()[i]
		if e.Of != "" && slices.Contains(e.Button.On, noun) && (l.Acts(string(e.Verb)) || l.asked(e.Verb, thing)) && (e.Button.Has == nil || e.Button.Has(thing)) {
			all = append(all, l.button(e, id, thing))
		}
	}
	return all
}

// asked tells whether a task asks the caller by name for an answer by a verb.
func (l *look) asked(verb rights.Verb, thing any) bool {
	t, ok := thing.(*task.Task)
	return ok && !l.Past && verb.Own().Access() == rights.Answering && l.caller.Role.May(verb.Own()) && t.Signal().Names(l.caller.Name)
}

// said is a part of a sentence of Millrace: words, a command line, or what a button does instead of it.
type said struct {
	Text, Code string
	Button     *button
}

// Prompts takes a sentence apart that tells a person what to do: its commands become buttons, where the caller may
// press them.
func (l *look) Prompts(text string) (all []said) {
	for i, part := range strings.Split(text, "`") {
		if i%2 == 0 {
			if n := len(all); n > 0 && all[n-1].Button != nil {
				part = strings.TrimPrefix(part, ")")
			}
			all = append(all, said{Text: part})
			continue
		}
		is := said{Code: part, Button: l.instead(part)}
		if is.Button != nil {
			before := &all[len(all)-1]
			before.Text = strings.TrimSuffix(before.Text, "(")
		}
		all = append(all, is)
	}
	return all
}

// instead returns the button that does what a command line does; nil for none.
func (l *look) instead(line string) *button {
	for i := range offered() {
		e := &offered()[i]
		if e.Command == nil || e.Of == "" || !l.Acts(string(e.Verb)) {
			continue
		}
		words := e.Command.Use[:strings.IndexFunc(e.Command.Use, unicode.IsUpper)] // "node drain ", which a name follows
		id, ok := strings.CutPrefix(line, "millrace "+words)
		id, _, _ = strings.Cut(id, " --answer ") // the button has a field for each
		if ok && !strings.ContainsAny(id, " <") {
			var thing any // of a task, its row: a page has many of them
			if _, err := task.ParseID(id); err == nil {
				page, err := l.View.List(l.r.Context(), view.Query{Kind: view.Tasks, Filter: view.Filter{IDPart: id, Limit: 1}})
				if err == nil && len(page.Tasks) == 1 {
					thing = &page.Tasks[0]
				}
			}
			b := l.button(e, id, thing)
			return &b
		}
	}
	return nil
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
