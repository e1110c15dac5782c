package jet

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/task"
)

// Admitted implements [events.Keeper].
func (s *Store) Admitted(ctx context.Context, of task.Scope) (uint64, error) {
	last, _, err := s.leaderGet(ctx, map[string]any{"last_by_subj": admitPrefix + string(of)})
	if err != nil {
		return 0, fmt.Errorf("last admission of %s: %w", of, err)
	}
	return last.Seq, nil
}

// Claimed implements [events.Keeper].
func (s *Store) Claimed(ctx context.Context, key string) (events.Record, bool, error) {
	last, found, err := s.leaderGet(ctx, map[string]any{"last_by_subj": uniqueSubject(key)})
	if err != nil {
		return events.Record{}, false, fmt.Errorf("last claim of the key %q: %w", key, err)
	}
	return last, found, nil
}

// PlaceClaimed implements [events.Keeper]. The server compares the sequence on the key's
// subject and stores the birth on its own. Two messages of which one writes a subject and
// the other compares it exclude each other, for both name it literally.
func (s *Store) PlaceClaimed(ctx context.Context, f *events.Fact, key string, claim uint64) (uint64, error) {
	err := s.declareOf(ctx, f)
	if err == nil {
		err = s.openLaneOf(ctx, f, time.Time{})
	}
	if err != nil {
		return 0, fmt.Errorf("place %s of %s: %w", f.Type, f.Task, err)
	}
	m, err := placement(f)
	if err != nil {
		return 0, err
	}
	return s.underClaim(ctx, f, m, key, claim)
}

// AppendClaimed implements [events.Keeper].
func (s *Store) AppendClaimed(ctx context.Context, f *events.Fact, key string, claim uint64) (uint64, error) {
	m, err := newMessage(chainSubject(f), f)
	if err != nil {
		return 0, err
	}
	return s.underClaim(ctx, f, m, key, claim)
}

// underClaim publishes and frees a message that is taken only under a claim.
func (s *Store) underClaim(ctx context.Context, f *events.Fact, m *message, key string, claim uint64) (uint64, error) {
	defer m.free()
	m.expect(claim)
	msg := m.detach()
	msg.Header.Set(jetstream.ExpectedLastSubjSeqSubjHeader, uniqueSubject(key))
	seq, err := s.publish(ctx, msg)
	if err != nil {
		return 0, fmt.Errorf("record %s of %s under claim %d: %w", f.Type, f.Task, claim, err)
	}
	return seq, nil
}
