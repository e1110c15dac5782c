package crawler

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"
)

// errStopped tells that the crawl was asked to stop and has left pages uncrawled.
var errStopped = errors.New("stopped")

// crawl is one crawl. All of its state belongs to the goroutine of run; the others only fetch.
type crawl struct {
	cfg   config
	out   *output
	fetch *fetcher
	// rules has an entry for each server of the site that has been met: http
	// and https at most.
	rules map[string]robots
	// found holds the known addresses that are near enough to be crawled; true for those that were
	// taken, or refused.
	found map[string]bool
	// due is when the next request may begin.
	due time.Time

	stopping       bool
	taken, refused int // of found: taken to be crawled, refused by robots.txt
	done, failed   int // of taken: crawled, and of these with an error
	bytes          int64
}

func newCrawl(cfg config, out *output) *crawl {
	return &crawl{
		cfg: cfg, out: out, fetch: newFetcher(cfg.workers, cfg.timeout),
		rules: make(map[string]robots), found: make(map[string]bool),
	}
}

func (c *crawl) close() { c.fetch.close() }

// run crawls until nothing is left, or the limit of pages is reached, and then returns nil. It
// returns errStopped if it left something because stop was closed or ctx ended, and another error
// if the start page cannot be fetched.
func (c *crawl) run(ctx context.Context, stop <-chan struct{}) error {
	start, err := url.Parse(c.cfg.start)
	if err != nil {
		return err
	}
	c.out.status(0, "crawling %s", start)
	switch allowed, err := c.mayFetch(ctx, start); {
	case ctx.Err() != nil:
		return errStopped
	case err != nil:
		return err
	case !allowed:
		return fmt.Errorf("robots.txt does not allow the start page %s", start)
	}
	next := []*url.URL{start}
	c.meet(next)
	for depth := 0; len(next) > 0; depth++ {
		pages, err := c.crawlLevel(ctx, stop, next, depth)
		if err != nil {
			return err
		}
		if depth == 0 {
			if err := c.checkStart(pages); err != nil {
				return err
			}
		}
		next = nil
		for _, p := range pages {
			if p.Redirect == "" {
				next = append(next, p.follow...)
			}
		}
	}
	return nil
}

// crawlLevel crawls addresses and what they redirect to: a redirect is no step away from the start,
// so its target has the same depth.
func (c *crawl) crawlLevel(ctx context.Context, stop <-chan struct{}, addresses []*url.URL, depth int) (all []*page, err error) {
	for hops := 0; len(addresses) > 0; hops++ {
		level, err := c.admit(ctx, addresses)
		if err != nil {
			return nil, err
		}
		pages, err := c.fetchAll(ctx, stop, level, depth, hops)
		if err != nil {
			return nil, err
		}
		all = append(all, pages...)
		addresses = nil
		for _, p := range pages {
			if p.Redirect != "" {
				addresses = append(addresses, p.follow...)
			}
		}
	}
	return all, nil
}

// checkStart returns an error if the start page, or the page that it redirects to, did not answer.
// Any answer will do: a page that says 404 makes a crawl of one page.
func (c *crawl) checkStart(pages []*page) error {
	switch last := pages[len(pages)-1]; {
	case last.Status == 0:
		return &networkError{fmt.Errorf("the start page %s cannot be reached: %s", last.URL, last.Error)}
	case last.Redirect == "" || c.taken == c.cfg.maxPages:
		return nil
	case last.Error != "":
		return fmt.Errorf("the start page redirects without end: %s", last.Error)
	case len(last.follow) == 0:
		return fmt.Errorf("the start page leads to another host: crawl %s instead", last.Redirect)
	default:
		return fmt.Errorf("the start page leads to %s, which was crawled already or may not be", last.Redirect)
	}
}

func (c *crawl) within(depth int) bool { return c.cfg.maxDepth < 0 || depth <= c.cfg.maxDepth }

// meet notes addresses that are to be crawled if limits and robots.txt allow.
func (c *crawl) meet(addresses []*url.URL) {
	for _, u := range addresses {
		if a := u.String(); !c.found[a] {
			c.found[a] = false
		}
	}
}

// admit takes the addresses that are to be crawled now, each once. It returns errStopped if ctx has
// ended.
func (c *crawl) admit(ctx context.Context, addresses []*url.URL) (level []*url.URL, err error) {
	for _, u := range addresses {
		a := u.String()
		if c.found[a] {
			continue
		}
		if c.taken == c.cfg.maxPages {
			break
		}
		allowed, err := c.mayFetch(ctx, u)
		if ctx.Err() != nil {
			return nil, errStopped
		}
		c.found[a] = true
		switch {
		case err != nil:
			c.out.warnf("skip %s: %v", a, err)
			c.refused++
		case !allowed:
			c.out.logf("skip %s: robots.txt does not allow it", a)
			c.refused++
		default:
			c.taken++
			level = append(level, u)
		}
	}
	return level, nil
}

