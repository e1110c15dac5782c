package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"millrace/client"
	"millrace/events"
	"millrace/view"
)

// atFlag adds --at.
func atFlag(fs *pflag.FlagSet, at *string) {
	fs.StringVar(at, "at", "", "as it was at a `moment`: a sequence of the log, or a time: -10m, 12:00, 2026-03-01; reads the log up to there")
}

// parseMoment reads the value of --at; "" is the end of the log.
func parseMoment(text string, now time.Time) (m view.Moment, err error) {
	if text == "" {
		return m, nil
	}
	if seq, bad := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 64); bad == nil {
		if seq == 0 {
			return m, errors.New("--at: sequences begin with 1")
		}
		return view.Moment{Seq: seq}, nil
	}
	if m.At, err = parsePast(strings.TrimPrefix(text, "-"), now); err != nil {
		return m, fmt.Errorf("--at: %w, or a sequence of the log: 1048211", err)
	}
	return m, nil
}

// errThere ends the reading of a log at a moment.
var errThere = errors.New("the moment is reached")

// readTo hands on the records of the log up to a moment and returns where that is.
func (a *app) readTo(ctx context.Context, c *client.Client, m view.Moment, each func(*events.Record)) (p view.Point, err error) {
	if m.Seq > 0 {
		last, err := c.Last(ctx)
		if err == nil && m.Seq > last {
			err = &fault{code: exitNotFound, err: fmt.Errorf("--at: there is no sequence %d yet: the log ends at %d", m.Seq, last)}
		}
		if err != nil {
			return p, err
		}
	}
	err = a.span(ctx, c, 1, m.Seq, func(r *events.Record) error {
		if m.Before(r) {
			return errThere
		}
		p = view.Point{Seq: r.Seq, At: r.Stored}
		each(r)
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errThere):
		return p, err
	case p.Seq == 0:
		return p, &fault{code: exitNotFound, err: errors.New("--at: the log begins later")}
	}
	return p, nil
}

// momentFlag refuses a --at that is none, before anything is asked.
func (a *app) momentFlag(at *string, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if _, err := parseMoment(*at, a.now()); err != nil {
			return misuse(c, "%w", err)
		}
		return run(c, args)
	}
}

// thing is the log as it was at a moment, for questions about single things.
func (a *app) thing(ctx context.Context, c *client.Client, m view.Moment) (*view.World, view.Point, error) {
	p, err := a.readTo(ctx, c, m, func(*events.Record) {})
	if err != nil {
		return nil, p, err
	}
	w, err := c.Past(ctx, view.Unfolded(p))
	return w, p, err
}

// world is everything as it was at a moment.
func (a *app) world(ctx context.Context, c *client.Client, m view.Moment) (*view.World, view.Point, error) {
	memory := view.NewMemory()
	p, err := a.readTo(ctx, c, m, memory.Add)
	if err != nil {
		return nil, p, err
	}
	w, err := c.Past(ctx, memory)
	return w, p, err
}

// shownPoint is a moment of the past in JSON.
type shownPoint struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
}

// pastLine says under a table of what moment it is.
func pastLine(p view.Point, now time.Time) string {
	return fmt.Sprintf("as it was at sequence %d, %s; heartbeats, progress and checkpoints of then are not recorded", p.Seq, moment(p.At, now))
}
