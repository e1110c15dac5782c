package jet

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/task"
)

// Append implements [events.Appender].
func (s *Store) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	m, err := newMessage(wire.ChainSubject(f), f)
	if err != nil {
		return 0, err
	}
	defer m.free()
	m.expect(last)
	seq, err := s.publish(ctx, &m.Msg)
	if err != nil {
		return 0, fmt.Errorf("append %s of %s at %d: %w", f.Type, f.About(), last, err)
	}
	return seq, nil
}

// AppendAll implements [events.Appender]: the server takes an atomic batch whole or not at all, and compares what each
// of its messages expects.
func (s *Store) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	batch := make([]*nats.Msg, len(facts))
	for i, f := range facts {
		m, err := newMessage(wire.ChainSubject(f), f)
		if err != nil {
			return 0, err
		}
		m.expect(last[i])
		batch[i] = m.detach()
		m.free()
	}
	end, err := s.Patient(ctx, func() (uint64, error) { return s.pub.commit(ctx, batch) })
	if err != nil {
		return 0, fmt.Errorf("append %d facts, from %s of %s at %d on: %w", len(facts), facts[0].Type, facts[0].About(), last[0], err)
	}
	return end - uint64(len(facts)) + 1, nil
}

// Place implements [events.Placer].
func (s *Store) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	return s.place(ctx, f, false)
}

// place places a fact, with first only if its subject has none.
func (s *Store) place(ctx context.Context, f *events.Fact, first bool) (uint64, error) {
	m, err := s.placement(ctx, f)
	if err != nil {
		return 0, err
	}
	defer m.free()
	if first {
		m.expect(0)
	}
	seq, err := s.publish(ctx, &m.Msg)
	if err != nil {
		return 0, fmt.Errorf("place %s of %s: %w", f.Type, f.Task, err)
	}
	return seq, nil
}

// PlaceAll implements [events.Placer]: it does not wait for one answer before
// it sends the next, as long as no more than placeWindow are on their way.
func (s *Store) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	slots := make([]*slot, len(facts))
	errs := make([]error, len(facts))
	finish := func(i int) {
		if slots[i] == nil {
			done(i, 0, errs[i])
			return
		}
		seq, err := s.pub.wait(ctx, slots[i])
		if errors.Is(err, events.ErrNoStream) || link.Says(err, link.CodeWriteInFlight) {
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

// placeWindow is how many placements are on their way at once.
const placeWindow = 4096

// sendPlacement is place without waiting; publisher.wait must follow.
func (s *Store) sendPlacement(ctx context.Context, f *events.Fact, first bool) (*slot, error) {
	m, err := s.placement(ctx, f)
	if err != nil {
		return nil, err
	}
	defer m.free()
	if first {
		m.expect(0)
	}
	if s.group != nil {
		return s.group.send(m.detach())
	}
	return s.pub.send(&m.Msg)
}

// placement makes the message that places a birth or an offer, and what must be there before it lies on its route.
func (s *Store) placement(ctx context.Context, f *events.Fact) (*message, error) {
	if err := s.declareOf(ctx, f); err != nil {
		return nil, fmt.Errorf("place %s of %s: %w", f.Type, f.Task, err)
	}
	if err := s.openLaneOf(ctx, f, time.Time{}); err != nil {
		return nil, err
	}
	subject, err := placeOf(f)
	if err != nil {
		return nil, err
	}
	return newMessage(subject, f)
}

// declareOf declares the route of a birth or offer before anything lies there.
func (s *Store) declareOf(ctx context.Context, f *events.Fact) error {
	switch e := f.Event.(type) {
	case task.Submitted:
		return s.declareFor(ctx, &e.Work)
	case task.Queued:
		return s.declareFor(ctx, &e.Work)
	}
	return nil
}

// placeOf is the subject on which a birth or an offer lies.
func placeOf(f *events.Fact) (string, error) {
	switch e := f.Event.(type) {
	case task.Submitted:
		if e.OnChain() {
			return "", fmt.Errorf("place %s of %s: %w", f.Type, f.Task, events.ErrOnChain)
		}
		if !e.Offers() {
			return wire.HoldPrefix + string(f.Task), nil
		}
		return wire.OfferSubject(&e.Work, f.Task), nil
	case task.Queued:
		return wire.OfferSubject(&e.Work, f.Task), nil
	}
	return "", fmt.Errorf("place: %s is no offer", f.Type)
}

// publish sends one message to the log, and again where the server says that nothing was
// stored and the reason will pass.
func (s *Store) publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	return s.Patient(ctx, func() (uint64, error) { return s.publishOnce(ctx, m) })
}

func (s *Store) publishOnce(ctx context.Context, m *nats.Msg) (uint64, error) {
	if s.group != nil {
		slot, err := s.group.send(&nats.Msg{Subject: m.Subject, Header: cloneHeader(m.Header), Data: append([]byte(nil), m.Data...)})
		if err != nil {
			return 0, err
		}
		return s.pub.wait(ctx, slot)
	}
	return s.pub.Publish(ctx, m)
}

func cloneHeader(h nats.Header) nats.Header {
	c := make(nats.Header, len(h))
	for k, v := range h {
		c[k] = append([]string(nil), v...)
	}
	return c
}

// message is a fact on its way out. Publishing copies it, so it is used again.
type message struct {
	nats.Msg
	typ, last []string
	// Msg has one of these headers: filling a map for each message costs more than all else of it.
	plain, expecting nats.Header
}

var messages = sync.Pool{New: func() any {
	m := &message{typ: []string{""}, last: []string{""}}
	m.plain = nats.Header{events.TypeHeader: m.typ}
	m.expecting = nats.Header{events.TypeHeader: m.typ, link.ExpectedHeader: m.last}
	m.Header = m.plain
	return m
}}

func newMessage(subject string, f *events.Fact) (*message, error) {
	m := messages.Get().(*message)
	body, err := events.Encode(m.Data[:0], f)
	if err != nil {
		m.free()
		return nil, err
	}
	m.Subject, m.Data = subject, body
	m.typ[0] = string(f.Type)
	return m, nil
}

// expect makes the server refuse the message unless last is the sequence of
// the subject's last message.
func (m *message) expect(last uint64) {
	m.last[0] = strconv.FormatUint(last, 10)
	m.Header = m.expecting
}

// detach returns a copy that outlives free.
func (m *message) detach() *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: cloneHeader(m.Header), Data: append([]byte(nil), m.Data...)}
}

func (m *message) free() {
	m.Header, m.Subject, m.Reply = m.plain, "", ""
	messages.Put(m)
}
