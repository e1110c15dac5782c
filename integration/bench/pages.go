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
	"time"

	"golang.org/x/net/html"

	"millrace/projections/view"
	"millrace/service/client"
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
	// pagesPerKind is how many pages of one kind are measured, with pageRounds requests together.
	pagesPerKind = 2
	pageRounds   = 40
	// pagesApart is how many messages of the log lie between the moments of the past that are asked
	// for: each request asks for another one.
	pagesApart = 997
)

// pagesAsked are pages without a link, by their paths.
var pagesAsked = []string{
	"tasks?q=job:bench-1", "tasks?q=job:none", "tasks?q=state:error job:bench-19 label:env=prod", "tasks?q=since:1h", "tasks?q=is:dead", `tasks?q="as planned"`,
	`tasks?q="nothing has this"`, "tasks?q=qx", "tasks?q=node:bench", "tasks?q=node:none", "tasks?q=label:env=none", "tasks?q=label:env=test", "tasks?q=label:tenant=t7",
	"tasks?q=priority:9", "tasks?q=batch:01JD6Z8V3M0QK4T7W2X9Y5ABCD", "tasks?q=is:root", "tasks?q=queue:bench-waiting state:pending", "tasks?q=state:cancelled", "tasks?q=schedule:none",
	"events?actor=bench", "events?actor=" + pagesRare, "events?actor=none", "events?type=attempt.failed", "events?type=node", "events?node=bench", "events?node=none",
	"events?queue=bench-waiting", "events?queue=bench", "events?queue=none", "events?job=bench-3", "events?job=none", "events?schedule=bench-3", "events?until=1m", "events?before=500000",
	"bulk/cancel?q=", "bulk/retry?q=", "bulk/retry?q=job:bench-19 label:env=prod", "bulk/retry?q=label:tenant=t7", "bulk/retry?q=job:none", `bulk/retry?q="as planned"`,
	"edit/job?name=bench-1", "run/job/bench-1",
}

// pagesBetween compare two moments, of which each request chooses others: so many messages apart, 0
// for half the log.
var pagesBetween = []struct {
	page  string
	apart uint64
}{{"diff", 10_000}, {"diff", 0}, {"diff?job=bench-1", 10_000}}

// ManyPages measures the pages of a server with n tasks: those reached by links, in the present and
// the past, and some others. A server that has tasks already gets none.
func ManyPages(ctx context.Context, cfg Config, n int) ([]Page, error) {
	b := &bench{cfg: cfg.withDefaults()}
	defer b.close()
	if err := b.open(ctx); err != nil {
		return nil, err
	}
	have, err := b.client.List(ctx, client.ListRequest{Filter: view.Filter{Limit: 1}})
	if err == nil && len(have.Tasks) == 0 {
		err = b.fill(ctx, n)
	}
	if err != nil {
		return nil, err
	}
	dismiss, err := b.staff(ctx)
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
	s := &surfer{b: b, site: strings.TrimSuffix(at, "/"), token: token, kinds: map[string][]string{}, last: last, middle: last / 2}
	if err := s.crawl(ctx, at); err != nil {
		return nil, err
	}
	for _, p := range pagesAsked {
		path, query, _ := strings.Cut(p, "?")
		values := url.Values{}
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			values.Set(name, value)
		}
		s.kinds["/"+p] = []string{s.site + "/" + path + "?" + values.Encode()}
	}
	if err := s.past(ctx); err != nil {
		return nil, err
	}
	return s.measure(ctx)
}

// surfer requests pages as an authenticated browser does.
type surfer struct {
	b           *bench
	site, token string
	// kinds are the addresses of pages, by what they have in common.
	kinds map[string][]string
	// last is the end of the log, middle the sequence of its middle, and then those kinds that are measured as of
	// moments before it.
	last, middle uint64
	then         map[string][]string
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

// past finds the pages that existed in the middle of the log.
func (s *surfer) past(ctx context.Context) error {
	s.then = map[string][]string{}
	for kind, pages := range s.kinds {
		for _, page := range pages {
			switch _, _, err := s.get(ctx, asOf(page, s.middle)); {
			case errors.Is(err, errNotThere):
			case err != nil:
				return err
			default:
				s.then[kind] = append(s.then[kind], page)
			}
		}
	}
	return nil
}

// asOf is the address of a page as of a sequence.
func asOf(page string, seq uint64) string {
	return page + joined(page) + fmt.Sprintf("at=%d", seq)
}

// joined is what lies between an address and one more field of its query.
func joined(page string) string {
	if strings.Contains(page, "?") {
		return "&"
	}
	return "?"
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
	if err := s.b.rest(ctx); err != nil {
		return nil, err
	}
	for _, kind := range slices.Sorted(maps.Keys(s.kinds)) {
		p, err := s.time(ctx, kind, s.kinds[kind], func(page string, _ int) string { return page })
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	for _, kind := range slices.Sorted(maps.Keys(s.then)) {
		p, err := s.time(ctx, kind+joined(kind)+"at=*", s.then[kind], func(page string, round int) string {
			return asOf(page, s.moment(round))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	for _, of := range pagesBetween {
		page := s.site + "/" + of.page
		kind, apart := "/"+of.page+joined(page)+"from=*&at=*", of.apart
		if apart == 0 {
			apart = s.middle
		} else {
			kind += fmt.Sprintf(" %d apart", apart)
		}
		p, err := s.time(ctx, kind, []string{page}, func(page string, round int) string {
			from := s.moment(round)
			return asOf(page+joined(page)+fmt.Sprintf("from=%d", from), min(from+apart, s.last))
		})
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// moment is the sequence of the past that a request asks for, before the middle of the log.
func (s *surfer) moment(round int) uint64 {
	return s.middle - min(s.middle/2, uint64(round)*pagesApart) // not negative
}

// time requests pages of one kind.
func (s *surfer) time(ctx context.Context, kind string, pages []string, at func(page string, round int) string) (p Page, err error) {
	s.b.cfg.Progress("page " + kind)
	p.Path = kind
	var took []float64
	before := s.b.spent()
	for round := range pageRounds {
		began := time.Now()
		_, size, err := s.get(ctx, at(pages[round%len(pages)], round))
		if err != nil {
			return p, err
		}
		took, p.Bytes = append(took, float64(time.Since(began))/1e6), max(p.Bytes, size)
	}
	p.Server = s.b.each(before, len(took)).Server
	slices.Sort(took)
	p.P50, p.P95 = took[len(took)/2], took[len(took)*95/100]
	return p, nil
}

// Bounds of what counts as the rest of a server.
const (
	restFor  = time.Second
	restWith = 100 * time.Millisecond // of processor time
	restMost = 15 * time.Minute
)

// rest waits until the server works on nothing else, such as the index of texts after its start.
func (b *bench) rest(ctx context.Context) error {
	if b.cfg.ServerTime == nil {
		return nil
	}
	b.cfg.Progress("pages: the server comes to rest")
	for began := time.Now(); time.Since(began) < restMost; {
		before := b.spent()
		if err := sleep(ctx, restFor); err != nil {
			return err
		}
		if b.spent().server-before.server < restWith {
			return nil
		}
	}
	return errors.New("the server does not come to rest")
}