// mayFetch asks the rules of the address's server, which it reads first if the server is a new one.
// If they cannot be read, nothing may be fetched from that server, then or later.
func (c *crawl) mayFetch(ctx context.Context, u *url.URL) (bool, error) {
	server := u.Scheme + "://" + u.Host
	rules, known := c.rules[server]
	if !known {
		var err error
		rules, err = c.fetch.robots(ctx, u)
		if err != nil {
			c.rules[server] = robots{{allow: false, pattern: "/"}}
			return false, err
		}
		c.rules[server] = rules
		c.due = time.Now().Add(c.cfg.delay)
	}
	return rules.allows(u.RequestURI()), nil
}

// fetchAll fetches the addresses and reports each page as it arrives. It returns the pages in the
// order of the addresses, so that the crawl does not depend on which was faster. If stop is closed
// before all have begun, or ctx ends before all have ended, it returns errStopped once none is in
// flight.
func (c *crawl) fetchAll(ctx context.Context, stop <-chan struct{}, addresses []*url.URL, depth, hops int) ([]*page, error) {
	pages := make([]*page, len(addresses))
	jobs, fetched := make(chan int), make(chan int)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer close(jobs)
	for range min(c.cfg.workers, len(addresses)) {
		workers.Go(func() {
			for i := range jobs {
				pages[i] = c.fetch.get(ctx, addresses[i], depth)
				fetched <- i
			}
		})
	}

	timer := time.NewTimer(time.Until(c.due))
	defer timer.Stop()
	var feed chan<- int // jobs, while a request may begin
	var err error
	for begun, inFlight := 0, 0; inFlight > 0 || begun < len(addresses) && err == nil; {
		select {
		case <-timer.C:
			feed = jobs
		case feed <- begun:
			begun++
			inFlight++
			feed = nil
			c.due = time.Now().Add(c.cfg.delay)
			if begun < len(addresses) && stop != nil {
				timer.Reset(c.cfg.delay)
			}
		case i := <-fetched:
			inFlight--
			if pages[i].Error != "" && ctx.Err() != nil {
				err = errStopped // the page is not to blame, and has no record
				continue
			}
			c.report(pages[i], hops)
		case <-stop:
			stop, feed = nil, nil
			timer.Stop()
			if begun < len(addresses) {
				err = errStopped
			}
			if !c.stopping {
				c.stopping = true
				c.out.logf("stopping; pages in flight: %d", inFlight)
			}
		}
	}
	return pages, err
}

// report counts a page and tells of it.
func (c *crawl) report(p *page, hops int) {
	if p.Redirect != "" && hops == maxHops {
		p.Error = fmt.Sprintf("more than %d redirects in a row", maxHops)
		p.follow = nil
	}
	switch {
	case p.Redirect != "" || c.within(p.Depth+1):
		c.meet(p.follow)
	default:
		p.follow = nil
	}
	c.done++
	c.bytes += p.Bytes
	c.out.record(p)
	if p.Error != "" {
		c.failed++
		c.out.warnf("%d %s: %s", p.Status, p.URL, p.Error)
	} else {
		c.out.logf("%d %s (%d bytes, %d ms)", p.Status, p.URL, p.Bytes, p.MS)
	}
	c.out.status(c.progress(), "%d of %d pages", c.done, c.known())
}

// known is how many pages the crawl will have, by what is known now.
func (c *crawl) known() int { return min(len(c.found)-c.refused, c.cfg.maxPages) }

func (c *crawl) progress() float64 { return float64(c.done) / float64(max(1, c.known())) }

func (c *crawl) tally() string {
	return fmt.Sprintf("%d pages, %d with errors", c.done, c.failed)
}

// finish hands over the result.
func (c *crawl) finish(took time.Duration) {
	c.out.send("RESULT", struct {
		Pages  int `json:"pages"`
		Errors int `json:"errors"`
		// Skipped counts the addresses that robots.txt forbids, and Left those that were found but
		// not fetched: beyond max_pages, or not reached before a stop.
		Skipped int     `json:"skipped"`
		Left    int     `json:"left"`
		Bytes   int64   `json:"bytes"`
		Seconds float64 `json:"seconds"`
	}{c.done, c.failed, c.refused, len(c.found) - c.refused - c.done, c.bytes, took.Round(time.Millisecond).Seconds()})
	c.out.logf("%s, %d bytes in %v", c.tally(), c.bytes, took.Round(time.Millisecond))
}
