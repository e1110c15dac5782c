package jet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/task"
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
func (s *Store) PrintedFrom(ctx context.Context, id task.ID, from OutputStart, follow bool, each func(uint64, task.Lines) error) error {
	return readFrom(ctx, s, OutputStream, outputPrefix+string(id), from, follow, func(seq uint64, b task.Lines) error {
		b.OneByOne()
		return each(seq, b)
	})
}

// PrintedBack reads the lines of a task backwards: it calls more with every batch and its sequence, the
// latest first, until more returns false or there are none before.
func (s *Store) PrintedBack(ctx context.Context, id task.ID, more func(uint64, task.Lines) bool) error {
	p, found, err := s.lastPiece(ctx, id)
	for err == nil && found {
		p.OneByOne()
		if !more(p.seq, p.Lines) {
			return nil
		}
		p, found, err = s.piece(ctx, id, map[string]any{"multi_last": []string{outputPrefix + string(id)}, "up_to_seq": p.seq - 1})
	}
	return err
}

// piece is a batch of lines and where it lies.
type piece struct {
	task.Lines
	seq uint64
}

// lastPiece is the last batch that a task has printed, as the leader has it.
func (s *Store) lastPiece(ctx context.Context, id task.ID) (p piece, found bool, err error) {
	subject := outputPrefix + string(id)
	m, found, err := s.leaderGetFrom(ctx, OutputStream, map[string]any{"last_by_subj": subject})
	if err != nil || !found {
		return p, false, wrapRead(subject, err)
	}
	_ = json.Unmarshal(m.Data, &p.Lines) // what is none of ours has no lines
	p.seq = m.Seq
	return p, true, nil
}

// piece asks any replica for one batch of a task.
func (s *Store) piece(ctx context.Context, id task.ID, request map[string]any) (p piece, found bool, err error) {
	subject := outputPrefix + string(id)
	if request["up_to_seq"] == uint64(0) { // which would be no bound
		return p, false, nil
	}
	all, err := s.batchGet(ctx, OutputStream, 1, request)
	if err != nil || len(all) == 0 {
		return p, false, wrapRead(subject, err)
	}
	p.seq, err = sequenceOf(all[0])
	_ = json.Unmarshal(all[0].Data, &p.Lines) // as above
	return p, err == nil, wrapRead(subject, err)
}

func wrapRead(subject string, err error) error {
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	return nil
}

// sequenceOf is where a message lies that was got directly.
func sequenceOf(m *nats.Msg) (uint64, error) {
	seq, err := strconv.ParseUint(added(m, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a message without a sequence: %w", err)
	}
	return seq, nil
}
