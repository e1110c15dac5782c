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
	"millrace/events/jet"
	"millrace/events/jet/definitions"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/quota"
)

// AtUsage is the help of --at.
const AtUsage = "as it was at a `moment`: a sequence of the log, or a time: -10m, 12:00, 2026-03-01"

// Then describes how a command answers about a moment of the past.
type Then struct {
	// Folds are the kinds of things that it lists in its own sight: read at once, for that may take
	// longer than an answer. Named things are read singly.
	Folds []view.Kind
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
		return view.Point{}, &term.Fault{Code: term.ExitNotFound, Err: fmt.Errorf(flag+": "+format, args...)}
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
	if begins, err := c.Begins(ctx); err != nil {
		return p, err
	} else if begins > 0 {
		return unknown("this is %w", view.Forgotten{Seq: begins, At: first.Stored.Local()})
	}
	return unknown("the log begins later, with #%d at %s", first.Seq, first.Stored.Local().Format(timeForm))
}

// Moments refuses values that are not moments.
func (a *App) Moments(c *cobra.Command, at ...string) error {
	for _, text := range at {
		_, err := view.ParseMoment(text, a.Now().Local())
		switch {
		case err != nil:
			return term.Misuse(c, "--at: %w", err)
		case text == "":
			return term.Misuse(c, "--at is empty: want a moment, or %s for the end of the log", view.End)
		}
	}
	return nil
}

// Sight is what a command looks at: the present, or a moment of the past.
type Sight struct {
	View  view.View
	Now   func() time.Time // by which things are judged
	Past  *ShownPoint      // nil in the present
	asked bool             // a server has answered about the present
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
	m, err := view.ParseMoment(at, a.Now().Local())
	if err != nil || at == "" {
		return Sight{View: c.View(), Now: a.Now}, err
	}
	p, err := a.PointAt(ctx, c, "--at", m)
	if err != nil {
		return Sight{}, err
	}
	past := c.Then(p)
	if slices.Contains(then.Folds, view.Nodes) {
		a.knowNodes(ctx, c, past, p)
	}
	if err := past.Fold(ctx, then.Folds...); err != nil {
		return Sight{}, err
	}
	return Sight{View: past, Now: func() time.Time { return p.At }, Past: &ShownPoint{p.Seq, p.At, then.Lacks}}, nil
}

// knowNodes asks a server for the nodes of a moment, if one answers. In a long log their facts lie far
// apart, and a NATS server that has just started takes seconds to find them.
func (a *App) knowNodes(ctx context.Context, c *client.Client, past client.Then, p view.Point) {
	asking, cancel := a.Asking(ctx)
	defer cancel()
	page, err := c.Nodes(asking, client.NodeListRequest{At: strconv.FormatUint(p.Seq, 10), Bare: true})
	if err != nil {
		return // the log has them
	}
	all := []node.Node{}
	for i := range page.Nodes {
		all = append(all, page.Nodes[i].Node)
	}
	past.Know(all)
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
// It asks about the past at once. If no server can answer, this process folds the log up to that moment,
// which may take minutes, and the service's code answers from that.
func Look[A any](ctx context.Context, a *App, c *client.Client, s *Sight, ask func(context.Context, Question) (A, error)) func(context.Context) (A, error) {
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
	then := Question{At: s.Moment()}
	answer, err := ask(asking, then)
	said, _ := errors.AsType[*jet.ServiceError](err)
	// A server refuses what its index cannot tell, and one of an earlier version what it does not know.
	unable := errors.Is(err, jet.ErrNoService) || asking.Err() != nil || said != nil && said.Code == "400"
	cancel()
	if unable && ctx.Err() == nil && c.Role() == "" {
		if err = a.alone(ctx, c, s); err == nil {
			answer, err = ask(ctx, then)
		}
	}
	return func(context.Context) (A, error) { return answer, err }
}

// alone has the client ask this process about the moment of a sight.
func (a *App) alone(ctx context.Context, c *client.Client, s *Sight) error {
	then, err := a.Folded(ctx, c, s)
	if err != nil {
		return err
	}
	rules, err := a.InForce(ctx, c)
	if err != nil {
		return err
	}
	answers.Alone(c, then, rules.Task(), rules.Nodes())
	return nil
}

// Folded folds the log up to the moment of a sight, which may take minutes.
func (a *App) Folded(ctx context.Context, c *client.Client, s *Sight) (view.Folded, error) {
	m := view.NewMemory()
	slow := time.AfterFunc(a.Conn.Timeout, func() {
		a.Note("no millrace server can say it, so this command reads the log up to sequence %d", s.Past.Seq)
	})
	defer slow.Stop()
	err := a.Span(ctx, c, 1, s.Past.Seq, func(r *events.Record) error { m.Add(r); return nil })
	return view.FoldedAt(m, c.Log().About), err
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

// stood is a moment of the past at which it is known where one task waits before its limits.
type stood struct {
	view.View
	standing *quota.Standing
}

// Standing implements [view.View], for that task alone.
func (s stood) Standing(context.Context, task.ID, int) (*quota.Standing, error) {
	return s.standing, nil
}

// Stand finds out where a task of the past waits before its limits, if they hold it, so that the
// view tells it, with up to holders of their holders.
func (a *App) Stand(ctx context.Context, c *client.Client, s *Sight, id task.ID, holders int) error {
	if s.Past == nil {
		return nil
	}
	t, err := view.GetTask(ctx, s.View, id)
	if err != nil || !t.Admissible() {
		return s.Unknown(err)
	}
	page, err := Look(ctx, a, c, s, func(ctx context.Context, q Question) (client.LimitPage, error) {
		return c.Limits(ctx, client.LimitListRequest{Task: id, Holders: holders, At: q.At})
	})(ctx)
	if err == nil {
		s.View = stood{s.View, page.Standing}
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
