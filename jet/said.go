package jet

import (
	"bytes"
	"context"
	"strconv"

	"github.com/nats-io/nats.go"

	"millrace/events"
)

// said is the chain of what is said on a subject beside the log: a message in place of the one before. It stands as the last
// message says; nil if there is none. What lies there and says the same is as good as what was to be said.
func (s *Store) said(stream, subject string) events.Chain[*storedMessage, *nats.Msg] {
	return events.Chain[*storedMessage, *nats.Msg]{
		Read: func(ctx context.Context, wrote *nats.Msg) (*storedMessage, uint64, bool, error) {
			m, found, err := s.leaderGetFrom(ctx, stream, map[string]any{"last_by_subj": subject})
			if err != nil || !found {
				return nil, 0, false, err
			}
			return &m, m.Seq, wrote != nil && len(m.Data) > 0 && bytes.Equal(m.Data, wrote.Data), nil
		},
		Write: s.say,
	}
}

// say stores a message if the last one on its subject has the sequence end. It is in no group, for these are the log's.
func (s *Store) say(ctx context.Context, m *nats.Msg, end uint64) (uint64, error) {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header[expectedHeader] = []string{strconv.FormatUint(end, 10)}
	return s.patient(ctx, func() (uint64, error) { return s.pub.publish(ctx, m) })
}
