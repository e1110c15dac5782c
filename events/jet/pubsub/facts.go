package pubsub

import (
	"context"
	"strconv"
	"sync"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/request"
)

// Outgoing is a fact to be sent. Publishing copies it, so it is reused.
type Outgoing struct {
	nats.Msg
	typ, last []string
	// Msg has one of these headers: filling a map for each message costs more than everything else
	// about it.
	plain, expecting nats.Header
}

var messages = sync.Pool{New: func() any {
	m := &Outgoing{typ: []string{""}, last: []string{""}}
	m.plain = nats.Header{events.TypeHeader: m.typ}
	m.expecting = nats.Header{events.TypeHeader: m.typ, request.ExpectedHeader: m.last}
	m.Header = m.plain
	return m
}}

// NewOutgoing returns the message that stores a fact on a subject. The caller then calls Free.
func NewOutgoing(subject string, f *events.Fact) (*Outgoing, error) {
	m := Blank(subject, f.Type)
	body, err := events.Encode(m.Data[:0], f)
	if err != nil {
		m.Free()
		return nil, err
	}
	m.Data = body
	return m, nil
}

// Blank returns a message without a body. The caller then calls Free.
func Blank(subject string, t events.Type) *Outgoing {
	m := messages.Get().(*Outgoing)
	m.Subject = subject
	m.typ[0] = string(t)
	return m
}

// Expect makes the server refuse the message unless last is the sequence of
// the subject's last message.
func (m *Outgoing) Expect(last uint64) {
	m.last[0] = strconv.FormatUint(last, 10)
	m.Header = m.expecting
}

// Detach returns a copy that stays valid after Free.
func (m *Outgoing) Detach() *nats.Msg { return detached(&m.Msg) }

// Free releases the message's memory for reuse.
func (m *Outgoing) Free() {
	m.Header, m.Subject, m.Reply = m.plain, "", ""
	messages.Put(m)
}

func detached(m *nats.Msg) *nats.Msg {
	return &nats.Msg{Subject: m.Subject, Header: cloneHeader(m.Header), Data: append([]byte(nil), m.Data...)}
}

func cloneHeader(h nats.Header) nats.Header {
	c := make(nats.Header, len(h))
	for k, v := range h {
		c[k] = append([]string(nil), v...)
	}
	return c
}

// Facts sends facts to the log: singly, or in groups if the server flushes every write.
type Facts struct {
	link  *request.Link
	pub   *Publisher
	group *group // nil unless writers share flushes
}

// NewFacts sends facts through a publisher, which stays the caller's. syncs says that the log's
// server flushes every write.
func NewFacts(l *request.Link, pub *Publisher, syncs bool) *Facts {
	f := &Facts{link: l, pub: pub}
	if syncs {
		f.group = newGroup(pub)
	}
	return f
}

// Close ends what [NewFacts] started. The caller then closes the publisher, which answers the
// callers whose messages were not written.
func (f *Facts) Close() {
	if f.group != nil {
		f.group.close()
	}
}

// Publish sends one message to the log, and repeats it if the server says that nothing was stored
// for a reason that will pass. If no answer comes, the error wraps [events.ErrUnknown].
func (f *Facts) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	return f.link.Patient(ctx, func() (uint64, error) {
		if f.group == nil {
			return f.pub.Publish(ctx, m)
		}
		slot, err := f.group.send(detached(m))
		if err != nil {
			return 0, err
		}
		return f.pub.wait(ctx, slot)
	})
}

// Commit publishes messages in one atomic batch, as Publish does one, and returns the sequence of
// the last one. The others lie directly before it.
func (f *Facts) Commit(ctx context.Context, batch []*nats.Msg) (uint64, error) {
	return f.link.Patient(ctx, func() (uint64, error) { return f.pub.commit(ctx, batch) })
}

// Send sends a message without waiting; the caller then calls Wait.
func (f *Facts) Send(m *Outgoing) (*Slot, error) {
	if f.group != nil {
		return f.group.send(m.Detach())
	}
	return f.pub.send(&m.Msg)
}

// Wait waits for the acknowledgement of a sent message, and releases the slot.
func (f *Facts) Wait(ctx context.Context, s *Slot) (uint64, error) { return f.pub.wait(ctx, s) }
