package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/rights"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/quota"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Present is a [view.View] of the present that also knows what the log does not decide.
type Present struct {
	*view.World
	c *Client
}

var (
	_ view.View    = Present{}
	_ view.Present = Present{}
)

// View returns a view of the present. Lists and counts come from a millrace server; the error wraps
// [jet.ErrNoService] if none answers. Single tasks, nodes and queues come from the log.
func (c *Client) View() Present { return c.ViewOf(service{c}) }

// ViewOf is [Client.View] with lists and counts from this read model.
func (c *Client) ViewOf(m view.Model) Present {
	if c.role != "" {
		return Present{view.Live(askedModel{m, asked{c}}, asked{c}.About), c}
	}
	return Present{view.Live(defined{m, c.store}, facts{c.store}.About), c}
}

// PointAt returns the place in the log of a moment; false if the log begins later.
func (c *Client) PointAt(ctx context.Context, m view.Moment) (view.Point, bool, error) {
	if m == (view.Moment{}) {
		m.Seq = math.MaxUint64
	}
	last, err := c.Last(ctx)
	if err != nil {
		return view.Point{}, false, err
	}
	var r events.Record
	var found bool
	if c.role != "" {
		r, found, err = asked{c}.last(ctx, last, func(r *events.Record) bool { return m.Seq > 0 && r.Seq > m.Seq || m.Seq == 0 && r.Stored.After(m.At) })
	} else if m.Seq > 0 {
		r, found, err = c.store.LastUpTo(ctx, min(m.Seq, last))
	} else {
		r, found, err = c.store.LastAt(ctx, m.At)
	}
	return view.Point{Seq: r.Seq, At: r.Stored}, found, err
}

// First returns the first message of the log; false if there is none.
func (c *Client) First(ctx context.Context) (events.Record, bool, error) {
	if c.role != "" {
		return asked{c}.first(ctx, 1)
	}
	first, err := c.store.Page(ctx, 1, 1)
	if err != nil || len(first) == 0 {
		return events.Record{}, false, err
	}
	return first[0], true, nil
}

// Import says what the log lacks, because it was imported or has forgotten its front.
func (c *Client) Import(ctx context.Context) (is events.Import, err error) {
	if c.role == "" {
		is = c.store.Import()
	} else {
		var h Health
		h, err = c.Health(ctx)
		is = h.Import
	}
	if err != nil {
		return is, err
	}
	begins, err := c.Begins(ctx)
	is.Lacks = max(is.Lacks, max(begins, 1)-1)
	return is, err
}

// Begins is the first sequence of a log that has forgotten its front; 0 if it has forgotten nothing.
func (c *Client) Begins(ctx context.Context) (uint64, error) {
	first, found, err := c.First(ctx)
	if err != nil || !found || first.Seq == 1 {
		return 0, err
	}
	if c.role == "" { // else it may be that a few messages of servers are gone, and a little less is judged
		h, err := c.rec.Horizon(ctx)
		if err != nil || h.Head == 0 {
			return 0, err
		}
	}
	return first.Seq, nil
}

// Reached refuses a moment that the log has not reached by now; see [view.Moment.Reached].
func (c *Client) Reached(ctx context.Context, m view.Moment, now time.Time) error {
	last, err := c.Last(ctx)
	if err != nil {
		return err
	}
	return m.Reached(last, now)
}

// Then returns a view of a place in the log. It lists nodes, queues and definitions as their facts
// make them, and no tasks: the service does, as of a moment.
func (c *Client) Then(p view.Point) Then {
	m := &then{c: c, at: p, has: map[view.Kind]*view.Memory{}}
	return Then{view.At(m, c.Log().About, p.Seq), m}
}

// Then is a view of a place in the log that lists no tasks. Only one goroutine may use it.
type Then struct {
	*view.World
	then *then
}

// Fold reads all nodes, queues or definitions in advance.
func (t Then) Fold(ctx context.Context, kinds ...view.Kind) error {
	for _, kind := range kinds {
		if _, err := t.List(ctx, view.Query{Kind: kind}); err != nil {
			return err
		}
	}
	return nil
}

// Know has the view list these nodes, and read none.
func (t Then) Know(nodes []node.Node) { t.then.nodes = nodes }

// then is the model of a place in the log, which folds what is asked for.
type then struct {
	c     *Client
	at    view.Point
	has   map[view.Kind]*view.Memory
	nodes []node.Node // those that are known otherwise; nil if they are not
}

func (t *then) of(ctx context.Context, kind view.Kind) (*view.Memory, error) {
	if m := t.has[kind]; m != nil {
		return m, nil
	}
	m := view.NewMemory()
	if err := t.c.before(ctx, kind, t.at.Seq, func(r *events.Record) error { m.Add(r); return nil }); err != nil {
		return nil, err
	}
	t.has[kind] = m
	return m, nil
}

// Point implements [view.Model].
func (t *then) Point(context.Context) (view.Point, error) { return t.at, nil }

