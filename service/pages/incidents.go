package pages

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"millrace/events/jet/rights"
	"millrace/history/incident"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/httpapi"
	"millrace/service/inspect"
	"millrace/task"
	"millrace/task/value"
)

var incidentsPage = page{name: "incidents", path: "/incidents", entry: "Incidents", verb: rights.EventList, show: showIncidents}

// uploadWithin is how long an upload may take, and lookWithin how long a view of a file.
const (
	uploadWithin = 3 * time.Minute
	lookWithin   = 25 * time.Second
)

type incidentsData struct {
	Failed failedPanel
	// Files are the open files, and Most how many may be open.
	Files []*inspect.File
	Most  int
	// Size is how many MiB a file may have, and Keep how long it stays open.
	Size int
	Keep time.Duration
}

// showIncidents lists the open files, and what failed within a day: files are mostly about one of those.
func showIncidents(ctx context.Context, l *look) (any, error) {
	d := &incidentsData{Most: inspect.Most, Size: inspect.MaxUpload >> 20, Keep: inspect.Keep}
	d.Failed.set(l.Failures(ctx))
	d.Files = l.site.shelf.Files(l.site.server.Desk.Now())
	return d, nil
}

// largest returns how many bytes a request may have: a file is larger than any other request.
func largest(r *http.Request) int64 {
	if r.Method == http.MethodPost && r.URL.Path == "/incidents/do" {
		return inspect.MaxUpload + 64<<10 // the form around it
	}
	return 0
}

// openFile opens an uploaded incident file, and redirects into it.
func (l *look) openFile(w http.ResponseWriter) error {
	httpapi.Await(w, uploadWithin)
	title, data, err := uploaded(l.r)
	if err != nil {
		return err
	}
	f, err := l.site.shelf.Open(title, l.caller.Name, data, l.site.server.Desk.Now())
	switch {
	case errors.Is(err, inspect.ErrFull):
		return answers.Busy(err.Error())
	case err != nil:
		return client.Wrongf("%s: %w", title, err)
	}
	return elsewhere("/incidents/" + f.Name + "/")
}

// uploaded returns the file in a form.
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
		data, err = io.ReadAll(io.LimitReader(part, inspect.MaxUpload+1))
		switch {
		case errors.As(err, new(*http.MaxBytesError)), len(data) > inspect.MaxUpload:
			return "", nil, answers.ErrTooLarge
		case err != nil:
			return "", nil, client.Wrongf("the file has not come: %w", err)
		case len(data) == 0:
			return "", nil, client.Wrongf("choose a file")
		}
		title = path.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))
		return title[:min(len(title), 200)], data, nil
	}
}

// Bounds of a file that a page writes. It is made in memory, so that the log is not read at the
// caller's pace, and it is small enough to be opened here.
const (
	mostWindow = 24 * time.Hour
	// fetchWithin is how long a caller has to fetch it, once it is made.
	fetchWithin = 5 * time.Minute
	// mostFetched is how many are made or fetched at one time, each by another caller.
	mostFetched = 3
)

// Windows are the windows that a form offers for a file.
func (l *look) Windows() []string { return []string{"1m", "5m", "10m", "1h", "6h", "24h"} }

// Hides tells whether the caller's exports are always without parameters.
func (l *look) Hides() bool { return !bares(l.caller) }

// bares tells whether a caller may export what people and programs have written, unredacted.
func bares(c httpapi.Caller) bool { return c.Role == rights.Operator }

// fetching are the callers for whom files are being made.
type fetching struct {
	mu sync.Mutex
	by map[string]bool // guarded by mu
}

// take adds a caller, if there is room, until leave is called.
func (f *fetching) take(caller string) (leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by[caller] || len(f.by) >= mostFetched {
		return nil, answers.Busy(fmt.Sprintf("%d incident files are being exported, or one of yours", len(f.by)))
	}
	if f.by == nil {
		f.by = map[string]bool{}
	}
	f.by[caller] = true
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.by, caller)
	}, nil
}

// bounded takes at most a number of bytes.
type bounded struct {
	bytes.Buffer
	most int
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > b.most {
		return 0, fmt.Errorf("%w: a file of more than %d MiB is for the command line: millrace incident export. A shorter window makes a smaller one", answers.ErrTooLarge, b.most>>20)
	}
	return b.Buffer.Write(p)
}

// exportFile sends an incident file around a task or a moment. It changes nothing, so it also works
// in the past.
func (l *look) exportFile(w http.ResponseWriter) error {
	desk, ctx := l.site.server.Desk, l.r.Context()
	wish := inspect.Wish{Logs: l.Asked("logs") != "", Raw: l.Asked("raw") != "", Results: inspect.MaxUpload / 4, Settings: l.site.Settings, Now: desk.Now()}
	if wish.Logs && !l.caller.Role.May(rights.TaskOutput) || wish.Raw && !bares(l.caller) {
		return answers.ErrRole
	}
	leave, err := l.site.fetching.take(l.caller.Name)
	if err != nil {
		return err
	}
	defer leave()
	httpapi.Afford(w, answers.SurveyFor+fetchWithin)
	file := bounded{most: inspect.MaxUpload}
	var m incident.Manifest
	if err = l.wants(ctx, &wish); err == nil {
		err = desk.Survey(ctx, func(ctx context.Context, log answers.Survey) (err error) {
			wish.AckWait = log.AckWait()
			if wish.Import, err = log.Import(ctx); err != nil {
				return err
			}
			m, err = inspect.Write(ctx, log, wish, &file)
			return err
		})
	}
	switch {
	case errors.Is(err, inspect.ErrBefore):
		return client.Wrong(value.Plainly(err))
	case err != nil:
		return err
	}
	httpapi.Afford(w, fetchWithin)
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+inspect.FileName(&m)+`"`)
	w.Header().Set("Content-Length", strconv.Itoa(file.Len()))
	_, _ = w.Write(file.Bytes()) // the receiver may be gone
	return nil
}

