package crawler

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// config holds the parameters of a crawl.
type config struct {
	// start is the address of the first page, canonical; "" for the sample site.
	start string
	// maxPages bounds the addresses asked for, redirects and failures included.
	maxPages int
	// maxDepth is how many links a page may be away from the start; negative: any number.
	maxDepth int
	workers  int
	// delay is the least time between the beginnings of two requests.
	delay time.Duration
	// timeout bounds one request, its body included.
	timeout time.Duration
}

func (c *config) flags() *flag.FlagSet {
	fs := flag.NewFlagSet("crawl", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // errors are reported once, by Main
	fs.IntVar(&c.maxPages, "max-pages", 100, "crawl at most `N` pages")
	fs.IntVar(&c.maxDepth, "max-depth", -1, "go at most `N` links away from the start page; -1 for no limit")
	fs.IntVar(&c.workers, "workers", 4, "fetch `N` pages at once, 1 to 64")
	fs.DurationVar(&c.delay, "delay", 100*time.Millisecond, "leave this `time` between two requests")
	fs.DurationVar(&c.timeout, "timeout", 10*time.Second, "give up on a page after this `time`")
	return fs
}

func usage() string {
	var text bytes.Buffer
	fmt.Fprint(&text, `crawl [flags] [URL]

Crawls the site at URL, or a sample site of its own if there is no URL.
$MILLRACE_PARAMS may hold the same as JSON: {"url": "http://example.com/", "max_pages": 50}.

`)
	fs := new(config).flags()
	fs.SetOutput(&text)
	fs.PrintDefaults()
	return strings.TrimRight(text.String(), "\n")
}

// parse reads the parameters, which are "" or a JSON object, and then the
// arguments. It returns [flag.ErrHelp] if the arguments ask for help.
func parse(args []string, params string) (config, error) {
	var c config
	fs := c.flags()
	start, err := setParams(fs, params)
	if err != nil {
		return config{}, fmt.Errorf("MILLRACE_PARAMS: %w", err)
	}
	switch err := fs.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return config{}, err
	case err != nil:
		return config{}, fmt.Errorf("%w; crawl -h lists the flags", err)
	case fs.NArg() > 1:
		return config{}, fmt.Errorf("one URL at most, and after the flags; got %s", strings.Join(fs.Args(), " "))
	case fs.NArg() == 1:
		start = fs.Arg(0)
	}
	if start != "" {
		if c.start, err = startAddress(start); err != nil {
			return config{}, err
		}
	}
	return c, c.check()
}

func (c *config) check() error {
	switch {
	case c.maxPages < 1:
		return fmt.Errorf("max-pages is %d, want at least 1", c.maxPages)
	case c.workers < 1 || c.workers > 64:
		return fmt.Errorf("workers is %d, want 1 to 64", c.workers)
	case c.delay < 0:
		return fmt.Errorf("delay is %v, want 0s or more", c.delay)
	case c.timeout <= 0:
		return fmt.Errorf("timeout is %v, want more than 0s", c.timeout)
	}
	return nil
}

// setParams sets the flags that the parameters name, max_pages for max-pages, and returns the url
// among them. A null parameter counts as absent; one that no flag knows is an error, because a
// misspelt limit is no limit.
func setParams(fs *flag.FlagSet, params string) (start string, err error) {
	if strings.TrimSpace(params) == "" {
		return "", nil
	}
	var values map[string]json.RawMessage
	if err := json.Unmarshal([]byte(params), &values); err != nil {
		return "", fmt.Errorf("want a JSON object: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := string(values[name])
		if text == "null" {
			continue
		}
		if text[0] == '"' {
			if err := json.Unmarshal(values[name], &text); err != nil {
				return "", fmt.Errorf("%s: %w", name, err)
			}
		}
		if name == "url" {
			start = text
			continue
		}
		known := fs.Lookup(strings.ReplaceAll(name, "_", "-"))
		if known == nil || strings.Contains(name, "-") {
			return "", fmt.Errorf("there is no parameter %q", name)
		}
		if err := known.Value.Set(text); err != nil {
			return "", fmt.Errorf("%s is %s: %w", name, values[name], err)
		}
	}
	return start, nil
}
