package reach

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
	"millrace/cmd/millrace/exit"
	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/cmd/millrace/typed"
	"millrace/events"
	"millrace/jet"
	"millrace/node"
	"millrace/task"
	"millrace/view"
)

// AtUsage is the help of --at.
const AtUsage = "as it was at a `moment`: a sequence of the log, or a time: -10m, 12:00, 2026-03-01"

// AtFlag adds --at.
func AtFlag(fs *pflag.FlagSet, at *string) { fs.StringVar(at, "at", "", AtUsage) }

// ParseMoment reads the value of --at; "" is the end of the log.
func ParseMoment(text string, now time.Time) (m view.Moment, err error) {
	if text == "" {
		return m, nil
	}
	if seq, bad := strconv.ParseUint(strings.TrimPrefix(text, "#"), 10, 64); bad == nil {
		if seq == 0 {
			return m, errors.New("--at: sequences begin with 1")
		}
		return view.Moment{Seq: seq}, nil
	}
	if m.At, err = typed.Past(strings.TrimPrefix(text, "-"), now); err != nil {
		return m, fmt.Errorf("--at: %w, or a sequence of the log: 1048211", err)
	}
	return m, nil
}

// PointAt is the place in the log of a moment.
func (a *App) PointAt(ctx context.Context, c *client.Client, m view.Moment) (view.Point, error) {
	ctx, cancel := a.Asking(ctx)
	defer cancel()
	if m.Seq > 0 {
		last, err := c.Last(ctx)
		if err == nil && m.Seq > last {
			err = &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf("--at: there is no sequence %d yet: the log ends at %d", m.Seq, last)}
		}
		if err != nil {
			return view.Point{}, err
		}
	}
	p, found, err := c.PointAt(ctx, m)
	if err == nil && !found {
		err = &exit.Fault{Code: exit.NotFound, Err: errors.New("--at: the log begins later")}
	}
	return p, err
}

// MomentFlag refuses a --at that is none, before anything is asked.
func (a *App) MomentFlag(at *string, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if err := a.Moments(c, *at); err != nil {
			return err
		}
		return run(c, args)
	}
}

// Moments refuses those that are none.
func (a *App) Moments(c *cobra.Command, at ...string) error {
	for _, text := range at {
		if _, err := ParseMoment(text, a.Now()); err != nil {
			return exit.Misuse(c, "%w", err)
		}
	}
	return nil
}

// Sight is what a command looks at: the present, or a moment of the past.
type Sight struct {
	View view.View
	Now  func() time.Time // by which it is judged
	Past *ShownPoint      // nil in the present
}

// ShownPoint is a moment of the past in JSON.
type ShownPoint struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
	// NotRecorded names what is shown of the present besides, and the log does not tell.
	NotRecorded []string `json:"not_recorded,omitempty"`
}

// How much of the past a command asks for.
const (
	Single = false // things by their names
	Whole  = true  // lists and counts as well
)

// Sight is the present if at is "", else the moment that it names; lacks is what the log does not tell of that.
func (a *App) Sight(ctx context.Context, c *client.Client, at string, all bool, lacks ...string) (Sight, error) {
	m, err := ParseMoment(at, a.Now())
	if err != nil || at == "" {
		return Sight{View: c.View(), Now: a.Now}, err
	}
	p, err := a.PointAt(ctx, c, m)
	if err != nil {
		return Sight{}, err
	}
	var model view.Model = view.Unfolded(p)
	if all {
		memory := view.NewMemory()
		err := a.Span(ctx, c, 1, p.Seq, func(r *events.Record) error {
			memory.Add(r)
			return nil
		})
		if err != nil {
			return Sight{}, err
		}
		model = memory
	}
	past, err := c.Past(ctx, model)
	return Sight{past, func() time.Time { return p.At }, &ShownPoint{p.Seq, p.At, lacks}}, err
}

// Unknown says of a thing that is not there at which moment it is not.
func (s *Sight) Unknown(err error) error {
	if s.Past != nil && (errors.Is(err, task.ErrUnknown) || errors.Is(err, node.ErrUnknown) || errors.Is(err, jet.ErrNoJob)) {
		return fmt.Errorf("as of sequence %d: %w", s.Past.Seq, err)
	}
	return err
}

// Mark says under a table of what moment of the past it is, to who looks now.
func (s *Sight) Mark(t *term.Table, now time.Time) {
	if s.Past != nil {
		t.Foot = append(t.Foot, s.Words(now))
	}
}

// Words name the moment of the past to who looks now.
func (s *Sight) Words(now time.Time) string {
	text := fmt.Sprintf("as it was at sequence %d, %s", s.Past.Seq, told.Moment(s.Past.Stored, now))
	if len(s.Past.NotRecorded) > 0 {
		text += "; not recorded: " + strings.Join(s.Past.NotRecorded, ", ")
	}
	return text
}
