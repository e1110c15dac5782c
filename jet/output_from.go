package jet

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/jet/link"
	"millrace/jet/wire"
	"millrace/task"
	"millrace/task/output"
)

// OutputStart is where the reading of output begins: at the message of [OutputStream] with a
// sequence, or, if that is 0, at those stored since a time. The zero value is their beginning.
type OutputStart struct {
	Seq  uint64
	Time time.Time
}

func (o OutputStart) set(cfg *jetstream.OrderedConsumerConfig) {
	switch {
	case o.Seq > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, o.Seq
	case !o.Time.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Time
	default:
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	}
}

// PrintedFrom is [Store.Printed] of what lies from a start on, and tells each the sequence of every batch.
func (s *Store) PrintedFrom(ctx context.Context, id task.ID, from OutputStart, follow bool, each func(uint64, output.Lines) error) error {
	return s.PrintedOf(ctx, []task.ID{id}, from, follow, each)
}

// PrintedBack reads the lines of a task backwards: it calls more with every batch and its sequence, the
// latest first, until more returns false or there are none before.
func (s *Store) PrintedBack(ctx context.Context, id task.ID, more func(uint64, output.Lines) bool) error {
	subject := wire.OutputPrefix + string(id)
	seq, data, err := s.lastOf(ctx, wire.OutputStream, subject)
	for err == nil && seq > 0 {
		var b output.Lines
		_ = json.Unmarshal(data, &b) // what is none of ours has no lines
		b.OneByOne()
		if !more(seq, b) {
			return nil
		}
		seq, data, err = s.beforeOf(ctx, wire.OutputStream, subject, seq)
	}
	return err
}

// lastOf is the last message of a subject, as the stream's leader has it; its sequence is 0 if there is none.
func (s *Store) lastOf(ctx context.Context, stream, subject string) (seq uint64, data []byte, err error) {
	m, _, err := s.LeaderGetFrom(ctx, stream, map[string]any{"last_by_subj": subject})
	return m.Seq, m.Data, link.ReadError(subject, err)
}

// beforeOf is the last message of a subject before a sequence, as any replica has it.
func (s *Store) beforeOf(ctx context.Context, stream, subject string, seq uint64) (uint64, []byte, error) {
	if seq <= 1 {
		return 0, nil, nil // 0 would be no bound
	}
	return s.oneOf(ctx, stream, subject, map[string]any{"multi_last": []string{subject}, "up_to_seq": seq - 1})
}

// fromOf is the first message of a subject from a sequence on, as any replica has it.
func (s *Store) fromOf(ctx context.Context, stream, subject string, seq uint64) (uint64, []byte, error) {
	return s.oneOf(ctx, stream, subject, map[string]any{"batch": 1, "seq": seq, "next_by_subj": subject})
}

func (s *Store) oneOf(ctx context.Context, stream, subject string, request map[string]any) (uint64, []byte, error) {
	found, err := s.BatchGet(ctx, stream, 1, request)
	if err != nil || len(found) == 0 {
		return 0, nil, link.ReadError(subject, err)
	}
	seq, err := link.SequenceOf(found[0])
	return seq, found[0].Data, link.ReadError(subject, err)
}
