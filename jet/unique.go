package jet

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/jet/publish"
	"millrace/jet/wire"
)

// PlaceClaimed implements [events.Placer]. The server compares the sequence on the key's subject
// and stores the fact on its own subject. Two messages, one of which writes a subject that the
// other compares, exclude each other, for both name it literally.
func (s *Store) PlaceClaimed(ctx context.Context, f *events.Fact, key string, claim uint64, chain bool) (uint64, error) {
	compose := s.placement
	if chain {
		compose = func(_ context.Context, f *events.Fact) (*publish.Message, error) {
			return publish.NewMessage(wire.ChainSubject(f), f)
		}
	}
	m, err := compose(ctx, f)
	if err != nil {
		return 0, err
	}
	defer m.Free()
	m.Expect(claim)
	msg := m.Detach()
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, wire.UniqueSubject(key))
	seq, err := s.facts.Publish(ctx, msg)
	if err != nil {
		return 0, fmt.Errorf("record %s of %s under claim %d: %w", f.Type, f.Task, claim, err)
	}
	return seq, nil
}
