package jet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/task"
)

// Append implements [events.Appender].
func (s *Store) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	m, err := pubsub.NewOutgoing(names.ChainSubject(f), f)
	if err != nil {
		return 0, err
	}
	defer m.Free()
	m.Expect(last)
	seq, err := s.facts.Publish(ctx, &m.Msg)
	if err != nil {
		return 0, fmt.Errorf("append %s of %s at %d: %w", f.Type, f.About(), last, err)
	}
	return seq, nil
}

// AppendAll implements [events.Appender]: the server takes an atomic batch whole or not at all, and
// checks what each of its messages expects.
func (s *Store) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	batch := make([]*nats.Msg, len(facts))
	for i, f := range facts {
		m, err := pubsub.NewOutgoing(names.ChainSubject(f), f)
		if err != nil {
			return 0, err
		}
		m.Expect(last[i])
		batch[i] = m.Detach()
		m.Free()
	}
	end, err := s.facts.Commit(ctx, batch)
	if err != nil {
		return 0, fmt.Errorf("append %d facts, from %s of %s at %d on: %w", len(facts), facts[0].Type, facts[0].About(), last[0], err)
	}
	return end - uint64(len(facts)) + 1, nil
}

// Place implements [events.Placer].
func (s *Store) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	return s.place(ctx, f, false)
}

// begins tells whether a fact is a birth that begins its task's chain.
func begins(f *events.Fact) bool {
	e, birth := f.Event.(task.Submitted)
	return birth && e.OnChain()
}

// place places a fact; with first, only if its subject is empty.
func (s *Store) place(ctx context.Context, f *events.Fact, first bool) (uint64, error) {
	m, err := s.placement(ctx, f)
	if err != nil {
		return 0, err
	}
	defer m.Free()
	if first || begins(f) {
		m.Expect(0)
	}
	seq, err := s.facts.Publish(ctx, &m.Msg)
	if err != nil {
		return 0, fmt.Errorf("place %s of %s: %w", f.Type, f.Task, err)
	}
	return seq, nil
}

// PlaceAll implements [events.Placer]: it sends up to placeWindow facts before it waits for an
// answer.
func (s *Store) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	if len(facts) == 1 { // it leaves together with those of other callers
		seq, err := s.place(ctx, facts[0], first)
		done(0, seq, err)
		return
	}
	slots := make([]*pubsub.Slot, len(facts))
	errs := make([]error, len(facts))
	finish := func(i int) {
		if slots[i] == nil {
			done(i, 0, errs[i])
			return
		}
		seq, err := s.facts.Wait(ctx, slots[i])
		if errors.Is(err, events.ErrNoStream) || request.Says(err, request.CodeWriteInFlight) {
			seq, err = s.place(ctx, facts[i], first) // which waits until a stream answers
		}
		done(i, seq, err)
	}
	for i, f := range facts {
		if i >= placeWindow {
			finish(i - placeWindow)
		}
		slots[i], errs[i] = s.sendPlacement(ctx, f, first)
	}
	for i := max(len(facts)-placeWindow, 0); i < len(facts); i++ {
		finish(i)
	}
}

// placeWindow is how many placements may be in flight.
const placeWindow = 4096

// sendPlacement is place without waiting; the caller then calls [pubsub.Facts.Wait].
func (s *Store) sendPlacement(ctx context.Context, f *events.Fact, first bool) (*pubsub.Slot, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m, err := s.placement(ctx, f)
	if err != nil {
		return nil, err
	}
	defer m.Free()
	if first || begins(f) {
		m.Expect(0)
	}
	return s.facts.Send(m)
}

// PlaceClaimed implements [events.Placer]. The server compares the sequence on the key's subject
// and stores the fact on its own subject. Two messages, one of which writes a subject that the
// other compares, exclude each other, for both name it literally.
func (s *Store) PlaceClaimed(ctx context.Context, f *events.Fact, key string, claim uint64, chain bool) (uint64, error) {
	compose := s.placement
	if chain && !begins(f) {
		compose = func(_ context.Context, f *events.Fact) (*pubsub.Outgoing, error) {
			return pubsub.NewOutgoing(names.ChainSubject(f), f)
		}
	}
	m, err := compose(ctx, f)
	if err != nil {
		return 0, err
	}
	defer m.Free()
	m.Expect(claim)
	msg := m.Detach()
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, names.UniqueSubject(key))
	seq, err := s.facts.Publish(ctx, msg)
	if err != nil {
		return 0, fmt.Errorf("record %s of %s under claim %d: %w", f.Type, f.Task, claim, err)
	}
	return seq, nil
}

// placement makes the message that places a birth or an offer, and first makes sure that everything
// exists that its route needs.
func (s *Store) placement(ctx context.Context, f *events.Fact) (*pubsub.Outgoing, error) {
	subject, err := placeOf(f)
	if err == nil {
		err = s.openRoute(ctx, f, time.Time{})
	}
	if err != nil {
		return nil, fmt.Errorf("place %s of %s: %w", f.Type, f.Task, err)
	}
	return pubsub.NewOutgoing(subject, f)
}

// openRoute makes sure that workers hear of the route of a birth or an offer, if it is not a queue's
// plain one. due is when a timer places the offer there; zero means now.
func (s *Store) openRoute(ctx context.Context, f *events.Fact, due time.Time) error {
	var w *task.Work
	born := false
	switch e := f.Event.(type) {
	case task.Submitted:
		w, born = &e.Work, true
	case task.Queued:
		w = &e.Work
	default:
		return nil
	}
	if w.Route.Selected() || born {
		if err := s.declareFor(ctx, w, f.Actor); err != nil {
			return err
		}
	}
	if l := w.Lane(); names.Special(l) {
		return s.openLane(ctx, l, due)
	}
	return nil
}

// placeOf returns the subject of a birth or an offer.
func placeOf(f *events.Fact) (string, error) {
	switch e := f.Event.(type) {
	case task.Submitted:
		if e.OnChain() {
			return names.ChainSubject(f), nil
		}
		return names.OfferSubject(&e.Work, f.Task), nil
	case task.Queued:
		return names.OfferSubject(&e.Work, f.Task), nil
	case task.Due:
		return names.DueSubject(&e, f.Task), nil
	}
	return "", errors.New("it is no offer")
}
