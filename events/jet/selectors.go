package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/value"
)

// Times of a declaration.
const (
	declareAgain = 10 * time.Minute // after that a writer checks whether it still exists
	declareTouch = time.Hour        // an older declaration is renewed
)

// declared remembers which routes of selectors this process has declared lately, so that placing an
// offer costs no read.
type declared struct {
	mu sync.Mutex
	at map[string]time.Time // guarded by mu; by queue part
	// conn is the connection as of which that is so: a server that comes back may have lost it.
	// Guarded by mu.
	conn uint64
}

func (d *declared) lately(route string, conn uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != conn {
		d.conn, d.at = conn, nil
	}
	return time.Since(d.at[route]) < declareAgain
}

func (d *declared) note(route string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at == nil || len(d.at) > 10_000 {
		d.at = map[string]time.Time{}
	}
	d.at[route] = time.Now()
}

func (d *declared) forget(route string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.at, route)
}

// declareFor declares the route of an offer, which is a selector's, or that of a birth.
func (s *Store) declareFor(ctx context.Context, w *task.Work, by string) error {
	return s.DeclareAll(ctx, []*task.Work{w}, by)
}

// counts tells whether a route is declared: that of a selector, or of a queue by its name. The default
// queue is nobody's choice.
func counts(r placement.Route) bool {
	return r.Selected() || r.Queue() != placement.DefaultQueue && value.ValidName("queue", r.Queue()) == nil
}

// DeclareAll declares the routes of all births of a caller that are selectors', or of queues that no
// worker has served, or none of those that are not declared yet. The error wraps [ErrManySelectors] or
// [ErrManyQueues] if there is no room for them.
func (s *Store) DeclareAll(ctx context.Context, works []*task.Work, by string) error {
	var all []placement.Declaration
	seen := map[string]bool{}
	for _, w := range works {
		route := w.Route.Queue()
		if !counts(w.Route) || seen[route] || s.declared.lately(route, s.NC.Stats().Reconnects) {
			continue
		}
		seen[route] = true
		queue, needs := w.Asks()
		d := placement.Declaration{Queue: queue, Needs: needs, By: by, Unserved: !w.Route.Selected()}
		if !d.Unserved || s.unserved(ctx, route) {
			all = append(all, d)
		}
	}
	return s.declare(ctx, all)
}

// unserved tells whether no worker has ever served a queue. Where that cannot be known it is not so: a
// task need not wait for the answer.
func (s *Store) unserved(ctx context.Context, queue string) bool {
	ctx, cancel := context.WithTimeout(ctx, findTime)
	defer cancel()
	served, err := s.served(ctx, queue)
	if served {
		s.declared.note(queue)
	}
	return err == nil && !served
}

// Declare tells nodes which selector a route stands for. It is idempotent.
func (s *Store) Declare(ctx context.Context, d placement.Declaration) error {
	return s.declare(ctx, []placement.Declaration{d})
}

// declare is Declare for several, of which none is new or all that are find room.
func (s *Store) declare(ctx context.Context, all []placement.Declaration) error {
	var fresh []placement.Declaration
	for _, d := range all {
		known, err := s.renew(ctx, d)
		if err != nil {
			return fmt.Errorf("declare %s: %w", selectorWords(&d), err)
		}
		if !known {
			fresh = append(fresh, d)
		}
	}
	var end uint64 // of all declarations, with room for the rest; 0 if that is to be looked at
	for i, d := range fresh {
		var err error
		if end, err = s.declareFresh(ctx, d, fresh[i:], end); err != nil {
			return fmt.Errorf("declare %s: %w", selectorWords(&d), err)
		}
	}
	return nil
}

