package bench

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/html"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// Page is the cost of a page, or of pages of one kind.
type Page struct {
	// Path is its path, with * for what differs within a kind.
	Path string `json:"path"`
	// P50 and P95 are how long it took until it had arrived completely, in milliseconds.
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	// Server is the processor time of the server's process for each, in microseconds.
	Server float64 `json:"server_us"`
	// Bytes is the size of the largest one, compressed.
	Bytes int `json:"bytes"`
}

const (
	// pagesPerKind is how many pages of one kind are measured, each pageRounds times.
	pagesPerKind = 2
	pageRounds   = 20
	// pagesWaiting tasks wait in a queue without workers, and pagesRunning run.
	pagesWaiting = 10_000
	pagesRunning = 25
	// pagesSchedules is how many schedules there are.
	pagesSchedules = 20
)

// pagesAsked are queries without a link.
var pagesAsked = []string{"job:bench-1", "state:error job:bench-2 label:env=prod", "since:1h", "is:dead", `"as planned"`, `"nothing has this"`, "node:bench", "label:env=none"}

// ManyPages measures the pages of a server with n tasks: those reached by links, in the present and
// the past, and some queries.
func ManyPages(ctx context.Context, cfg Config, n int) ([]Page, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	dismiss, err := b.populate(ctx, n)
	if err != nil {
		return nil, err
	}
	defer dismiss()
	last, err := b.store.Last(ctx)
	if err != nil {
		return nil, err
	}
	at, token, err := b.cfg.Pages()
	if err != nil {
		return nil, err
	}
	s := &surfer{b: b, token: token, kinds: map[string][]string{}}
	if err := s.crawl(ctx, at); err != nil {
		return nil, err
	}
	for _, q := range pagesAsked {
		s.kinds["/tasks?q="+q] = []string{strings.TrimSuffix(at, "/") + "/tasks?" + url.Values{"q": {q}}.Encode()}
	}
	if err := s.past(ctx, last/2); err != nil {
		return nil, err
	}
	return s.measure(ctx)
}

// populate fills a server with tasks, a few of which do not end, and returns a function that ends
// the running ones.
func (b *bench) populate(ctx context.Context, n int) (dismiss func(), err error) {
	b.cfg.Progress(fmt.Sprintf("pages: running %d tasks", n))
	var jobs []string
	for i := range 5 {
		job := job.Job{Name: fmt.Sprintf("bench-%d", i), Queue: queue, Labels: map[string]string{"env": "prod"}, Spec: *noop.Spec}
		if _, _, err := b.client.Apply(ctx, job); err != nil {
			return nil, err
		}
		jobs = append(jobs, job.Name)
	}
	running, finish := context.WithCancel(ctx)
	begun := make(chan struct{}, pagesRunning)
	c, err := b.hire(ctx, b.cfg.Slots, n-n/20, func(t task.Task) {
		if t.Labels["stays"] != "" {
			begun <- struct{}{}
			<-running.Done()
		}
	})
	if err != nil {
		finish()
		return nil, err
	}
	dismiss = sync.OnceFunc(func() { finish(); _ = c.dismiss() }) // how it ends no longer matters
	fails := birth.Submission{Spec: &job.Spec{Handler: failsOnce}, Queue: queue, Labels: map[string]string{"env": "test"}}
	const some = 10_000
	for left := n; left > 0 && err == nil; left -= some {
		now := min(left, some)
		err = errors.Join(b.submit(ctx, fails, now/20), b.submit(ctx, birth.Submission{Job: jobs[left/some%len(jobs)]}, now-now/20))
	}
	if err == nil {
		err = c.wait(ctx)
	}
	if err == nil {
		err = b.submit(ctx, birth.Submission{Job: jobs[0], Labels: map[string]string{"stays": "yes"}}, pagesRunning)
	}
	if err == nil {
		err = b.submit(ctx, birth.Submission{Spec: noop.Spec, Queue: "bench-waiting"}, pagesWaiting)
	}
	if err == nil {
		err = b.putSchedules(ctx, pagesSchedules, time.Now().Add(schedulesEvery), schedulesEvery)
	}
	for range pagesRunning {
		if err != nil {
			break
		}
		select {
		case <-begun:
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	if err == nil {
		_, err = b.caughtUp(ctx)
	}
	if err != nil {
		dismiss()
		return nil, err
	}
	return dismiss, nil
}

// surfer requests pages as an authenticated browser does.
type surfer struct {
	b     *bench
	token string
	// kinds are the addresses of pages, by what they have in common.
	kinds map[string][]string
}

// errNotThere: there is no such page.
var errNotThere = errors.New("it is not there")

// get requests a page, and returns it and its size as transferred.
func (s *surfer) get(ctx context.Context, address string) (text string, size int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", 0, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	r.Header.Set("Accept-Encoding", "gzip")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", 0, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", 0, err
	}
	size = len(body)
	if answer.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(strings.NewReader(string(body)))
		if err != nil {
			return "", 0, err
		}
		if body, err = io.ReadAll(z); err != nil {
			return "", 0, err
		}
	}
	switch answer.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", 0, fmt.Errorf("%s: %w", address, errNotThere)
	default:
		return "", 0, fmt.Errorf("%s is answered with %s: %.300s", address, answer.Status, body)
	}
	return string(body), size, nil
}

