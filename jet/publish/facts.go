package publish

import (
	"context"

	"github.com/nats-io/nats.go"

	"millrace/jet/link"
)

// Facts sends facts to the log: each by itself, or in groups where the server flushes every write.
type Facts struct {
	link  *link.Link
	pub   *Publisher
	group *group // nil unless writers share flushes
}

// NewFacts sends facts by a publisher, which stays the caller's. The log is that of a server which flushes every write if syncs is set.
func NewFacts(l *link.Link, pub *Publisher, syncs bool) *Facts {
	f := &Facts{link: l, pub: pub}
	if syncs {
		f.group = newGroup(pub)
	}
	return f
}

// Close ends what [NewFacts] started. The publisher's Close must follow; it answers those whose messages were not written any more.
func (f *Facts) Close() {
	if f.group != nil {
		f.group.close()
	}
}

// Publish sends one message to the log, and again where the server says that nothing was
// stored and the reason will pass. If no answer comes, the error wraps [events.ErrUnknown].
func (f *Facts) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	return f.link.Patient(ctx, func() (uint64, error) { return f.once(ctx, m) })
}

func (f *Facts) once(ctx context.Context, m *nats.Msg) (uint64, error) {
	if f.group != nil {
		slot, err := f.group.send(&nats.Msg{Subject: m.Subject, Header: cloneHeader(m.Header), Data: append([]byte(nil), m.Data...)})
		if err != nil {
			return 0, err
		}
		return f.pub.wait(ctx, slot)
	}
	return f.pub.Publish(ctx, m)
}

// Commit publishes messages in one atomic batch as Publish does one, and returns the sequence of the last one. The
// others lie directly before it.
func (f *Facts) Commit(ctx context.Context, batch []*nats.Msg) (uint64, error) {
	return f.link.Patient(ctx, func() (uint64, error) { return f.pub.commit(ctx, batch) })
}

// Send sends a message and does not wait; Wait must follow.
func (f *Facts) Send(m *Message) (*Slot, error) {
	if f.group != nil {
		return f.group.send(m.Detach())
	}
	return f.pub.send(&m.Msg)
}

// Wait waits for the acknowledgement of what was sent, and gives the slot up.
func (f *Facts) Wait(ctx context.Context, s *Slot) (uint64, error) { return f.pub.wait(ctx, s) }
