package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// ErrThere: the NATS server has a stream of that name already.
var ErrThere = errors.New("there is a log on this NATS server already")

// chunk is how many bytes go at once.
const chunk = 128 << 10

// backup is the answer to both requests, and the second request.
type backup struct {
	Config  map[string]json.RawMessage `json:"config,omitempty"`
	State   json.RawMessage            `json:"state,omitempty"`
	Deliver string                     `json:"deliver_subject,omitempty"`
	Error   *request.ServerError       `json:"error,omitempty"`
}

// Carry copies a stream from one NATS server to another that has none of its name: with its sequences
// and times, and without its consumers and sources, which opening makes. It takes as long as ctx
// allows. The error wraps [ErrThere]; after any other error the other server has no part of the stream.
func Carry(ctx context.Context, from, to *nats.Conn, name string) error {
	inbox := from.NewInbox()
	chunks, err := from.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = chunks.Unsubscribe() }()
	is, err := ask(ctx, from, names.APISnapshot+name, map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": chunk})
	if err != nil {
		return fmt.Errorf("read the stream %s: %w", name, err)
	}
	delete(is.Config, "sources")
	into, err := ask(ctx, to, names.APIRestore+name, backup{Config: is.Config, State: is.State})
	if err != nil {
		return fmt.Errorf("write the stream %s: %w", name, err)
	}
	for {
		m, err := chunks.NextMsgWithContext(ctx)
		if err != nil {
			return fmt.Errorf("read the stream %s: %w", name, err)
		}
		// An empty message ends it, on both sides.
		said, err := to.RequestWithContext(ctx, into.Deliver, m.Data)
		if err == nil {
			_, err = answer(said.Data)
		}
		if err != nil {
			return fmt.Errorf("write the stream %s: %w", name, err)
		}
		if len(m.Data) == 0 {
			return nil
		}
		if m.Reply == "" {
			continue
		}
		if err := m.Respond(nil); err != nil { // so that the next ones come
			return err
		}
	}
}

func ask(ctx context.Context, nc *nats.Conn, subject string, request any) (is backup, err error) {
	text, err := json.Marshal(request)
	if err != nil {
		return is, err
	}
	m, err := nc.RequestWithContext(ctx, subject, text)
	if err != nil {
		return is, err
	}
	return answer(m.Data)
}

func answer(data []byte) (is backup, err error) {
	if len(data) == 0 { // a chunk was taken
		return is, nil
	}
	if err := json.Unmarshal(data, &is); err != nil {
		return is, err
	}
	switch {
	case is.Error == nil:
		return is, nil
	case request.NameTaken(is.Error):
		return is, ErrThere
	}
	return is, is.Error
}