// wants parses the centre and the window of the file. By default the centre is the page's moment.
func (l *look) wants(ctx context.Context, wish *inspect.Wish) (err error) {
	wish.Window = 10 * time.Minute
	if text := l.Asked("window"); text != "" {
		if wish.Window, err = value.ParseDuration(text); err != nil || wish.Window > mostWindow {
			return client.Wrongf("window is %q, want a time from 0s to %v, such as 10m", text, mostWindow)
		}
	}
	around := strings.TrimSpace(cmp.Or(l.Asked("around"), l.At))
	if around == "" {
		return nil
	}
	wish.Moment, err = answers.MomentOf(around, wish.Now)
	moment := err == nil
	if moment && !view.Twofold(around) {
		return nil
	}
	if _, ok := task.Part(around); !ok {
		return client.Wrongf("around is %q, want a task's id, a sequence of the log, or a time, such as 12:00 or 10m", around)
	}
	l.At = "" // any task that there is by now
	return l.see(ctx, func(ctx context.Context) error {
		id, err := l.taskNamed(ctx, around)
		if moment && err != nil {
			return nil // no task has it
		}
		if moment {
			if err := view.Unclear(around, id, wish.Moment.Seq <= l.Last); err != nil {
				return client.Wrong(err)
			}
			wish.Moment = view.Moment{}
		}
		wish.Task = id
		return err
	})
}

// taskNamed returns the id that a text is, or of which it is a part.
func (l *look) taskNamed(ctx context.Context, text string) (task.ID, error) {
	if id, err := task.ParseID(text); err == nil {
		return id, nil
	}
	part, ok := task.Part(text)
	if !ok {
		return "", client.Wrongf("%q is no task's id, and no part of one of at least %d characters", text, task.MinPart)
	}
	page, err := l.tasks(ctx, client.ListRequest{Filter: view.Filter{IDPart: part, Limit: 2}})
	switch {
	case err != nil:
		return "", err
	case len(page.Tasks) == 0:
		return "", fmt.Errorf("task %s: %w", text, task.ErrUnknown)
	case len(page.Tasks) > 1:
		return "", client.Wrongf("several tasks have %q in their ids; give more of it", text)
	}
	return page.Tasks[0].ID, nil
}

// closes tells whether a caller may close another caller's file.
func closes(c httpapi.Caller, by string) bool { return by == c.Name || c.Role == rights.Operator }

// Closes tells whether the caller may close another caller's file.
func (l *look) Closes(by string) bool { return closes(l.caller, by) }

// closeFile closes a file for all callers, if the caller has opened it or is an operator.
func (l *look) closeFile(http.ResponseWriter) error {
	f, err := l.fileIn()
	switch {
	case err != nil:
		return err
	case !closes(l.caller, f.By):
		return answers.ErrRole
	}
	l.site.shelf.Close(f.Name)
	return elsewhere("/incidents")
}

// fileIn returns the incident file in the path of the request. A caller that may read the log may
// read files; their content follows its own rules.
func (l *look) fileIn() (*inspect.File, error) {
	if !l.caller.Role.May(incidentsPage.verb) {
		return nil, answers.ErrRole
	}
	f, err := l.site.shelf.Find(l.inFile(), l.site.server.Desk.Now())
	if errors.Is(err, inspect.ErrGone) {
		err = errors.Join(answers.ErrNothing, err)
	}
	return f, err
}

// elsewhere leads to a page of the same world.
func (l *look) elsewhere(path string) elsewhere {
	if l.file != nil {
		path = "/incidents/" + l.file.Name + path
	}
	return elsewhere(path)
}

// intoFile returns the world of a file at a moment; "" is its end.
func (s *Site) intoFile(ctx context.Context, f *inspect.File, at string) (*answers.Sight, error) {
	var m view.Moment
	if at != "" {
		var err error
		if m, err = answers.MomentOf(at, f.To.At); err == nil {
			// A later sequence than the file has is refused below.
			err = view.Moment{At: m.At}.Reached(f.To.Seq, s.server.Desk.Now())
		}
		if err != nil {
			return nil, err
		}
	}
	world, p, err := f.At(ctx, m)
	if err != nil {
		return nil, err
	}
	return &answers.Sight{View: world, Sums: world, Point: p, Last: f.To.Seq, Past: true, Now: p.At, Rules: s.rulesOf(f), Log: f}, nil
}

// rulesOf returns the rules by which duties in a file are judged: what the file does not say comes
// from this server.
func (s *Site) rulesOf(f *inspect.File) view.Rules {
	rules := s.server.Desk.Rules(time.Time{})
	for _, d := range []struct {
		text string
		is   *time.Duration
	}{{f.Manifest.AckWait, &rules.Task.AckWait}, {f.Manifest.Settings["start_deadline"], &rules.Task.StartDeadline}, {f.Manifest.Settings["node_ttl"], &rules.Node.TTL}, {f.Manifest.Settings["node_retire_after"], &rules.Node.RetireAfter}} {
		if is, err := value.ParseDuration(d.text); err == nil && is > 0 {
			*d.is = is
		}
	}
	return rules
}
