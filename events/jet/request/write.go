package request

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
)

// ExpectedHeader makes the server check the sequence of a subject's last message.
const ExpectedHeader = jetstream.ExpectedLastSubjSeqHeader

// Value is the chain of a subject beside the log on which each message replaces the one before. Its
// state is the last message; nil if there is none. A stored message with the same content counts as
// the one to be written.
func (l *Link) Value(stream, subject string) events.Chain[*Message, *nats.Msg] {
	return events.Chain[*Message, *nats.Msg]{
		Read: func(ctx context.Context, wrote *nats.Msg) (*Message, uint64, bool, error) {
			m, found, err := l.LeaderGetFrom(ctx, stream, map[string]any{"last_by_subj": subject})
			if err != nil || !found {
				return nil, 0, false, err
			}
			return &m, m.Seq, wrote != nil && len(m.Data) > 0 && bytes.Equal(m.Data, wrote.Data), nil
		},
		Write: l.Replace,
	}
}

// Replace stores a message if the last one on its subject has the sequence end. It is never part of
// a group, for groups are the log's.
func (l *Link) Replace(ctx context.Context, m *nats.Msg, end uint64) (uint64, error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[ExpectedHeader] = []string{strconv.FormatUint(end, 10)}
	return l.Patient(ctx, func() (uint64, error) { return l.Pub.Publish(ctx, m) })
}

// Patient repeats a write that the server says it has not stored, for a reason that will pass. It
// writes nothing if ctx has ended already: nobody would learn what became of that.
func (l *Link) Patient(ctx context.Context, write func() (uint64, error)) (uint64, error) {
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	pause := time.Millisecond
	for {
		seq, err := write()
		if err == nil || !unstored(err) {
			return seq, err
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		case <-time.After(pause):
		}
		pause = min(2*pause, 250*time.Millisecond)
	}
}

func unstored(err error) bool {
	return Says(err, CodeWriteInFlight) || Says(err, CodeSameInFlight) || errors.Is(err, events.ErrNoStream)
}

// ErrDuplicate: nothing was stored, because the stream has another message of the same Nats-Msg-Id.
var ErrDuplicate = errors.New("the stream has a message of this id already")

// Insist stores a message that does no harm if it is stored twice: it sends it again, until there is
// an answer or ctx ends. The error wraps [ErrDuplicate] if the first answer says so: then the stored
// message is not one of this call.
func (l *Link) Insist(ctx context.Context, m *nats.Msg) (uint64, error) {
	sent := false
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		seq, err := l.Pub.Publish(ctx, m)
		if sent && errors.Is(err, ErrDuplicate) {
			return seq, nil
		}
		sent = sent || errors.Is(err, events.ErrUnknown)
		if err == nil || ctx.Err() != nil || !(unstored(err) || errors.Is(err, events.ErrUnknown) || Says(err, CodeNoLeader)) {
			return seq, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(pause):
		}
	}
}

// TTL returns the header that makes the server remove a message after d.
func TTL(d time.Duration) nats.Header {
	return nats.Header{"Nats-TTL": {strconv.Itoa(int(d.Seconds())) + "s"}}
}
