// Package outputs keeps what attempts print, produce and report: lines, records, progress,
// checkpoints, and where they ran. None of it is in the log, and no fact follows from it.
//
// It keeps file contents, versions of bundles and the artifacts of attempts in the
// stream MR_FILES, and removes those that are no longer needed.
package outputs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// Outputs stores and reads what attempts print, produce and report, in streams beside the log.
type Outputs struct{ *request.Link }

// maxLines is the largest message of lines, in bytes: the default limit of a server, less some room
// for what the message holds beside the lines.
const maxLines = 1<<20 - 4<<10

// Print stores a batch of lines and waits for the server's acknowledgement. A batch that is too
// large for a message is stored in parts.
func (o *Outputs) Print(ctx context.Context, b output.Lines) error {
	body := b.Encoded
	if body == nil {
		var err error
		if body, err = b.AppendJSON(nil); err != nil {
			return err
		}
	}
	if half := len(b.Lines) / 2; len(body) > maxLines && half > 0 {
		all := b.Lines
		b.Encoded = nil
		b.Lines = all[:half]
		if err := o.Print(ctx, b); err != nil {
			return err
		}
		b.Lines = all[half:]
		return o.Print(ctx, b)
	}
	return o.keep(ctx, &nats.Msg{Subject: names.OutputPrefix + string(b.Task), Data: body})
}

// Keep stores a batch of records and waits for the server's acknowledgement. If an answer was lost
// and the same batch is stored again, it is kept once. The error wraps [request.ErrDuplicate] if
// somebody else has stored a message under the name of a batch that was not sent before.
func (o *Outputs) Keep(ctx context.Context, b output.Records) error {
	body, err := value.JSON(b)
	if err != nil {
		return err
	}
	err = o.keep(ctx, &nats.Msg{Subject: names.DataPrefix + string(b.Task), Header: nats.Header{nats.MsgIdHdr: {batchID(&b)}}, Data: body})
	if b.Again && errors.Is(err, request.ErrDuplicate) {
		err = nil
	}
	if _, full := request.Full(err); full {
		return fmt.Errorf("%w: raise store_records of the `millrace server`, or have jobs remove records sooner (keep)", err)
	}
	return err
}

func (o *Outputs) keep(ctx context.Context, m *nats.Msg) error {
	_, err := o.Insist(ctx, m)
	return err
}

// Printed reads the lines of a task in order and calls each with every batch, until ctx ends, each
// returns an error or, unless follow is set, there are no more; in that case it returns nil.
func (o *Outputs) Printed(ctx context.Context, id task.ID, follow bool, each func(output.Lines) error) error {
	return o.PrintedFrom(ctx, id, Start{}, follow, func(_ uint64, b output.Lines) error { return each(b) })
}

// Kept is [Outputs.Printed] for the records of a task.
func (o *Outputs) Kept(ctx context.Context, id task.ID, follow bool, each func(output.Records) error) error {
	return o.KeptOf(ctx, []task.ID{id}, Start{}, follow, func(_ uint64, r output.Records) error { return each(r) })
}

// readBytes is how many bytes are asked for at once: more than the largest message, and less than a
// server buffers for a client before it drops the connection.
const readBytes = 16 << 20

// MaxTogether is how many tasks may be read together: the server compares each subject with all of
// them.
const MaxTogether = 500

// PrintedOf reads the lines of several tasks, at most [MaxTogether], in the order in which they
// were stored, as [Outputs.PrintedFrom] does for one.
func (o *Outputs) PrintedOf(ctx context.Context, ids []task.ID, from Start, follow bool, each func(uint64, output.Lines) error) error {
	return readFrom(ctx, o, names.OutputStream, subjectsOf(names.OutputPrefix, ids), from, follow, func(seq uint64, b output.Lines) error {
		b.OneByOne()
		return each(seq, b)
	})
}

// KeptOf is [Outputs.PrintedOf] for records; its start is in [names.DataStream].
func (o *Outputs) KeptOf(ctx context.Context, ids []task.ID, from Start, follow bool, each func(uint64, output.Records) error) error {
	return readFrom(ctx, o, names.DataStream, subjectsOf(names.DataPrefix, ids), from, follow, each)
}

func subjectsOf(prefix string, ids []task.ID) []string {
	subjects := make([]string, len(ids))
	for i, id := range ids {
		subjects[i] = prefix + string(id)
	}
	return subjects
}

// PrintedAs reads the stored messages that hold the lines of some tasks, at most [MaxTogether],
// without decoding them.
func (o *Outputs) PrintedAs(ctx context.Context, ids []task.ID, each func(seq uint64, stored time.Time, subject string, body []byte) error) error {
	return readMessages(ctx, o, names.OutputStream, subjectsOf(names.OutputPrefix, ids), Start{}, false, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		return each(meta.Sequence.Stream, meta.Timestamp, m.Subject(), m.Data())
	})
}

func readFrom[T any](ctx context.Context, o *Outputs, stream string, subjects []string, from Start, follow bool, each func(uint64, T) error) error {
	return readMessages(ctx, o, stream, subjects, from, follow, func(m jetstream.Msg, meta *jetstream.MsgMetadata) error {
		var batch T
		if json.Unmarshal(m.Data(), &batch) != nil {
			return nil // a foreign message
		}
		return each(meta.Sequence.Stream, batch)
	})
}

func readMessages(ctx context.Context, o *Outputs, stream string, subjects []string, from Start, follow bool, each func(jetstream.Msg, *jetstream.MsgMetadata) error) error {
	subject := subjects[0] // for error messages
	cfg := jetstream.OrderedConsumerConfig{FilterSubjects: subjects, InactiveThreshold: time.Minute}
	from.set(&cfg)
	c, err := o.JS.OrderedConsumer(ctx, stream, cfg)
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	defer o.Dismiss(ctx, stream, c)
	info, err := c.Info(ctx)
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	left := info.NumPending
	if left == 0 && !follow {
		return nil
	}
	iter, err := c.Messages(jetstream.PullMaxBytes(readBytes), jetstream.PullHeartbeat(time.Second), jetstream.PullExpiry(10*time.Second))
	if err != nil {
		return fmt.Errorf("read %s: %w", subject, err)
	}
	defer iter.Stop()
	for {
		m, err := iter.Next(jetstream.NextContext(ctx))
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if errors.Is(err, jetstream.ErrNoHeartbeat) {
				continue
			}
			return fmt.Errorf("read %s: %w", subject, err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("read %s: %w", subject, err)
		}
		if err := each(m, meta); err != nil {
			return err
		}
		if !follow && meta.NumPending == 0 {
			return nil
		}
	}
}

// WatchTask calls changed whenever something may have happened to a task, until stop is called.
// Messages can be lost: also read the log now and then.
func (o *Outputs) WatchTask(id task.ID, changed func()) (stop func(), err error) {
	return o.Listen(names.ChainPrefix+string(id), "watch task "+string(id), func(*nats.Msg) { changed() })
}
