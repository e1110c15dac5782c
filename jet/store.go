package jet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
)

// Store is Millrace's state on a JetStream server or cluster. It is safe for
// concurrent use.
type Store struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	log     jetstream.Stream
	pub     *publisher
	group   *group // nil unless writers share flushes
	ackWait time.Duration
	jobs    jetstream.KeyValue
	nodes   jetstream.KeyValue
	lanes   sync.Map // of [task.Lane]; special ones that were seen to have a consumer

	declared declared
}

var _ events.Log = (*Store)(nil)

// ErrNoJetStream means that the server has no JetStream, or not for this account.
var ErrNoJetStream = errors.New("the NATS server has no JetStream for this account: start nats-server with -js, or enable JetStream for the account")

// ErrNoMillrace means that the server holds no log of Millrace.
var ErrNoMillrace = errors.New("this NATS server holds no Millrace: start `millrace server` on it, or choose another server")

// Attach is [Open] for who only uses what is there: it makes nothing, and its
// error wraps [ErrNoMillrace] if there is nothing.
func Attach(ctx context.Context, nc *nats.Conn) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	s := &Store{nc: nc, js: js}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open log: %w", explain(err))
	}
	return s, nil
}

// explain says what an error at opening means, where it is known.
func explain(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders): // a server that has it for nobody does not even answer
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrBucketNotFound):
		return ErrNoMillrace // the server's own words add nothing
	}
	return err
}

// Open returns the store on a connection, which stays the caller's. Streams and
// buckets that do not exist are made as layout says; a layout has no effect on
// those that do.
//
// It returns an error that wraps [ErrNoJetStream] if the account has no
// JetStream, and one that names the stream or bucket that cannot be had.
func Open(ctx context.Context, nc *nats.Conn, layout Layout) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	if err := ensure(ctx, js, layout.withDefaults()); err != nil {
		return nil, fmt.Errorf("open log: %w", explain(err))
	}
	s := &Store{nc: nc, js: js}
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) (err error) {
	if s.log, err = s.js.Stream(ctx, LogStream); err != nil {
		return fmt.Errorf("stream %s: %w", LogStream, err)
	}
	if s.jobs, err = s.js.KeyValue(ctx, JobsBucket); err != nil {
		return fmt.Errorf("bucket %s: %w", JobsBucket, err)
	}
	if s.nodes, err = s.js.KeyValue(ctx, NodesBucket); err != nil {
		return fmt.Errorf("bucket %s: %w", NodesBucket, err)
	}
	meta := s.log.CachedInfo().Config.Metadata
	if s.ackWait, err = time.ParseDuration(meta[metaAckWait]); err != nil {
		s.ackWait = Layout{}.withDefaults().AckWait // made by hand
	}
	if s.pub, err = newPublisher(s.nc, publishTimeout); err != nil {
		return err
	}
	if meta[metaSync] == syncAlways {
		s.group = newGroup(s.pub)
	}
	return nil
}

// Time is the time that the server has which keeps the log, and fires its timers.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	stream, err := s.js.Stream(ctx, LogStream)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask the log for its time: %w", err)
	}
	return stream.CachedInfo().TimeStamp, nil
}

// AckWait is how long a lease lasts without being extended.
func (s *Store) AckWait() time.Duration { return s.ackWait }

// Connected tells whether the connection is up at the moment.
func (s *Store) Connected() bool { return s.nc.IsConnected() }

// Close ends what Open started. The connection stays open.
func (s *Store) Close() {
	if s.group != nil {
		s.group.close()
	}
	s.pub.close()
}
