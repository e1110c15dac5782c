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
	"millrace/jet"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

const atUsage = "as it was at a `moment`: a sequence of the log, or a time: -10m, 12:00, 2026-03-01"

// atFlag adds --at.
func atFlag(fs *pflag.FlagSet, at *string) { fs.StringVar(at, "at", "", atUsage) }

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

// pointAt is the place in the log of a moment.
func (a *app) pointAt(ctx context.Context, c *client.Client, m view.Moment) (view.Point, error) {
	ctx, cancel := a.asking(ctx)
	defer cancel()
	if m.Seq > 0 {
		last, err := c.Last(ctx)
		if err == nil && m.Seq > last {
			err = &fault{code: exitNotFound, err: fmt.Errorf("--at: there is no sequence %d yet: the log ends at %d", m.Seq, last)}
		}
		if err != nil {
			return view.Point{}, err
		}
	}
	p, found, err := c.PointAt(ctx, m)
	if err == nil && !found {
		err = &fault{code: exitNotFound, err: errors.New("--at: the log begins later")}
	}
	return p, err
}

// momentFlag refuses a --at that is none, before anything is asked.
func (a *app) momentFlag(at *string, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := a.moments(c, *at); err != nil {
			return err
		}
		return run(c, args)
	}
}

// moments refuses those that are none.
func (a *app) moments(c *cobra.Command, at ...string) error {
	for _, text := range at {
		if _, err := parseMoment(text, a.now()); err != nil {
			return misuse(c, "%w", err)
		}
	}
	return nil
}

// sight is what a command looks at: the present, or a moment of the past.
type sight struct {
	view view.View
	now  func() time.Time // by which it is judged
	past *shownPoint      // nil in the present
}

// shownPoint is a moment of the past in JSON.
type shownPoint struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
	// NotRecorded names what is shown of the present besides, and the log does not tell.
	NotRecorded []string `json:"not_recorded,omitempty"`
}

// How much of the past a command asks for.
const (
	single = false // things by their names
	whole  = true  // lists and counts as well
)

// sight is the present if at is "", else the moment that it names; lacks is what the log does not tell of that.
func (a *app) sight(ctx context.Context, c *client.Client, at string, all bool, lacks ...string) (sight, error) {
	m, err := parseMoment(at, a.now())
	if err != nil || at == "" {
		return sight{view: c.View(), now: a.now}, err
	}
	p, err := a.pointAt(ctx, c, m)
	if err != nil {
		return sight{}, err
	}
	var model view.Model = view.Unfolded(p)
	if all {
		memory := view.NewMemory()
		err := a.span(ctx, c, 1, p.Seq, func(r *events.Record) error {
			memory.Add(r)
			return nil
		})
		if err != nil {
			return sight{}, err
		}
		model = memory
	}
	past, err := c.Past(ctx, model)
	return sight{past, func() time.Time { return p.At }, &shownPoint{p.Seq, p.At, lacks}}, err
}

// unknown says of a thing that is not there at which moment it is not.
func (s *sight) unknown(err error) error {
	if s.past != nil && (errors.Is(err, task.ErrUnknown) || errors.Is(err, node.ErrUnknown) || errors.Is(err, jet.ErrNoJob)) {
		return fmt.Errorf("as of sequence %d: %w", s.past.Seq, err)
	}
	return err
}

// mark says under a table of what moment of the past it is, to who looks now.
func (s *sight) mark(t *table, now time.Time) {
	if s.past != nil {
		t.foot = append(t.foot, s.words(now))
	}
}

// words name the moment of the past to who looks now.
func (s *sight) words(now time.Time) string {
	text := fmt.Sprintf("as it was at sequence %d, %s", s.past.Seq, moment(s.past.Stored, now))
	if len(s.past.NotRecorded) > 0 {
		text += "; not recorded: " + strings.Join(s.past.NotRecorded, ", ")
	}
	return text
}
