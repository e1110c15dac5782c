package connect

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/exit"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/query"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/quota"
)

// AtUsage is the help of --at.
const AtUsage = "as it was at a `moment`: a sequence of the log, or a time: -10m, 12:00, 2026-03-01"

// Then describes how a command answers about a moment of the past.
type Then struct {
	// Folds are the kinds of things that it lists, and [view.Tasks] also if it counts tasks or
	// needs sums. Named things are read singly.
	Folds []view.Kind
	// Asks tells that the service can answer: then nothing is folded before [Look] finds that it
	// does not.
	Asks bool
	// Lacks names what it shows of the present and the log does not hold.
	Lacks []string
}

// AtFlag lets a command answer about a moment of the past: it adds --at, refuses a wrong value
// before anything is requested, and excludes --watch. It returns the function that opens the
// command's sight.
func (a *App) AtFlag(c *cobra.Command, then Then) func(context.Context, *client.Client) (Sight, error) {
	var at string
	c.Flags().StringVar(&at, "at", "", AtUsage)
	if c.Flags().Lookup("watch") != nil {
		c.MarkFlagsMutuallyExclusive("at", "watch")
	}
	c.PreRunE = func(c *cobra.Command, _ []string) error {
		if !c.Flags().Changed("at") {
			return nil
		}
		return a.Moments(c, at)
	}
	return func(ctx context.Context, cl *client.Client) (Sight, error) { return a.Sight(ctx, cl, at, then) }
}

// PointAt returns the place in the log of a moment, the value of a flag that errors name.
func (a *App) PointAt(ctx context.Context, c *client.Client, flag string, m view.Moment) (view.Point, error) {
	ctx, cancel := a.Asking(ctx)
	defer cancel()
	unknown := func(format string, args ...any) (view.Point, error) {
		return view.Point{}, &exit.Fault{Code: exit.NotFound, Err: fmt.Errorf(flag+": "+format, args...)}
	}
	if err := a.Inside.tells(flag, m); err != nil {
		return view.Point{}, err
	}
	if err := c.Reached(ctx, m, a.Now()); errors.Is(err, view.ErrNotYet) {
		return unknown("%w", err)
	} else if err != nil {
		return view.Point{}, err
	}
	p, found, err := c.PointAt(ctx, m)
	if err != nil || found {
		return p, err
	}
	first, found, err := c.First(ctx)
	switch {
	case err != nil:
		return p, err
	case !found:
		return unknown("the log has no messages yet")
	}
	return unknown("the log begins later, with #%d at %s", first.Seq, first.Stored.Local().Format(timeForm))
}

// Moments refuses values that are not moments.
func (a *App) Moments(c *cobra.Command, at ...string) error {
	for _, text := range at {
		_, err := query.Moment(text, a.Now().Local())
		switch {
		case err != nil:
			return exit.Misuse(c, "--at: %w", err)
		case text == "":
			return exit.Misuse(c, "--at is empty: want a moment, or %s for the end of the log", query.End)
		}
	}
	return nil
}

// Sight is what a command looks at: the present, or a moment of the past.
type Sight struct {
	View   view.View
	Then   view.Whole       // the same, for the past; nil in the present
	Now    func() time.Time // by which things are judged
	Past   *ShownPoint      // nil in the present
	fold   func(context.Context, ...view.Kind) error
	limits view.Limited // of the past, by a fold of everything
	asked  bool         // a server has answered about the present
}

// ShownPoint is a moment of the past in JSON.
type ShownPoint struct {
	Seq    uint64    `json:"seq"`
	Stored time.Time `json:"stored"`
	// NotRecorded names what the present also shows and the log does not hold.
	NotRecorded []string `json:"not_recorded,omitempty"`
}

// Sight is the present if at is "", else the moment that it names.
func (a *App) Sight(ctx context.Context, c *client.Client, at string, then Then) (Sight, error) {
	at = a.Inside.moment(at)
	m, err := query.Moment(at, a.Now().Local())
	if err != nil || at == "" {
		return Sight{View: c.View(), Now: a.Now}, err
	}
	p, err := a.PointAt(ctx, c, "--at", m)
	if err != nil {
		return Sight{}, err
	}
	model := view.NewFolding(p, func(ctx context.Context, kind view.Kind, each func(*events.Record) error) error {
		if kind == view.Tasks {
			return a.Span(ctx, c, 1, p.Seq, each)
		}
		return c.Before(ctx, kind, p.Seq, each)
	}, nil)
	if !then.Asks {
		if slices.Contains(then.Folds, view.Nodes) {
			a.knowNodes(ctx, c, model, p)
		}
		// Now, for it may take longer than an answer.
		if err := model.Fold(ctx, then.Folds...); err != nil {
			return Sight{}, err
		}
	}
	past := c.Past(model)
	return Sight{View: past, Then: past, Now: func() time.Time { return p.At }, Past: &ShownPoint{p.Seq, p.At, then.Lacks}, fold: model.Fold, limits: past}, nil
}

// knowNodes asks a server for the nodes of a moment, if one answers. In a long log their facts lie far
// apart, and a NATS server that has just started takes seconds to find them.
func (a *App) knowNodes(ctx context.Context, c *client.Client, model *view.Folding, p view.Point) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	page, err := c.Nodes(asking, client.NodeListRequest{At: strconv.FormatUint(p.Seq, 10), Bare: true})
	if err != nil {
		return // the log has them
	}
	all := view.Page{}
	for i := range page.Nodes {
		all.Nodes = append(all.Nodes, page.Nodes[i].Node)
	}
	model.Know(view.Nodes, &all)
}

// A Question is what a command asks a server about.
type Question struct {
	// At is a moment of the past; "" is the present.
	At string
	// AtLeast is the sequence of the log that an answer about the present reflects; 0 takes any.
	AtLeast uint64
}

