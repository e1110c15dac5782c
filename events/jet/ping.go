package jet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/rights"
	"millrace/task/node"
	"millrace/task/value"
)

// ErrNoPong: no process answers for the node.
var ErrNoPong = errors.New("no process answers for this node")

// OnPing answers requests to a node about itself, until stop is called.
func (s *Beats) OnPing(id node.ID, answer func() node.Pong) (stop func(), err error) {
	return s.Listen(names.PingPrefix+string(id), "listen for pings", func(m *nats.Msg) {
		body, err := json.Marshal(answer())
		if err == nil && rights.Answerable(m.Reply) {
			_ = m.Respond(body) // else the asker asks again
		}
	})
}

// Ping asks the process of a node about itself. The error wraps [ErrNoPong] if none listens, or
// none answers before ctx ends.
func (s *Beats) Ping(ctx context.Context, id node.ID) (node.Pong, error) {
	var p node.Pong
	m, err := s.Request(ctx, names.PingPrefix+string(id), nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return p, ErrNoPong
	case errors.Is(err, context.DeadlineExceeded):
		return p, fmt.Errorf("%w in time", ErrNoPong)
	case err != nil:
		return p, fmt.Errorf("ping node %s: %w", id, err)
	}
	if err := json.Unmarshal(m.Data, &p); err != nil {
		return p, fmt.Errorf("ping node %s: the answer cannot be read: %w", id, value.Plainly(err))
	}
	return p, nil
}