// renew renews a declaration if it is old, and tells whether there is one.
func (s *Store) renew(ctx context.Context, d placement.Declaration) (known bool, err error) {
	route := d.Route()
	subject := names.SelectorPrefix + d.Mark()
	_, err = s.Value(names.StateStream, subject).Decide(ctx, func(there *request.Message) (*nats.Msg, bool, error) {
		if known = there != nil; !known {
			return nil, false, nil
		}
		m := &nats.Msg{Subject: subject, Header: nats.Header{}}
		var is placement.Declaration
		switch {
		case json.Unmarshal(there.Data, &is) != nil || is.Route() != route: // a foreign message
			if is, err = s.begun(ctx, d); err != nil {
				return nil, false, err
			}
		case s.Now().Sub(is.At) < declareTouch:
			return nil, false, nil
		}
		is.At = s.Now().UTC()
		m.Data, err = json.Marshal(is)
		return m, true, err
	})
	if err == nil && known {
		s.declared.note(route)
	}
	return known, err
}

// begun is a declaration that begins now, unless it says since when its route has offers.
func (s *Store) begun(ctx context.Context, d placement.Declaration) (placement.Declaration, error) {
	d.At = s.Now().UTC()
	if d.From > 0 {
		return d, nil
	}
	last, err := s.Last(ctx)
	d.From = last + 1
	return d, err
}

// declareFresh stores a new declaration, as long as no other process declares any meanwhile: for this,
// all declarations form one chain. It returns the chain's new end. If the present end is not known,
// it looks whether there is room for all of the rest.
func (s *Store) declareFresh(ctx context.Context, d placement.Declaration, rest []placement.Declaration, end uint64) (uint64, error) {
	// Before it looks whether there is one: another process that declares the route in between places
	// offers behind that sequence, and its declaration may be the one that this replaces.
	d, err := s.begun(ctx, d)
	if err != nil {
		return 0, err
	}
	subject := names.SelectorPrefix + d.Mark()
	chain := s.Value(names.StateStream, subject)
	read := chain.Read
	chain.Read = func(ctx context.Context, wrote *nats.Msg) (there *request.Message, at uint64, mine bool, err error) {
		if there, at, mine, err = read(ctx, wrote); err == nil && there == nil {
			if at, end = end, 0; at == 0 { // after a conflict, others have declared some
				at, err = s.roomForSelectors(ctx, rest)
			}
		}
		return there, at, mine, err
	}
	decided, err := chain.Decide(ctx, func(there *request.Message) (*nats.Msg, bool, error) {
		if there != nil {
			return nil, false, nil // another process was faster
		}
		m := &nats.Msg{Subject: subject, Header: nats.Header{jetstream.ExpectedLastSubjSeqSubjHeader: {names.SelectorPrefix + "*"}}}
		m.Data, err = json.Marshal(d)
		return m, true, err
	})
	if err != nil {
		return 0, err
	}
	s.declared.note(d.Route())
	if !decided.Done() {
		return 0, nil
	}
	return decided.End, nil
}

// selectorShare is the part of all selectors that one caller may have declared: one of so many.
const selectorShare = 4

// roomForSelectors allows more declarations of one caller if there are not too many, and returns the
// end of the chain of declarations that it has counted. So any number of writers stay within the
// bound.
func (s *Store) roomForSelectors(ctx context.Context, fresh []placement.Declaration) (end uint64, err error) {
	last, _, err := s.LeaderGetFrom(ctx, names.StateStream, map[string]any{"last_by_subj": names.SelectorPrefix + "*"})
	if err != nil {
		return 0, err
	}
	stream, err := s.JS.Stream(ctx, names.StateStream)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(names.SelectorPrefix+"*"))
	if err != nil {
		return 0, err
	}
	most := mostSelectors(info)
	many, instead := ErrManySelectors, "ask for what others ask for"
	if fresh[0].Unserved {
		many, instead = ErrManyQueues, "start a worker that serves them"
	}
	if len(info.State.Subjects)+len(fresh) > most {
		return 0, fmt.Errorf("%w: try again in some seconds, when those that no task needs are gone; or %s, or raise max_selectors (%d) of the `millrace server`", many, instead, most)
	}
	by := fresh[0].By
	if share := max(most/selectorShare, 1); by != "" && len(info.State.Subjects)+len(fresh) > share {
		declared, err := s.allDeclared(ctx)
		if err != nil {
			return 0, err
		}
		own := len(fresh)
		for i := range declared {
			if declared[i].By == by {
				own++
			}
		}
		if own > share {
			return 0, fmt.Errorf("%w: %s may ask for %d of them, a quarter of max_selectors; try again in some seconds, when those that no task needs are gone, or ask for fewer", many, by, share)
		}
	}
	return last.Seq, nil
}

