package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/where"
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

// declareFor declares the route of an offer, which is a selector's.
func (s *Store) declareFor(ctx context.Context, w *task.Work) error {
	if s.declared.lately(w.Route.Queue(), s.NC.Stats().Reconnects) {
		return nil
	}
	queue, needs := w.Asks()
	return s.Declare(ctx, where.Declaration{Queue: queue, Needs: needs})
}

// Declare tells nodes which selector a route stands for. It is idempotent.
func (s *Store) Declare(ctx context.Context, d where.Declaration) error {
	route := d.Route()
	if s.declared.lately(route, s.NC.Stats().Reconnects) {
		return nil
	}
	last, err := s.Last(ctx)
	if err != nil {
		return err
	}
	d.From, d.At = last+1, s.Now().UTC()
	chain := s.Value(wire.StateStream, wire.SelectorPrefix+route[1:])
	read := chain.Read
	chain.Read = func(ctx context.Context, wrote *nats.Msg) (there *link.Message, end uint64, mine bool, err error) {
		if there, end, mine, err = read(ctx, wrote); err == nil && there == nil {
			end, err = s.roomForSelector(ctx)
		}
		return there, end, mine, err
	}
	_, err = chain.Decide(ctx, func(there *link.Message) (*nats.Msg, bool, error) {
		m := &nats.Msg{Subject: wire.SelectorPrefix + route[1:], Header: nats.Header{}}
		var is where.Declaration
		switch {
		case there == nil:
			m.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, wire.SelectorPrefix+"*")
		case json.Unmarshal(there.Data, &is) != nil || is.Route() != route: // a foreign message
		case s.Now().Sub(is.At) < declareTouch:
			return nil, false, nil
		default:
			d.From = is.From
		}
		m.Data, err = json.Marshal(d)
		return m, true, err
	})
	if err != nil {
		return fmt.Errorf("declare %s: %w", selectorWords(&d), err)
	}
	s.declared.note(route)
	return nil
}

// roomForSelector allows one more declaration if there are not too many, as long as no other
// process declares any meanwhile. For this, all declarations form one chain; it returns the chain's
// end, so any number of writers stay within the bound.
func (s *Store) roomForSelector(ctx context.Context) (end uint64, err error) {
	last, _, err := s.LeaderGetFrom(ctx, wire.StateStream, map[string]any{"last_by_subj": wire.SelectorPrefix + "*"})
	if err != nil {
		return 0, err
	}
	stream, err := s.JS.Stream(ctx, wire.StateStream)
	if err != nil {
		return 0, err
	}
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(wire.SelectorPrefix+"*"))
	if err != nil {
		return 0, err
	}
	most, err := strconv.Atoi(info.Config.Metadata[metaSelectors])
	if err != nil {
		most = defaultSelectors
	}
	if len(info.State.Subjects) >= most {
		return 0, fmt.Errorf("%w: wait until the tasks of some have ended for a while, ask for what others ask for, or raise max_selectors of the `millrace server`", ErrManySelectors)
	}
	return last.Seq, nil
}

// ErrManySelectors refuses a task with a selector that is not declared yet, while as many selectors
// are declared as may be.
var ErrManySelectors = errors.New("too many kinds of nodes are asked for")

// metaSelectors is the key of the metadata by which MR_STATE tells writers how many selectors may
// be declared, and defaultSelectors the number where no server has set it.
const (
	metaSelectors    = "millrace.max_selectors"
	defaultSelectors = 1000
)

// BoundSelectors sets how many selectors may be declared. Existing ones stay. Like opening a store,
// it waits for a cluster that elects its leaders.
func (s *Store) BoundSelectors(ctx context.Context, most int) error {
	err := link.NewFormer(s.NC, s.patience).Do(ctx, func(ctx context.Context) error {
		stream, err := s.JS.Stream(ctx, wire.StateStream)
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

// Declared lists the declarations. A replica that lags may answer; the list is empty if no server
// of Millrace has run yet.
func (s *Store) Declared(ctx context.Context) ([]where.Declaration, error) {
	var all []where.Declaration
	err := s.Each(ctx, wire.StateStream, wire.SelectorPrefix+"*", func(subject string, m *nats.Msg) error {
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
func (s *Store) OnDeclared(heard func(where.Declaration)) (stop func(), err error) {
	return s.Listen(wire.SelectorPrefix+"*", "watch the declarations of selectors", func(m *nats.Msg) {
		if d, ok := declaration(m.Subject, m); ok {
			heard(d)
		}
	})
}

// declaration decodes a declaration; false if the message is not one.
func declaration(subject string, m *nats.Msg) (d where.Declaration, ok bool) {
	ok = json.Unmarshal(m.Data, &d) == nil && d.Needs.Validate() == nil
	return d, ok && wire.SelectorPrefix+d.Route()[1:] == subject
}

// Retract removes a declaration as it was seen, and the consumer of its route. If it was renewed
// since, it stays.
func (s *Store) Retract(ctx context.Context, d where.Declaration) error {
	route := d.Route()
	subject := wire.SelectorPrefix + route[1:]
	m, found, err := s.LeaderGetFrom(ctx, wire.StateStream, map[string]any{"last_by_subj": subject})
	if err == nil && !found {
		return nil
	}
	var is where.Declaration
	if err == nil && (json.Unmarshal(m.Data, &is) != nil || !is.At.Equal(d.At)) {
		return nil
	}
	if err == nil {
		err = s.dropUpTo(ctx, subject, m.Seq)
	}
	if err == nil {
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
		if e := s.log.DeleteConsumer(ctx, wire.LaneConsumer(l)); !errors.Is(e, jetstream.ErrConsumerNotFound) {
			err = errors.Join(err, e)
		}
		s.lanes.Delete(l)
		if wire.Special(l) {
			err = errors.Join(err, s.dropUpTo(ctx, laneSubject(l), math.MaxInt64))
		}
	}
	return err
}

// selectorOf returns the declaration of a selector's route; false if there is none.
func (s *Store) selectorOf(ctx context.Context, route string) (d where.Declaration, known bool, err error) {
	m, found, err := s.LeaderGetFrom(ctx, wire.StateStream, map[string]any{"last_by_subj": wire.SelectorPrefix + strings.TrimPrefix(route, "~")})
	if err != nil || !found || json.Unmarshal(m.Data, &d) != nil || d.Route() != route {
		return where.Declaration{}, false, err
	}
	return d, true, nil
}

// selectorWords describes the nodes that a declaration is for.
func selectorWords(d *where.Declaration) string {
	words := fmt.Sprintf("nodes with %.200s", d.Needs)
	if d.Queue != "" {
		words = fmt.Sprintf("nodes of queue %s with %.200s", d.Queue, d.Needs)
	}
	return words
}
