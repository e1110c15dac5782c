package streams

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events/jet/names"
	"millrace/events/jet/request"
)

// ErrThere: the NATS server has a stream of that name already.
var ErrThere = errors.New("there is a log on this NATS server already")

// chunk is how many bytes go at once.
const chunk = 128 << 10

// answered is how long the NATS server may take for one step. The slowest is the first of a restored
// stream in a cluster, which elects a leader for it.
const answered = 2 * time.Minute

// snapshot is the answer to both requests, and the second request. The rest of what the NATS server
// says of a stream stays as it is.
type snapshot struct {
	Config  map[string]json.RawMessage `json:"config,omitempty"`
	State   json.RawMessage            `json:"state,omitempty"`
	Deliver string                     `json:"deliver_subject,omitempty"`
}

// Carry copies a stream from one NATS server to another that has none of its name: with its sequences
// and times, and without its consumers and sources, which opening makes. It takes as long as ctx
// allows. The error wraps [ErrThere]; after any other error the other server has no part of the stream, if
// it is no cluster.
func Carry(ctx context.Context, from, to *nats.Conn, name string) error {
	var into *inlet
	err := save(ctx, from, name, func(is snapshot) (_ io.Writer, err error) {
		delete(is.Config, "sources")
		into, err = restore(ctx, to, name, is, answered)
		return into, err
	})
	if into == nil {
		return err
	}
	return into.close(err)
}

// save reads a stream as the NATS server backs it up, up to its present end, without its consumers.
// begin gets what it is, and says where it goes.
func save(ctx context.Context, nc *nats.Conn, name string, begin func(snapshot) (io.Writer, error)) error {
	inbox := nc.NewInbox()
	parts, err := nc.SubscribeSync(inbox)
	if err != nil {
		return err
	}
	defer func() { _ = parts.Unsubscribe() }()
	failed := func(err error) error { return fmt.Errorf("read the stream %s: %w", name, err) }
	var is snapshot
	if err := ask(ctx, nc, names.APISnapshot+name, map[string]any{"deliver_subject": inbox, "no_consumers": true, "chunk_size": chunk}, &is); err != nil {
		return failed(err)
	}
	to, err := begin(is)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		m, err := next(ctx, parts)
		if err != nil {
			return failed(err)
		}
		if len(m.Data) == 0 { // the end; of a success it has no status, or 204
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return failed(fmt.Errorf("the NATS server ended it: %s", m.Header.Get("Description")))
			}
			return nil
		}
		// Only the last part asks for no acknowledgement. The others are numbered there.
		if m.Reply != "" && !strings.HasSuffix(m.Reply, "."+strconv.Itoa(n)) {
			return failed(fmt.Errorf("part %d was lost on the way", n))
		}
		if _, err := to.Write(m.Data); err != nil {
			return err
		}
		if m.Reply == "" {
			continue
		}
		if err := m.Respond(nil); err != nil { // so that the next ones come
			return failed(err)
		}
	}
}

func next(ctx context.Context, parts *nats.Subscription) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	return parts.NextMsgWithContext(ctx)
}

// inlet writes a saved stream into a NATS server.
type inlet struct {
	ctx     context.Context
	nc      *nats.Conn
	name    string
	deliver string
}

// restore begins to make a stream of a saved one. The error wraps [ErrThere], or is of a deadline if the
// NATS server does not answer within patience; then it may have the name of the stream.
func restore(ctx context.Context, nc *nats.Conn, name string, is snapshot, patience time.Duration) (*inlet, error) {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var answer snapshot
	if err := ask(soon, nc, names.APIRestore+name, snapshot{Config: is.Config, State: is.State}, &answer); err != nil {
		return nil, fmt.Errorf("write the stream %s: %w", name, err)
	}
	return &inlet{ctx, nc, name, answer.Deliver}, nil
}

func (in *inlet) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(n+chunk, len(p))]
		if err := in.send(part); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// send sends a part. In a cluster, it may take a moment until all servers know where the first one goes.
func (in *inlet) send(part []byte) error {
	ctx, cancel := context.WithTimeout(in.ctx, answered)
	defer cancel()
	if err := exchange(ctx, in.nc, &nats.Msg{Subject: in.deliver, Data: part}, nil); err != nil {
		return fmt.Errorf("write %d bytes of the stream %s: %w", len(part), in.name, err)
	}
	return nil
}

// close ends the stream if err is nil. Else, or if the NATS server does not take it, it removes what
// is there of it.
func (in *inlet) close(err error) error {
	if err == nil {
		err = in.send(nil)
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(in.ctx), answered)
		defer cancel()
		_ = remove(ctx, in.nc, in.name) // the first error is the one to report
	}
	return err
}

// remove deletes a stream if there is one.
func remove(ctx context.Context, nc *nats.Conn, name string) error {
	err := insist(ctx, nc, names.APIRemove+name, nil, nil)
	if request.Says(err, request.CodeNoSuchStream) {
		return nil
	}
	return err
}

// ask asks JetStream for something.
func ask(ctx context.Context, nc *nats.Conn, subject string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, answered)
	defer cancel()
	var text []byte
	if question != nil {
		var err error
		if text, err = json.Marshal(question); err != nil {
			return err
		}
	}
	return exchange(ctx, nc, &nats.Msg{Subject: subject, Data: text}, answer)
}

// insist is [ask] for what may be asked twice.
func insist(ctx context.Context, nc *nats.Conn, subject string, question, answer any) error {
	return again(ctx, func(ctx context.Context) error { return ask(ctx, nc, subject, question, answer) })
}

// again does what may be done twice. A cluster that elects may lose a question, or its answer, and
// says nothing.
func again(ctx context.Context, do func(context.Context) error) (err error) {
	for patience := answered / 32; patience <= answered; patience *= 2 {
		soon, cancel := context.WithTimeout(ctx, patience)
		err = do(soon)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// electing is how long to wait until asking again who has no leader, or does not know the others yet.
const electing = 100 * time.Millisecond

// exchange sends a message to JetStream. While nobody takes it, as in an election or in a cluster that
// has just started, it sends it again.
func exchange(ctx context.Context, nc *nats.Conn, m *nats.Msg, answer any) error {
	for {
		said, err := nc.RequestMsgWithContext(ctx, m)
		if err == nil {
			err = understand(said.Data, answer)
		}
		if !errors.Is(err, nats.ErrNoResponders) && !request.Says(err, request.CodeNoLeader) && !request.Says(err, request.CodeNoPeers) {
			return err
		}
		if rest(ctx, electing); ctx.Err() != nil {
			return err
		}
	}
}

// understand reads an answer into a value; nil for an answer that says nothing.
func understand(data []byte, answer any) error {
	if len(data) == 0 && answer == nil {
		return nil
	}
	var said struct {
		Error *request.ServerError `json:"error"`
	}
	if err := json.Unmarshal(data, &said); err != nil {
		return err
	}
	switch {
	case said.Error == nil && answer == nil:
		return nil
	case said.Error == nil:
		return json.Unmarshal(data, answer)
	case request.NameTaken(said.Error):
		return fmt.Errorf("%w: %w", ErrThere, said.Error)
	}
	return said.Error
}