// mostSelectors is how many selectors may be declared.
func mostSelectors(state *jetstream.StreamInfo) int {
	most, err := strconv.Atoi(state.Config.Metadata[metaSelectors])
	if err != nil {
		return defaultSelectors
	}
	return most
}

// Crowded lists the declarations among which there is little room for more: all of them, or those of
// callers who have used up three quarters of their share.
func (s *Store) Crowded(ctx context.Context) ([]placement.Declaration, error) {
	declared, err := s.allDeclared(ctx)
	if err != nil || len(declared) == 0 {
		return nil, err
	}
	stream, err := s.JS.Stream(ctx, names.StateStream)
	if err != nil {
		return nil, err
	}
	most := mostSelectors(stream.CachedInfo())
	if 4*len(declared) < 3*most {
		by := map[string]int{}
		for i := range declared {
			by[declared[i].By]++
		}
		declared = slices.DeleteFunc(declared, func(d placement.Declaration) bool {
			return d.By == "" || 4*by[d.By] < 3*max(most/selectorShare, 1)
		})
	}
	var crowded []placement.Declaration
	for _, d := range declared {
		if d.Unserved && !s.unserved(ctx, d.Queue) { // it need not count any more, whatever waits there
			if err := s.Retract(ctx, d); err != nil {
				return nil, err
			}
			continue
		}
		crowded = append(crowded, d)
	}
	return crowded, nil
}

// ErrManySelectors refuses a task with a selector that is not declared yet, while as many selectors
// are declared as may be.
var ErrManySelectors = errors.New("too many kinds of nodes are asked for")

// ErrManyQueues is the same for a task in a queue that no worker has ever served.
var ErrManyQueues = errors.New("too many queues are asked for that no worker has served")

// metaSelectors is the key of the metadata by which MR_STATE tells writers how many selectors may
// be declared, and defaultSelectors the number where no server has set it.
const (
	metaSelectors    = "millrace.max_selectors"
	defaultSelectors = 1000
)

// BoundSelectors sets how many selectors may be declared. Existing ones stay. Like opening a store,
// it waits for a cluster that elects its leaders.
func (s *Store) BoundSelectors(ctx context.Context, most int) error {
	err := request.NewFormer(s.NC, s.patience).Do(ctx, func(ctx context.Context) error {
		stream, err := s.JS.Stream(ctx, names.StateStream)
		if err != nil {
			return err
		}
		cfg := stream.CachedInfo().Config
		if cfg.Metadata[metaSelectors] == strconv.Itoa(most) {
			return nil
		}
		cfg.Metadata = maps.Clone(cfg.Metadata)
		if cfg.Metadata == nil { // made by hand
			cfg.Metadata = map[string]string{}
		}
		cfg.Metadata[metaSelectors] = strconv.Itoa(most)
		_, err = s.JS.UpdateStream(ctx, cfg)
		return err
	})
	if err != nil {
		return fmt.Errorf("bound the selectors: %w", err)
	}
	return nil
}

// Declared lists the declarations of selectors. A replica that lags may answer; the list is empty if no
// server of Millrace has run yet.
func (s *Store) Declared(ctx context.Context) ([]placement.Declaration, error) {
	all, err := s.allDeclared(ctx)
	return slices.DeleteFunc(all, func(d placement.Declaration) bool { return d.Unserved }), err
}