// List implements [view.Model].
func (t *then) List(ctx context.Context, q view.Query) (view.Page, error) {
	switch {
	case !q.Kind.Few():
		return view.Unfolded(t.at).List(ctx, q)
	case q.Kind == view.Nodes && t.nodes != nil:
		return view.Page{Point: t.at, Nodes: t.nodes}, nil
	}
	m, err := t.of(ctx, q.Kind)
	if err != nil {
		return view.Page{}, err
	}
	page, err := m.List(ctx, q)
	page.Point = t.at
	return page, err
}

// Count implements [view.Model].
func (t *then) Count(ctx context.Context, q view.Query) (view.Counts, error) {
	return view.Unfolded(t.at).Count(ctx, q)
}

// before passes the log's records about all nodes, queues or definitions up to a sequence to each,
// in order.
func (c *Client) before(ctx context.Context, kind view.Kind, seq uint64, each func(*events.Record) error) error {
	if c.role != "" {
		return asked{c}.each(ctx, factsRequest{FactFilter: view.FactFilter{Types: typesOf[kind]}}, func(r *events.Record) error {
			if r.Seq > seq || view.RefOf(r).Kind != kind {
				return nil
			}
			return each(r)
		})
	}
	of := map[view.Kind]events.Kind{view.Nodes: events.KindNode, view.Queues: events.KindQueue, view.Definitions: events.KindDefinition}[kind]
	records, err := c.store.AllOf(ctx, of)
	for i := 0; err == nil && i < len(records) && records[i].Seq <= seq; i++ {
		err = each(&records[i])
	}
	return err
}

// Beats implements [view.Present].
func (p Present) Beats(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	if p.c.role != "" {
		return p.c.beats(ctx)
	}
	return p.c.store.Alive(ctx)
}

// Ran implements [view.Present].
func (p Present) Ran(ctx context.Context, name string) (string, error) {
	if p.c.role != "" {
		return "", nil // the service does not say it
	}
	ran, err := p.c.store.Ran(ctx, name)
	return ran.Node, err
}

// Paused implements [view.Present].
func (p Present) Paused(ctx context.Context, lane placement.Lane) (*queue.Pause, error) {
	if p.c.role != "" {
		return nil, nil // likewise
	}
	until, consumer, err := p.c.store.LanePaused(ctx, lane)
	if err != nil || until.IsZero() {
		return nil, err
	}
	return &queue.Pause{Until: until, Consumer: consumer}, nil
}

// Standing implements [view.Present].
func (p Present) Standing(ctx context.Context, id task.ID, holders int) (*quota.Standing, error) {
	page, err := p.c.Limits(ctx, LimitListRequest{Task: id, Holders: holders})
	if errors.Is(err, jet.ErrNoService) {
		err = nil
	}
	return page.Standing, err
}

// ShownFact is a message of the log as JSON shows it: what the log knows about it, and the fact as
// it was written.
type ShownFact struct {
	// Seq is the message's sequence, Stored when the log took it, and Subject where it lies.
	Seq     uint64    `json:"seq"`
	Stored  time.Time `json:"stored"`
	Subject string    `json:"subject"`
	// Fact is the message: see docs/wire.md.
	Fact json.RawMessage `json:"fact,omitempty"`
	// Raw is the message if it is not JSON, and Error why it is not a fact.
	Raw   string `json:"raw,omitempty"`
	Error string `json:"error,omitempty"`
}

// ShowFact returns a fact as JSON shows it.
func ShowFact(r *events.Record) ShownFact {
	f := ShownFact{Seq: r.Seq, Stored: r.Stored, Subject: r.Place}
	if json.Valid(r.Raw) {
		f.Fact = json.RawMessage(r.Raw)
	} else {
		f.Raw = string(r.Raw)
	}
	if r.Err != nil {
		f.Error = r.Err.Error()
	}
	return f
}

// ShowFacts returns facts as JSON shows them.
func ShowFacts(records []events.Record) []ShownFact {
	shown := make([]ShownFact, len(records))
	for i := range records {
		shown[i] = ShowFact(&records[i])
	}
	return shown
}

// facts are the chains of the log.
type facts struct{ store *jet.Store }

// About implements [Log]. The error wraps [ErrInvalid] if the name is not valid.
func (f facts) About(ctx context.Context, ref view.Ref) ([]events.Record, error) {
	switch ref.Kind {
	case view.Tasks:
		return f.store.Task(ctx, task.ID(ref.ID))
	case view.Nodes:
		id := node.ID(ref.ID)
		if err := id.Validate(); err != nil {
			return nil, Wrong(err)
		}
		return f.store.Node(ctx, id, 0)
	case view.Queues:
		if err := value.ValidName("queue", ref.ID); err != nil {
			return nil, Wrong(err)
		}
		return f.store.Queue(ctx, ref.ID)
	case view.Definitions:
		return f.store.DefinitionFacts(ctx, task.Def(ref.ID))
	case view.Breakers:
		return f.store.BreakerFacts(ctx, ref.ID)
	case view.Decisions:
		name, tick, err := view.TickOf(ref)
		if err != nil {
			return nil, err
		}
		decided, err := f.store.Decisions(ctx, name, tick.Add(-time.Minute))
		return slices.DeleteFunc(decided, func(r events.Record) bool { return !schedule.Decides(r.Fact.Event, tick) }), err
	}
	return nil, nil
}

