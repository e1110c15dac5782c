package pages

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"millrace/api"
	"millrace/client"
	"millrace/httpapi"
	"millrace/jet/roles"
)

// seenWithin is how long an action waits for lists to show its effect.
const seenWithin = 2 * time.Second

// act performs a verb of the service for a button: the fields of its form, and those in its
// address, are the fields of the request. Then it redirects to the page of the button, or to the
// new task.
func (s *Site) act(w http.ResponseWriter, r *http.Request, c httpapi.Caller) {
	verb := roles.Verb(r.PathValue("verb"))
	if verb.Access() == "" || verb.Access() == roles.Reading {
		s.refuse(w, r, c, api.ErrNothing)
		return
	}
	if !c.Role.May(verb) {
		s.refuse(w, r, c, api.ErrRole)
		return
	}
	if err := r.ParseForm(); err != nil {
		s.refuse(w, r, c, client.Wrongf("the form cannot be read: %w", err))
		return
	}
	back := r.Form.Get("back")
	r.Form.Del("back")
	request, err := httpapi.Form(verb, r.Form)
	if err != nil {
		s.refuse(w, r, c, err)
		return
	}
	var made struct{ ID string }
	var answer json.RawMessage
	if err := s.server.Desk.Ask(r.Context(), c.Name, verb, request, &answer); err != nil {
		s.refuse(w, r, c, err)
		return
	}
	s.settle(r.Context())
	if verb.Access() == roles.Submitting && json.Unmarshal(answer, &made) == nil && made.ID != "" {
		back = "/tasks/" + made.ID
	}
	seeOther(w, r, back)
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