// allDeclared is Declared with those of queues.
func (s *Store) allDeclared(ctx context.Context) ([]placement.Declaration, error) {
	var all []placement.Declaration
	err := s.Each(ctx, names.StateStream, names.SelectorPrefix+"*", func(subject string, m *nats.Msg) error {
		if d, ok := declaration(subject, m); ok {
			all = append(all, d)
		}
		return nil
	})
	switch {
	case errors.Is(err, events.ErrNoStream), errors.Is(err, nats.ErrNoResponders):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read the declarations of selectors: %w", err)
	}
	return all, nil
}

// OnDeclared calls heard with each new declaration, until stop is called, perhaps before a read
// shows it. Messages can be lost: also list all of them now and then.
func (s *Store) OnDeclared(heard func(placement.Declaration)) (stop func(), err error) {
	return s.Listen(names.SelectorPrefix+"*", "watch the declarations of selectors", func(m *nats.Msg) {
		if d, ok := declaration(m.Subject, m); ok && !d.Unserved {
			heard(d)
		}
	})
}

// declaration decodes a declaration; false if the message is not one.
func declaration(subject string, m *nats.Msg) (d placement.Declaration, ok bool) {
	ok = json.Unmarshal(m.Data, &d) == nil && d.Needs.Validate() == nil
	return d, ok && names.SelectorPrefix+d.Mark() == subject
}

// Retract removes a declaration as it was seen, and the consumer of its route. If it was renewed
// since, it stays.
func (s *Store) Retract(ctx context.Context, d placement.Declaration) error {
	route := d.Route()
	s.declared.forget(route)
	subject := names.SelectorPrefix + d.Mark()
	m, found, err := s.LeaderGetFrom(ctx, names.StateStream, map[string]any{"last_by_subj": subject})
	if err == nil && !found {
		return nil
	}
	var is placement.Declaration
	if err == nil && (json.Unmarshal(m.Data, &is) != nil || !is.At.Equal(d.At)) {
		return nil
	}
	if err == nil {
		err = s.dropUpTo(ctx, subject, m.Seq)
	}
	if err == nil && !d.Unserved {
		err = s.deleteLanes(ctx, route)
	}
	if err != nil {
		return fmt.Errorf("remove the route of %s: %w", selectorWords(&d), err)
	}
	return nil
}

func (s *Store) deleteLanes(ctx context.Context, route string) error {
	lanes, err := s.lanesOf(ctx, route)
	for _, l := range lanes {
		if e := s.log.DeleteConsumer(ctx, names.LaneConsumer(l)); !errors.Is(e, jetstream.ErrConsumerNotFound) {
			err = errors.Join(err, e)
		}
		s.lanes.Delete(l)
		if names.Special(l) {
			err = errors.Join(err, s.dropUpTo(ctx, laneSubject(l), math.MaxInt64))
		}
	}
	return err
}

// selectorOf returns the declaration of a selector's route; false if there is none.
func (s *Store) selectorOf(ctx context.Context, route string) (d placement.Declaration, known bool, err error) {
	m, found, err := s.LeaderGetFrom(ctx, names.StateStream, map[string]any{"last_by_subj": names.SelectorPrefix + strings.TrimPrefix(route, "~")})
	if err != nil || !found || json.Unmarshal(m.Data, &d) != nil || d.Route() != route {
		return placement.Declaration{}, false, err
	}
	return d, true, nil
}

// selectorWords describes the nodes that a declaration is for.
func selectorWords(d *placement.Declaration) string {
	if d.Unserved {
		return "queue " + d.Queue
	}
	words := fmt.Sprintf("nodes with %.200s", d.Needs)
	if d.Queue != "" {
		words = fmt.Sprintf("nodes of queue %s with %.200s", d.Queue, d.Needs)
	}
	return words
}