// Messages implements [Log].
func (f facts) Messages(ctx context.Context, seqs []uint64) ([]events.Record, error) {
	return f.store.Messages(ctx, seqs)
}

// defined is a read model that reads definitions from the log.
type defined struct {
	view.Model
	store *jet.Store
}

// List implements [view.Model].
func (d defined) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	if q.Kind != view.Definitions {
		return d.Model.List(ctx, q)
	}
	if page.Point.Seq, err = d.store.Last(ctx); err == nil {
		page.Definitions, err = d.store.Definitions(ctx, q.Of)
	}
	return page, err
}

// service is the read model of any millrace server that answers.
type service struct{ c *Client }

// Point implements [view.Model].
func (s service) Point(ctx context.Context) (view.Point, error) {
	page, err := s.c.List(ctx, ListRequest{Filter: view.Filter{Limit: 1}})
	return view.Point{Seq: page.Seq}, err
}

// List implements [view.Model].
func (s service) List(ctx context.Context, q view.Query) (page view.Page, err error) {
	switch q.Kind {
	case view.Nodes:
		page.Nodes, page.Point.Seq, page.Beating, err = s.c.knownNodes(ctx, q.AtLeast)
		return page, err
	case view.Queues:
		queues, err := s.c.Queues(ctx, QueueListRequest{AtLeast: q.AtLeast})
		for i := range queues.Queues {
			if said := queues.Queues[i].Queue; said.Head > 0 {
				page.Queues = append(page.Queues, said)
			}
		}
		page.Point.Seq = queues.Seq
		return page, err
	case view.Messages:
		found, err := s.c.Unreadable(ctx, UnreadableRequest{Limit: q.Limit, Before: q.Before, AtLeast: q.AtLeast})
		for _, m := range found.Messages {
			page.Messages = append(page.Messages, view.Message(m))
		}
		page.Point.Seq = found.Seq
		return page, err
	case view.Tasks:
		if q.Suspect != nil {
			return page, fmt.Errorf("%w: which tasks are suspect a server judges by its own rules", view.ErrQuery)
		}
		found, err := s.c.List(ctx, ListRequest{Filter: q.Filter, AtLeast: q.AtLeast})
		if errors.Is(err, jet.ErrNoService) {
			err = unlisted{err}
		}
		return view.Page{Tasks: found.Tasks, Next: found.Next, Point: view.Point{Seq: found.Seq}}, err
	}
	return page, fmt.Errorf("%w: nothing is listed of %s", view.ErrQuery, q.Kind)
}

// unlisted is an error that is a [view.ErrUnlisted] and keeps its own text.
type unlisted struct{ error }

func (u unlisted) Is(target error) bool { return target == view.ErrUnlisted }
func (u unlisted) Unwrap() error        { return u.error }

// Count implements [view.Model]. It reads the whole list, so tasks that change meanwhile may be
// counted in their old state.
func (s service) Count(ctx context.Context, q view.Query) (c view.Counts, err error) {
	if q.Kind != view.Tasks {
		return c, fmt.Errorf("%w: nothing is counted of %s", view.ErrQuery, q.Kind)
	}
	q.Limit, q.Cursor, q.After = view.MaxLimit, "", ""
	for {
		page, err := s.List(ctx, q)
		if err != nil {
			return c, err
		}
		for i := range page.Tasks {
			c.Add(page.Tasks[i].QueueName(), page.Tasks[i].State, 1)
		}
		if c.Point = page.Point; page.Next == "" {
			return c, nil
		}
		q.Cursor = page.Next
	}
}

// DiffRequest names two moments, and chooses the tasks that are compared.
type DiffRequest struct {
	// At is the first moment: a sequence of the log, or a time.
	At string `json:"at"`
	// Until is the second moment. Default: the end of the log.
	Until string `json:"until,omitempty"`
	// Queue and Job choose tasks. Default: all tasks.
	Queue string `json:"queue,omitempty"`
	Job   string `json:"job,omitempty"`
	// Limit is how many of the tasks that went to another state are named: 1 to 1000, default 50.
	Limit int `json:"limit,omitempty"`
}

// Place is a place in the log.
type Place struct {
	// Seq is the sequence of the last message that counts, and At when the log stored it.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
}

// Difference is the change of everything from one place in the log to another.
type Difference struct {
	// Was is the first place, and Is the second one.
	Was Place `json:"was"`
	Is  Place `json:"is"`
	view.Difference
}

// Diff asks the server what changed between two moments. The error wraps [jet.ErrNoService] if no
// server answers.
func (c *Client) Diff(ctx context.Context, r DiffRequest) (d Difference, err error) {
	err = c.ask(ctx, rights.LogDiff, r, &d)
	return d, err
}
