package crawler

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"time"
)

// Exit codes of the program.
const (
	ExitOK     = 0 // all that could be reached has been crawled
	ExitFailed = 1 // the start page cannot be had, or the output cannot be written
	ExitUsage  = 2 // the flags or the parameters cannot be meant like that
	// ExitStopped follows a CANCEL, a SIGTERM or a Ctrl-C that left pages uncrawled.
	ExitStopped = 130
)

// Main is the program: it runs until the crawl is over and returns the exit
// code. Parameters come from $MILLRACE_PARAMS and args, which win. While it runs
// it takes the process's SIGTERM and SIGINT. A read of stdin may outlast it.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	out := &output{stdout: stdout, stderr: stderr, key: os.Getenv("MILLRACE_KEY"), abort: abort}

	cfg, err := parse(args, os.Getenv("MILLRACE_PARAMS"))
	switch {
	case errors.Is(err, flag.ErrHelp):
		out.logf("%s", usage())
		return ExitOK
	case err != nil:
		out.fail(err)
		return ExitUsage
	}

	stop := newStopper(abort)
	defer stop.close()
	defer stop.onSignals()()
	go stop.onMessages(stdin)

	if cfg.start == "" {
		address, closeSample, err := serveSample()
		if err != nil {
			out.fail(err)
			return ExitFailed
		}
		defer closeSample()
		out.logf("serving the sample site at %s", address)
		cfg.start = address
	}

	c := newCrawl(cfg, out)
	defer c.close()
	began := time.Now()
	err = c.run(ctx, stop.asked)
	switch {
	case out.err != nil:
		out.warnf("crawl: the output cannot be written: %v", out.err)
		return ExitFailed
	case errors.Is(err, errStopped):
		out.status(c.progress(), "stopped after %s: %s", c.tally(), stop.reason())
	case err != nil:
		out.fail(err)
		return ExitFailed
	default:
		out.status(1, "crawled %s", c.tally())
	}
	c.finish(time.Since(began))
	switch {
	case out.err != nil:
		return ExitFailed
	case err != nil:
		return ExitStopped
	}
	return ExitOK
}
