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
	declareAgain = 10 * time.Minute // after that a writer looks whether it is still there
	declareTouch = time.Hour        // a declaration older than that is written anew
)

// declared remembers which routes of selectors this process has declared lately, so
// that an offer costs no look.
type declared struct {
	mu sync.Mutex
	at map[string]time.Time // guarded by mu; by queue part
}

func (d *declared) lately(route string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
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

// declareFor declares the route of an offer if it is that of a selector.
func (s *Store) declareFor(ctx context.Context, w *task.Work) error {
	if !w.Route.Selected() || s.declared.lately(w.Route.Queue()) {
		return nil
	}
	queue, needs := w.Asks()
	return s.Declare(ctx, where.Declaration{Queue: queue, Needs: needs})
}

// Declare tells nodes what a route of a selector stands for. To do it again is harmless.
func (s *Store) Declare(ctx context.Context, d where.Declaration) error {
	route := d.Route()
	if s.declared.lately(route) {
		return nil
	}
	last, err := s.Last(ctx)
	if err != nil {
		return err
	}
	d.From, d.At = last+1, s.Now().UTC()
	chain := s.Said(wire.StateStream, wire.SelectorPrefix+route[1:])
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
		case json.Unmarshal(there.Data, &is) != nil || is.Route() != route: // somebody else's
		case s.Now().Sub(is.At) < declareTouch:
			return nil, false, nil
		default:
			d.From = is.From
		}
		m.Data, err = json.Marshal(d)
		return m, true, err
	})
	if err != nil {
		return fmt.Errorf("declare what %s stands for: %w", route, err)
	}
	s.declared.note(route)
	return nil
}

// roomForSelector lets one more be declared if that is not too many, provided that nobody declares anything meanwhile: all
// that are declared are one chain for this, of which it returns the end, so any number of writers stay within the bound.
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

// ErrManySelectors refuses a task whose labels nobody has asked for yet, while as many kinds of nodes are asked for as may be.
var ErrManySelectors = errors.New("too many kinds of nodes are asked for")

// metaSelectors is the key of the metadata by which MR_STATE tells writers how many selectors may be declared at once, and
// defaultSelectors how many that is where no server has said it.
const (
	metaSelectors    = "millrace.max_selectors"
	defaultSelectors = 1000
)

// BoundSelectors sets how many selectors may be declared at once. Those that are there stay. It waits for a
// cluster that elects its leaders as opening a store does.
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

// Declared lists what is declared. A replica that lags may answer; it is empty
// where no server has been yet.
func (s *Store) Declared(ctx context.Context) ([]where.Declaration, error) {
	var all []where.Declaration
	for from := uint64(1); ; {
		found, err := s.BatchGet(ctx, wire.StateStream, link.MaxBatch, map[string]any{"batch": link.MaxBatch, "seq": from, "next_by_subj": wire.SelectorPrefix + "*"})
		if err != nil {
			if errors.Is(err, events.ErrNoStream) || errors.Is(err, nats.ErrNoResponders) {
				return nil, nil
			}
			return nil, fmt.Errorf("read the declarations of selectors: %w", err)
		}
		for _, m := range found {
			if d, ok := declaration(link.Added(m, jetstream.SubjectHeader), m); ok {
				all = append(all, d)
			}
		}
		if len(found) < link.MaxBatch {
			return all, nil
		}
		last, err := strconv.ParseUint(link.Added(found[len(found)-1], jetstream.SequenceHeader), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the declarations of selectors: a message without a sequence: %w", err)
		}
		from = last + 1
	}
}

// OnDeclared calls heard with what is declared, until stop is called. That may be before a
// reader finds it. Words can be lost; look at all of them now and then as well.
func (s *Store) OnDeclared(heard func(where.Declaration)) (stop func(), err error) {
	sub, err := s.NC.Subscribe(wire.SelectorPrefix+"*", func(m *nats.Msg) {
		if d, ok := declaration(m.Subject, m); ok {
			heard(d)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch the declarations of selectors: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is gone
}

// declaration reads a declaration; false if it is none of ours.
func declaration(subject string, m *nats.Msg) (d where.Declaration, ok bool) {
	ok = json.Unmarshal(m.Data, &d) == nil && d.Needs.Validate() == nil
	return d, ok && wire.SelectorPrefix+d.Route()[1:] == subject
}

// Retract removes a declaration as it was seen, and the consumer of its route. If
// somebody has declared it anew since, it stays.
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
		err = s.dropUpTo(ctx, wire.StateStream, subject, m.Seq)
	}
	if err == nil {
		err = s.deleteLanes(ctx, route)
	}
	if err != nil {
		return fmt.Errorf("remove the route %s: %w", route, err)
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
			err = errors.Join(err, s.dropUpTo(ctx, wire.StateStream, laneSubject(l), math.MaxInt64))
		}
	}
	return err
}

// selectorOf is what a selector's route stands for. False means that nobody has declared it.
func (s *Store) selectorOf(ctx context.Context, route string) (d where.Declaration, known bool, err error) {
	m, found, err := s.LeaderGetFrom(ctx, wire.StateStream, map[string]any{"last_by_subj": wire.SelectorPrefix + strings.TrimPrefix(route, "~")})
	if err != nil || !found || json.Unmarshal(m.Data, &d) != nil || d.Route() != route {
		return where.Declaration{}, false, err
	}
	return d, true, nil
}

// selectorWords say which nodes a declaration is for.
func selectorWords(d *where.Declaration) string {
	words := fmt.Sprintf("nodes with %.200s", d.Needs)
	if d.Queue != "" {
		words = fmt.Sprintf("nodes of queue %s with %.200s", d.Queue, d.Needs)
	}
	return words
}
