package pages

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"millrace/api"
	"millrace/client"
	"millrace/cmd/millrace/opened"
	"millrace/httpapi"
	"millrace/jet/roles"
	"millrace/task"
	"millrace/view"
)

var incidentsPage = page{name: "incidents", path: "/incidents", entry: "Incidents", verb: roles.EventList, show: showIncidents}

// uploadWithin is how long a file may take to come, and lookWithin how long a look into one.
const (
	uploadWithin = 3 * time.Minute
	lookWithin   = 25 * time.Second
)

type incidentsData struct {
	Failed tasksPanel
	// Files are those that are open, and Most how many may be.
	Files []*opened.File
	Most  int
	// Size is how many MiB a file may have, and Keep how long it stays.
	Size int
	Keep time.Duration
}

// showIncidents has the files that are open, and the tasks that have failed last: files are most often about one of those.
func showIncidents(ctx context.Context, l *look) (any, error) {
	d := &incidentsData{Most: opened.Most, Size: opened.MaxUpload >> 20, Keep: opened.Keep}
	failed, err := l.List(ctx, view.Query{Kind: view.Tasks, Filter: view.Filter{States: []task.State{task.Error, task.Abnormal}, Limit: shownFailed}})
	d.Failed.Tasks = failed.Tasks
	d.Failed.fail(err)
	d.Files = l.site.shelf.Files(l.site.server.Desk.Now())
	return d, nil
}

// largest is how many bytes a request may have: a file is larger than anything else that comes.
func largest(r *http.Request) int64 {
	if r.Method == http.MethodPost && r.URL.Path == "/incidents/do" {
		return opened.MaxUpload + 64<<10 // what surrounds it in a form
	}
	return 0
}

// openFile opens an incident file that a browser sends, and leads into it.
func (s *Site) openFile(w http.ResponseWriter, r *http.Request, c httpapi.Caller) {
	if !c.Role.May(incidentsPage.verb) {
		s.refuse(w, r, c, api.ErrRole)
		return
	}
	httpapi.Await(w, uploadWithin)
	title, data, err := uploaded(r)
	if err == nil {
		var f *opened.File
		if f, err = s.shelf.Open(title, c.Name, data, s.server.Desk.Now()); err == nil {
			seeOther(w, r, "/incidents/"+f.Name+"/")
			return
		}
		if errors.Is(err, opened.ErrFull) {
			err = api.Busy(err.Error())
		} else {
			err = client.Wrongf("%s: %w", title, err)
		}
	}
	s.refuse(w, r, c, err)
}

// uploaded is the file in a form.
func uploaded(r *http.Request) (title string, data []byte, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return "", nil, client.Wrongf("the form has no file: %w", err)
	}
	for {
		part, err := parts.NextPart()
		if err != nil {
			return "", nil, client.Wrongf("the form has no file: %w", err)
		}
		if part.FormName() != "file" {
			continue
		}
		data, err = io.ReadAll(io.LimitReader(part, opened.MaxUpload+1))
		switch {
		case errors.As(err, new(*http.MaxBytesError)), len(data) > opened.MaxUpload:
			return "", nil, api.ErrTooLarge
		case err != nil:
			return "", nil, client.Wrongf("the file has not come: %w", err)
		case len(data) == 0:
			return "", nil, client.Wrongf("choose a file")
		}
		title = path.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))
		return title[:min(len(title), 200)], data, nil
	}
}

// closes tells whether a caller may close a file that somebody has opened.
func closes(c httpapi.Caller, by string) bool { return by == c.Name || c.Role == roles.Operator }

// Closes tells whether the caller may close a file that somebody has opened.
func (l *look) Closes(by string) bool { return closes(l.caller, by) }

// closeFile closes one for all, if it is that of who asks, or he operates.
func (s *Site) closeFile(w http.ResponseWriter, r *http.Request, c httpapi.Caller) {
	f, err := s.shelf.Find(r.PathValue("file"), s.server.Desk.Now())
	switch {
	case !c.Role.May(incidentsPage.verb), err == nil && !closes(c, f.By):
		s.refuse(w, r, c, api.ErrRole)
	case err != nil:
		s.refuse(w, r, c, errors.Join(api.ErrNothing, err))
	default:
		s.shelf.Close(f.Name)
		seeOther(w, r, "/incidents")
	}
}

// fileIn is the incident file that the path of a request names. Who may look at the log may look at files; what those have in them
// follows their own rules.
func (s *Site) fileIn(r *http.Request, c httpapi.Caller) (*opened.File, error) {
	if !c.Role.May(incidentsPage.verb) {
		return nil, api.ErrRole
	}
	f, err := s.shelf.Find(r.PathValue("file"), s.server.Desk.Now())
	if errors.Is(err, opened.ErrGone) {
		err = errors.Join(api.ErrNothing, err)
	}
	return f, err
}

// showFile shows a page of an incident file, as of a moment.
func (s *Site) showFile(w http.ResponseWriter, r *http.Request, c httpapi.Caller, p *page) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	var f *opened.File
	switch {
	case err != nil:
		err = client.Wrong(err)
	case !c.Role.May(p.verb):
		err = api.ErrRole
	default:
		f, err = s.fileIn(r, c)
	}
	if err != nil {
		s.refuse(w, r, c, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), lookWithin)
	defer cancel()
	l := s.newLook(r, c, p, query)
	body, err := l.ofFile(ctx, f)
	var to elsewhere
	switch {
	case errors.As(err, &to):
		seeOther(w, r, "/incidents/"+f.Name+string(to))
	case err != nil:
		s.refuse(w, r, c, err)
	default:
		s.server.Send(w, r, "text/html; charset=utf-8", body)
	}
}

// ofFile draws the page of a file.
func (l *look) ofFile(ctx context.Context, f *opened.File) ([]byte, error) {
	sight, err := l.site.intoFile(ctx, f, l.At)
	if err != nil {
		return nil, err
	}
	l.file, l.Sight = f, sight
	if l.Data, err = l.page.show(ctx, l); err != nil {
		return nil, err
	}
	return l.site.shapes[l.page.name].whole(l)
}

// intoFile is the world of a file at a moment; "" is its end.
func (s *Site) intoFile(ctx context.Context, f *opened.File, at string) (*api.Sight, error) {
	var m view.Moment
	if at != "" {
		var err error
		if m, err = api.MomentOf(at, f.To.At.UTC()); err != nil {
			return nil, err
		}
	}
	world, p, err := f.At(ctx, m)
	if err != nil {
		return nil, err
	}
	return &api.Sight{View: world, Sums: world, Point: p, Last: f.To.Seq, Past: true, Now: p.At, Rules: s.rulesOf(f), Log: f}, nil
}

// rulesOf are those by which duties in a file are judged: of what it does not say, those of this server.
func (s *Site) rulesOf(f *opened.File) view.Rules {
	rules := s.server.Desk.Rules(time.Time{})
	for _, d := range []struct {
		text string
		is   *time.Duration
	}{{f.Manifest.AckWait, &rules.Task.AckWait}, {f.Manifest.Settings["start_deadline"], &rules.Task.StartDeadline}, {f.Manifest.Settings["node_ttl"], &rules.Node.TTL}} {
		if is, err := time.ParseDuration(d.text); err == nil && is > 0 {
			*d.is = is
		}
	}
	return rules
}