// crawl finds the pages reached by links from the first one, a few of each kind.
func (s *surfer) crawl(ctx context.Context, from string) error {
	first, err := url.Parse(from)
	if err != nil {
		return err
	}
	first = first.JoinPath("/")
	s.kinds["/"] = []string{first.String()}
	for queue := []*url.URL{first}; len(queue) > 0; queue = queue[1:] {
		text, _, err := s.get(ctx, queue[0].String())
		if err != nil {
			return err
		}
		for _, to := range linksOf(text, queue[0]) {
			kind := kindOf(to)
			if to.Host != first.Host || to.Query().Has("at") || len(s.kinds[kind]) == pagesPerKind || slices.Contains(s.kinds[kind], to.String()) {
				continue
			}
			s.kinds[kind] = append(s.kinds[kind], to.String())
			queue = append(queue, to)
		}
	}
	return nil
}

// past adds the pages as of a sequence, except pages of things that did not exist then.
func (s *surfer) past(ctx context.Context, seq uint64) error {
	then := map[string][]string{}
	for kind, pages := range s.kinds {
		join := "?"
		if strings.Contains(kind, "?") {
			join = "&"
		}
		for _, page := range pages {
			address := page + join + fmt.Sprintf("at=%d", seq)
			switch _, _, err := s.get(ctx, address); {
			case errors.Is(err, errNotThere):
			case err != nil:
				return err
			default:
				then[kind+join+"at=*"] = append(then[kind+join+"at=*"], address)
			}
		}
	}
	maps.Copy(s.kinds, then)
	return nil
}

// kindOf returns what a page has in common with pages of its kind.
func kindOf(at *url.URL) string {
	parts := strings.Split(at.Path, "/")
	if len(parts) > 2 {
		parts[2] = "*"
	}
	kind := strings.Join(parts, "/")
	for i, name := range slices.Sorted(maps.Keys(at.Query())) {
		kind += string("?&"[min(i, 1)]) + name + "=*"
	}
	return kind
}

// linksOf returns the pages that a page links to.
func linksOf(text string, at *url.URL) (all []*url.URL) {
	z := html.NewTokenizer(strings.NewReader(text))
	for z.Next() != html.ErrorToken {
		token := z.Token()
		if token.Type != html.StartTagToken || token.Data != "a" {
			continue
		}
		to, download := "", false
		for _, a := range token.Attr {
			switch a.Key {
			case "href":
				to = a.Val
			case "download":
				download = true
			}
		}
		if is, err := at.Parse(to); err == nil && to != "" && !download {
			is.Fragment, is.ForceQuery = "", false
			all = append(all, is)
		}
	}
	return all
}

// measure requests all pages again and again.
func (s *surfer) measure(ctx context.Context) (all []Page, err error) {
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		s.b.cfg.Progress("page " + kind)
		p := Page{Path: kind}
		var took []float64
		before := s.b.spent()
		for range pageRounds {
			for _, address := range s.kinds[kind] {
				began := time.Now()
				_, size, err := s.get(ctx, address)
				if err != nil {
					return nil, err
				}
				took, p.Bytes = append(took, float64(time.Since(began))/1e6), max(p.Bytes, size)
			}
		}
		p.Server = s.b.each(before, len(took)).Server
		slices.Sort(took)
		p.P50, p.P95 = took[len(took)/2], took[len(took)*95/100]
		all = append(all, p)
	}
	return all, nil
}
