package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/task"
)

// Times of a declaration.
const (
	declareAgain = 10 * time.Minute // after that a writer looks whether it is still there
	declareTouch = time.Hour        // a declaration older than that is written anew
)

const (
	selectorPrefix = "$KV." + SelectorsBucket + "."
	selectorStream = "KV_" + SelectorsBucket
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
	return s.Declare(ctx, task.Declaration{Queue: queue, Needs: needs})
}

// Declare tells nodes what a route of a selector stands for. To do it again is harmless.
func (s *Store) Declare(ctx context.Context, d task.Declaration) error {
	route := d.Route()
	if s.declared.lately(route) {
		return nil
	}
	key := route[1:]
	kv, err := s.selectorBucket(ctx)
	if err != nil {
		return err
	}
	last, err := s.Last(ctx)
	if err != nil {
		return err
	}
	d.From, d.At = last+1, s.Now().UTC()
	for {
		now, err := kv.Get(ctx, key)
		var body []byte
		switch {
		case errors.Is(err, jetstream.ErrKeyNotFound):
			if body, err = json.Marshal(d); err == nil {
				_, err = kv.Create(ctx, key, body)
			}
		case err == nil:
			var is task.Declaration
			if json.Unmarshal(now.Value(), &is) == nil && is.Route() == route {
				if s.Now().Sub(is.At) < declareTouch {
					s.declared.note(route)
					return nil
				}
				d.From = is.From
			}
			if body, err = json.Marshal(d); err == nil {
				_, err = kv.Update(ctx, key, body, now.Revision())
			}
		}
		switch {
		case err == nil:
			s.declared.note(route)
			return nil
		case fasterThan(err):
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond): // for a replica that lags
				continue
			}
		}
		if answers(err, codeStoreFailed) && strings.Contains(err.Error(), "maximum messages exceeded") {
			return fmt.Errorf("%w: wait until the tasks of some have ended for a while, ask for what others ask for, or raise max_selectors of the `millrace server`", ErrManySelectors)
		}
		return fmt.Errorf("declare what %s stands for: %w", route, err)
	}
}

// ErrManySelectors refuses a task whose labels nobody has asked for yet, while as many kinds of nodes are asked for as may be.
var ErrManySelectors = errors.New("too many kinds of nodes are asked for")

// BoundSelectors sets how many selectors may be declared at once. Those that are there stay. It waits for a
// cluster that elects its leaders as opening a store does.
func (s *Store) BoundSelectors(ctx context.Context, most int) error {
	err := newFormer(s.nc, s.patience).do(ctx, func(ctx context.Context) error {
		bucket, err := s.js.Stream(ctx, selectorStream)
		if err != nil {
			return err
		}
		cfg := bucket.CachedInfo().Config
		if cfg.MaxMsgs == int64(most) {
			return nil
		}
		// The server counts: a key that is there already may be written anew, another one is refused.
		cfg.MaxMsgs, cfg.Discard = int64(most), jetstream.DiscardNew
		_, err = s.js.UpdateStream(ctx, cfg)
		return err
	})
	if err != nil {
		return fmt.Errorf("bound the selectors: %w", err)
	}
	return nil
}

// fasterThan tells whether a write of a key failed because of somebody else's.
func fasterThan(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || answers(err, codeWriteInFlight)
}

// selectorBucket is the bucket of declarations. A server of an earlier version has not made it.
func (s *Store) selectorBucket(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := s.js.KeyValue(ctx, SelectorsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("bucket %s: start `millrace server` of this version once, which makes it: %w", SelectorsBucket, err)
	}
	return kv, err
}

// Declared lists what is declared. A replica that lags may answer; it is empty
// where no server of this version has been yet.
func (s *Store) Declared(ctx context.Context) ([]task.Declaration, error) {
	var all []task.Declaration
	for from := uint64(1); ; {
		found, err := s.batchGet(ctx, selectorStream, maxBatch, map[string]any{"batch": maxBatch, "seq": from, "next_by_subj": selectorPrefix + ">"})
		if err != nil {
			if errors.Is(err, events.ErrNoStream) || errors.Is(err, nats.ErrNoResponders) {
				return nil, nil
			}
			return nil, fmt.Errorf("read the declarations of selectors: %w", err)
		}
		for _, m := range found {
			if d, ok := declaration(added(m, jetstream.SubjectHeader), m); ok {
				all = append(all, d)
			}
		}
		if len(found) < maxBatch {
			return all, nil
		}
		last, err := strconv.ParseUint(added(found[len(found)-1], jetstream.SequenceHeader), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the declarations of selectors: a message without a sequence: %w", err)
		}
		from = last + 1
	}
}

// OnDeclared calls heard with what is declared, until stop is called. That may be before a
// reader finds it. Words can be lost; look at all of them now and then as well.
func (s *Store) OnDeclared(heard func(task.Declaration)) (stop func(), err error) {
	sub, err := s.nc.Subscribe(selectorPrefix+">", func(m *nats.Msg) {
		if d, ok := declaration(m.Subject, m); ok {
			heard(d)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("watch the declarations of selectors: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only if the connection is gone
}

// declaration reads a message of the bucket; false if it says that one was removed, or is none of ours.
func declaration(subject string, m *nats.Msg) (d task.Declaration, ok bool) {
	ok = m.Header.Get("KV-Operation") == "" && json.Unmarshal(m.Data, &d) == nil && d.Needs.Validate() == nil
	return d, ok && selectorPrefix+d.Route()[1:] == subject
}

// Retract removes a declaration as it was seen, and the consumer of its route. If
// somebody has declared it anew since, it stays.
func (s *Store) Retract(ctx context.Context, d task.Declaration) error {
	route := d.Route()
	kv, err := s.selectorBucket(ctx)
	if err != nil {
		return err
	}
	now, err := kv.Get(ctx, route[1:])
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	var is task.Declaration
	if err == nil && (json.Unmarshal(now.Value(), &is) != nil || !is.At.Equal(d.At)) {
		return nil
	}
	if err == nil { // without a mark of that: nobody reads it, and there would be one for each route for ever
		err = s.dropUpTo(ctx, selectorStream, selectorPrefix+route[1:], now.Revision())
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
	lanes, err := s.lanesToServe(ctx, []string{route})
	for _, l := range lanes {
		if e := s.log.DeleteConsumer(ctx, laneConsumer(l)); !errors.Is(e, jetstream.ErrConsumerNotFound) {
			err = errors.Join(err, e)
		}
		s.lanes.Delete(l)
		if special(l) {
			err = errors.Join(err, s.dropUpTo(ctx, StateStream, laneSubject(l), math.MaxInt64))
		}
	}
	return err
}

// selectorOf is what a selector's route stands for. False means that nobody has declared it.
func (s *Store) selectorOf(ctx context.Context, route string) (d task.Declaration, known bool, err error) {
	m, found, err := s.leaderGetFrom(ctx, selectorStream, map[string]any{"last_by_subj": selectorPrefix + strings.TrimPrefix(route, "~")})
	if err != nil || !found || json.Unmarshal(m.Data, &d) != nil || d.Route() != route {
		return task.Declaration{}, false, err
	}
	return d, true, nil
}

// selectorWords say which nodes a declaration is for.
func selectorWords(d *task.Declaration) string {
	words := fmt.Sprintf("nodes with %.200s", d.Needs)
	if d.Queue != "" {
		words = fmt.Sprintf("nodes of queue %s with %.200s", d.Queue, d.Needs)
	}
	return words
}
