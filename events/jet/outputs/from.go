package outputs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/output"
)

// Start is where reading output begins: at the message of [names.OutputStream] with this sequence
// or, if that is 0, at the first one stored since a time. The zero value is the beginning.
type Start struct {
	Seq  uint64
	Time time.Time
}

func (o Start) set(cfg *jetstream.OrderedConsumerConfig) {
	switch {
	case o.Seq > 0:
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, o.Seq
	case !o.Time.IsZero():
		cfg.DeliverPolicy, cfg.OptStartTime = jetstream.DeliverByStartTimePolicy, &o.Time
	default:
		cfg.DeliverPolicy = jetstream.DeliverAllPolicy
	}
}

// PrintedFrom is [Outputs.Printed] from a start on, and also passes the sequence of every batch to
// each.
func (o *Outputs) PrintedFrom(ctx context.Context, id task.ID, from Start, follow bool, each func(uint64, output.Lines) error) error {
	return o.PrintedOf(ctx, []task.ID{id}, from, follow, each)
}

// PrintedBack reads the lines of a task backwards: it calls more with every batch and its sequence,
// the latest first, until more returns false or there are no earlier ones.
func (o *Outputs) PrintedBack(ctx context.Context, id task.ID, more func(uint64, output.Lines) bool) error {
	return o.backwards(ctx, names.OutputStream, names.OutputPrefix+string(id), func(seq uint64, data []byte) bool {
		var b output.Lines
		_ = json.Unmarshal(data, &b) // a foreign message has no lines
		b.OneByOne()
		return more(seq, b)
	})
}

// backwards calls more with the messages of a subject, the latest first, until more returns false or
// there are no earlier ones.
func (o *Outputs) backwards(ctx context.Context, stream, subject string, more func(seq uint64, data []byte) bool) error {
	seq, data, err := o.lastOf(ctx, stream, subject)
	for err == nil && seq > 0 && more(seq, data) {
		seq, data, err = o.beforeOf(ctx, stream, subject, seq)
	}
	return err
}

// lastOf returns the last message of a subject from the stream's leader; its sequence is 0 if there
// is none.
func (o *Outputs) lastOf(ctx context.Context, stream, subject string) (seq uint64, data []byte, err error) {
	m, _, err := o.LeaderGetFrom(ctx, stream, map[string]any{"last_by_subj": subject})
	return m.Seq, m.Data, request.ReadError(subject, err)
}

// beforeOf returns the last message of a subject before a sequence, from any replica.
func (o *Outputs) beforeOf(ctx context.Context, stream, subject string, seq uint64) (uint64, []byte, error) {
	if seq <= 1 {
		return 0, nil, nil // 0 would mean no bound
	}
	return o.oneOf(ctx, stream, subject, map[string]any{"multi_last": []string{subject}, "up_to_seq": seq - 1})
}

// fromOf returns the first message of a subject from a sequence on, from any replica.
func (o *Outputs) fromOf(ctx context.Context, stream, subject string, seq uint64) (uint64, []byte, error) {
	return o.oneOf(ctx, stream, subject, map[string]any{"batch": 1, "seq": seq, "next_by_subj": subject})
}

func (o *Outputs) oneOf(ctx context.Context, stream, subject string, query map[string]any) (uint64, []byte, error) {
	found, err := o.BatchGet(ctx, stream, 1, query)
	if err != nil || len(found) == 0 {
		return 0, nil, request.ReadError(subject, err)
	}
	seq, err := request.SequenceOf(found[0])
	return seq, found[0].Data, request.ReadError(subject, err)
}

// Told returns what is stored of an attempt's lines and records. Usually the last message of each
// is enough; if that is from another attempt, it reads all.
func (o *Outputs) Told(ctx context.Context, id task.ID, epoch uint64) (told output.Told, err error) {
	var lines output.Lines
	see := func(b output.Lines) error {
		for i := range b.Lines {
			if l := &b.Lines[i]; b.Epoch == epoch {
				told.Lines, told.Upto = max(told.Lines, l.N), max(told.Upto, l.Upto)
			}
		}
		return nil
	}
	seq, data, err := o.lastOf(ctx, names.OutputStream, names.OutputPrefix+string(id))
	if err != nil {
		return told, fmt.Errorf("read what task %s has printed: %w", id, err)
	}
	_ = json.Unmarshal(data, &lines) // unreadable means foreign
	if _ = see(lines); seq > 0 && lines.Epoch != epoch {
		if err := o.Printed(ctx, id, false, see); err != nil {
			return told, fmt.Errorf("read what task %s has printed: %w", id, err)
		}
	}
	var records output.Records
	count := func(r output.Records) error {
		if r.Epoch == epoch {
			told.Records = max(told.Records, r.First+len(r.Items))
		}
		return nil
	}
	seq, data, err = o.lastOf(ctx, names.DataStream, names.DataPrefix+string(id))
	_ = json.Unmarshal(data, &records)
	if _ = count(records); err == nil && seq > 0 && records.Epoch != epoch {
		err = o.Kept(ctx, id, false, count)
	}
	if err != nil {
		return told, fmt.Errorf("read what task %s has produced: %w", id, err)
	}
	return told, nil
}
