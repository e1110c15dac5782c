package publish

import (
	"context"

	"github.com/nats-io/nats.go"

	"millrace/jet/link"
)

// Facts sends facts to the log: singly, or in groups if the server flushes every write.
type Facts struct {
	link  *link.Link
	pub   *Publisher
	group *group // nil unless writers share flushes
}

// NewFacts sends facts through a publisher, which stays the caller's. syncs says that the log's
// server flushes every write.
func NewFacts(l *link.Link, pub *Publisher, syncs bool) *Facts {
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

// Commit publishes messages in one atomic batch, as Publish does one, and returns the sequence of
// the last one. The others lie directly before it.
func (f *Facts) Commit(ctx context.Context, batch []*nats.Msg) (uint64, error) {
	return f.link.Patient(ctx, func() (uint64, error) { return f.pub.commit(ctx, batch) })
}

// Send sends a message without waiting; the caller then calls Wait.
func (f *Facts) Send(m *Message) (*Slot, error) {
	if f.group != nil {
		return f.group.send(m.Detach())
	}
	return f.pub.send(&m.Msg)
}

// Wait waits for the acknowledgement of a sent message, and releases the slot.
func (f *Facts) Wait(ctx context.Context, s *Slot) (uint64, error) { return f.pub.wait(ctx, s) }
