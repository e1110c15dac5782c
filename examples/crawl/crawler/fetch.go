package crawler

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"
)

const (
	// agent is the product token by which a robots.txt may name this program.
	agent = "MillraceCrawl"
	// maxBody is how much of a page is read.
	maxBody = 2 << 20
	// maxRobots is how much of a robots.txt is read; RFC 9309 asks for as much at least.
	maxRobots = 500 << 10
	// maxHops is how many redirects in a row are followed.
	maxHops = 10
)

// page is the record of one address that was asked for.
type page struct {
	URL string `json:"url"`
	// Status is the HTTP status, or 0 if there was no answer.
	Status int    `json:"status"`
	Title  string `json:"title"`
	// Links counts the different pages of the site that this one links to.
	Links int `json:"links"`
	// Bytes counts the bytes read of the body, after decompression.
	Bytes int64 `json:"bytes"`
	// Depth is how many links the page is away from the start.
	Depth int `json:"depth"`
	// MS is how long the request took until the end of the body, in milliseconds.
	MS   int64  `json:"ms"`
	Type string `json:"type,omitempty"` // media type
	// Redirect is where the server sends us.
	Redirect string `json:"redirect,omitempty"`
	// Truncated tells that the body is longer than what was read.
	Truncated bool   `json:"truncated,omitempty"`
	Error     string `json:"error,omitempty"`

	// follow are the addresses of the same site that the page leads to.
	follow []*url.URL
}

// fetcher asks for pages. It is safe for concurrent use.
type fetcher struct {
	client  *http.Client // follows no redirect
	timeout time.Duration
}

func newFetcher(workers int, timeout time.Duration) *fetcher {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = workers
	transport.MaxResponseHeaderBytes = 256 << 10
	return &fetcher{&http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, timeout}
}

func (f *fetcher) close() { f.client.CloseIdleConnections() }

// get fetches one page. The record holds its failure, if any.
func (f *fetcher) get(ctx context.Context, address *url.URL, depth int) *page {
	p := &page{URL: address.String(), Depth: depth}
	began := time.Now()
	resp, body, err := f.do(ctx, f.client, p.URL, maxBody)
	p.MS = time.Since(began).Milliseconds()
	if resp == nil {
		p.Error = err.Error()
		return p
	}
	p.Status = resp.StatusCode
	p.Truncated = len(body) > maxBody
	body = body[:min(len(body), maxBody)]
	p.Bytes = int64(len(body))
	contentType := resp.Header.Get("Content-Type")
	p.Type = mediaType(contentType, body)
	switch {
	case err != nil: // the body broke off
		p.Error = err.Error()
	case p.Status >= 400:
		p.Error = fmt.Sprintf("%d %s", p.Status, http.StatusText(p.Status))
	}
	switch {
	case p.Status >= 300 && p.Status < 400:
		p.redirect(address, resp.Header.Get("Location"))
	case p.Status >= 200 && p.Status < 300 && (p.Type == "text/html" || p.Type == "application/xhtml+xml"):
		d := parseHTML(body, contentType, address)
		p.Title = d.title
		for _, link := range d.links {
			if sameSite(link, address) && link.String() != p.URL {
				p.follow = append(p.follow, link)
			}
		}
		p.Links = len(p.follow)
	}
	return p
}

// mediaType returns the type that the server names, or that the body looks like if the server names
// none.
func mediaType(contentType string, body []byte) string {
	if contentType == "" && len(body) > 0 {
		contentType = http.DetectContentType(body)
	}
	t, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return ""
	}
	return t
}

func (p *page) redirect(from *url.URL, location string) {
	u := reference(from, location)
	if u == nil {
		return // 304, or an answer that names no place
	}
	u, ok := canonical(u)
	if !ok {
		p.Error = fmt.Sprintf("redirect to %q, which cannot be followed", location)
		return
	}
	p.Redirect = u.String()
	if sameSite(u, from) {
		p.follow = []*url.URL{u}
	}
}

// do makes a request and reads the body, plus one byte beyond limit to show that there is more.
// Without an answer it returns no response and an error; if the body breaks off, all three.
func (f *fetcher) do(ctx context.Context, client *http.Client, address string, limit int64) (*http.Response, []byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.timeout, fmt.Errorf("no complete answer within %v", f.timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("User-Agent", agent+"/1.0")
	req.Header.Set("Accept", "text/html, application/xhtml+xml, */*;q=0.5")
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, plain(ctx, err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, limit+1)); err != nil {
		return resp, body.Bytes(), fmt.Errorf("the answer broke off: %w", plain(ctx, err))
	}
	return resp, body.Bytes(), nil
}

// plain removes the address from an error, because its reader knows it.
func plain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// robots reads the rules of the server of an address. By RFC 9309, a server that refuses the file
// has no rules, and a server that fails to deliver it must not be crawled: then robots returns an
// error.
func (f *fetcher) robots(ctx context.Context, address *url.URL) (robots, error) {
	client := *f.client
	client.CheckRedirect = func(_ *http.Request, via []*http.Request) error {
		if len(via) > 5 {
			return http.ErrUseLastResponse // as good as refused
		}
		return nil
	}
	file := url.URL{Scheme: address.Scheme, Host: address.Host, Path: "/robots.txt"}
	resp, body, err := f.do(ctx, &client, file.String(), maxRobots)
	switch {
	case err != nil:
		return nil, &networkError{fmt.Errorf("%s: %w", file.String(), err)}
	case resp.StatusCode >= 500:
		return nil, &networkError{fmt.Errorf("%s: the server answers %d, so the site may not be crawled now", file.String(), resp.StatusCode)}
	case resp.StatusCode >= 300:
		return nil, nil
	}
	return parseRobots(string(body[:min(len(body), maxRobots)]), agent), nil
}