// catchUpFor is how long a look at the present waits for the server's read model to reach the end
// of the log.
const catchUpFor = 2 * time.Second

// Look returns a function that asks a server, by ask.
//
// The first answer about the present reflects all that the log held when the command asked, so that
// a list shows what the operator has just submitted. If the read model does not get there within 2
// s, the server answers with what it has, and a note says so. A command that watches takes later
// answers as they come.
//
// It asks about the past at once. If no server can answer, this process folds the whole log up to
// that moment, which may take minutes, and folded answers from that.
func Look[A any](ctx context.Context, a *App, c *client.Client, s *Sight, ask func(context.Context, Question) (A, error),
	folded func(context.Context) (A, error)) func(context.Context) (A, error) {
	if s.Past == nil {
		return func(ctx context.Context) (A, error) {
			if s.asked {
				return ask(ctx, Question{})
			}
			s.asked = true
			return askFresh(ctx, a, c.Last, ask)
		}
	}
	asking, cancel := a.Asking(ctx)
	defer cancel()
	answer, err := ask(asking, Question{At: strconv.FormatUint(s.Past.Seq, 10)})
	if err != nil && ctx.Err() == nil {
		if err = s.fold(ctx, view.Tasks); err == nil {
			answer, err = folded(ctx)
		}
	}
	return func(context.Context) (A, error) { return answer, err }
}

// askFresh asks for an answer that reflects the end of the log, and takes an older one from a read
// model that lags.
func askFresh[A any](ctx context.Context, a *App, end func(context.Context) (uint64, error), ask func(context.Context, Question) (A, error)) (A, error) {
	last, err := end(ctx)
	if err != nil {
		return ask(ctx, Question{}) // its error says more than one about the end of the log
	}
	// Half of a short --timeout is left for the answer that is taken instead.
	waiting, cancel := context.WithTimeout(ctx, min(catchUpFor, a.Conn.Timeout/2))
	defer cancel()
	answer, err := ask(waiting, Question{AtLeast: last})
	if err == nil || waiting.Err() == nil || ctx.Err() != nil {
		return answer, err
	}
	answer, err = ask(ctx, Question{})
	if err == nil {
		a.Note("the server's lists lag behind the log; this is what they have")
	}
	return answer, err
}

// Unknown adds the moment to the error about a thing that does not exist then.
func (s *Sight) Unknown(err error) error {
	if s.Past != nil && (errors.Is(err, task.ErrUnknown) || errors.Is(err, node.ErrUnknown) || errors.Is(err, client.ErrNoQueue) || errors.As(err, new(*definitions.Absent))) {
		return fmt.Errorf("as of sequence %d: %w", s.Past.Seq, err)
	}
	return err
}

// Fold folds some kinds of a moment of the past in advance, for that may take longer than an answer.
func (s *Sight) Fold(ctx context.Context, kinds ...view.Kind) error { return s.fold(ctx, kinds...) }

// stood is a moment of the past at which it is known where one task waits before its limits.
type stood struct {
	view.Whole
	standing *quota.Standing
}

// Standing implements [view.Limited], for that task alone.
func (s stood) Standing(context.Context, task.ID, int) (*quota.Standing, error) {
	return s.standing, nil
}

// Stand finds out where a task of the past waits before its limits, if they hold it, so that the
// view tells it, with up to holders of their holders. A server is asked; if none can answer, this
// process folds the whole log, which may take longer than an answer.
func (a *App) Stand(ctx context.Context, c *client.Client, s *Sight, id task.ID, holders int) error {
	return a.stand(ctx, s, id, holders, func(ctx context.Context, q Question) (*quota.Standing, error) {
		page, err := c.Limits(ctx, client.LimitListRequest{Task: id, Holders: holders, At: q.At})
		return page.Standing, err
	})
}

func (a *App) stand(ctx context.Context, s *Sight, id task.ID, holders int, ask func(context.Context, Question) (*quota.Standing, error)) error {
	if s.Past == nil {
		return nil
	}
	t, err := view.GetTask(ctx, s.View, id)
	if err != nil || !t.Admissible() {
		return s.Unknown(err)
	}
	standing, err := Look(ctx, a, nil, s, ask, func(ctx context.Context) (*quota.Standing, error) { return s.limits.Standing(ctx, id, holders) })(ctx)
	if err == nil {
		s.View = stood{s.Then, standing}
	}
	return err
}

// Moment is the past moment as requests to the service name it; "" for the present.
func (s *Sight) Moment() string {
	if s.Past == nil {
		return ""
	}
	return strconv.FormatUint(s.Past.Seq, 10)
}

// Point returns the place in the log of the sight; without a sequence in the present.
func (s *Sight) Point() view.Point {
	if s.Past != nil {
		return view.Point{Seq: s.Past.Seq, At: s.Past.Stored}
	}
	return view.Point{At: s.Now()}
}

// NoteMoment prints the output's past moment on stderr, for output that has no place for it.
func (a *App) NoteMoment(s *Sight) {
	if s.Past != nil {
		a.Note("%s", s.Words(a.Now()))
	}
}

// Mark adds the past moment under a table, relative to now.
func (s *Sight) Mark(t *term.Table, now time.Time) {
	if s.Past != nil {
		t.Foot = append(t.Foot, s.Words(now))
	}
}

// Words describes the past moment, relative to now.
func (s *Sight) Words(now time.Time) string {
	text := fmt.Sprintf("as it was at sequence %d, %s", s.Past.Seq, wording.Moment(s.Past.Stored, now))
	if len(s.Past.NotRecorded) > 0 {
		text += "; not recorded: " + strings.Join(s.Past.NotRecorded, ", ")
	}
	return text
}
