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
	"millrace/events/jet/definitions"
	"millrace/events/jet/names"
	"millrace/events/jet/outputs"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/events/jet/rights"
	"millrace/events/jet/streams"
)

// Store is Millrace's state on a JetStream server or cluster. It is safe for
// concurrent use.
type Store struct {
	*request.Link
	*outputs.Outputs
	*outputs.Files
	*request.Log
	*definitions.Registry
	*streams.Set
	*Beats
	caller   string // the name under which it asks the service
	log      jetstream.Stream
	timers   jetstream.Stream
	pub      *pubsub.Publisher // also that of the link
	facts    *pubsub.Facts     // nil before the log is open
	ackWait  time.Duration
	imported events.Import
	lanes    sync.Map // of [placement.Lane] to opened; what this process knows of special lanes

	patience request.Patience // of opening

	declared declared
}

// Option changes how a store is opened.
type Option func(*Store)

// WithClock makes the store set its clock by the log's time, and use it. Stores of one process may
// share a clock. By default each has one of its own, which begins with the machine's time. Nil
// means the default.
func WithClock(c *request.Clock) Option {
	return func(s *Store) {
		if c != nil {
			s.Clock = c
		}
	}
}

// WithPatience makes opening a store wait for a cluster that elects its leaders: while requests get
// no answer though the connection is up, and while the servers report that they have no leader or
// are too few.
func WithPatience(p request.Patience) Option { return func(s *Store) { s.patience = p } }

func storeOn(nc *nats.Conn, js jetstream.JetStream, options []Option) *Store {
	l := request.New(nc, js)
	s := &Store{
		Link:    l,
		Outputs: &outputs.Outputs{Link: l},
		Files:   &outputs.Files{Link: l},
		Log:     &request.Log{Link: l},
		Set:     &streams.Set{Link: l},
		caller:  rights.CallerOn(nc),
	}
	for _, set := range options {
		set(s)
	}
	return s
}

var (
	_ events.Log      = (*Store)(nil)
	_ events.Timers   = (*Store)(nil)
	_ events.Follower = (*Store)(nil)
	_ events.Offerer  = (*Store)(nil)
)

// ErrNoJetStream: the server has no JetStream, or not for this account.
var ErrNoJetStream = errors.New("the NATS server has no JetStream for this account: start nats-server with -js, or enable JetStream for the account")

// ErrNoMillrace: the server holds no log of Millrace.
var ErrNoMillrace = errors.New("this NATS server holds no Millrace: start `millrace server` on it, or choose another server")

// Attach is [Open] for callers that only use what exists: it makes no streams, and its error wraps
// [ErrNoMillrace] if there are none.
func Attach(ctx context.Context, nc *nats.Conn, options ...Option) (*Store, error) {
	return begin(ctx, nc, options, func(ctx context.Context, s *Store, f *request.Former) error { return s.open(ctx, f, f.Do) })
}

// Await is Attach for processes that may start before the server: while there are no streams, it
// waits as long as its patience ([WithPatience]) lasts.
func Await(ctx context.Context, nc *nats.Conn, options ...Option) (*Store, error) {
	return begin(ctx, nc, options, func(ctx context.Context, s *Store, f *request.Former) error { return s.open(ctx, f, f.Await) })
}

// begin makes a store and has it opened.
func begin(ctx context.Context, nc *nats.Conn, options []Option, open func(context.Context, *Store, *request.Former) error) (*Store, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	s := storeOn(nc, js, options)
	s.Denials = request.WatchDenials(nc)
	if s.pub, err = pubsub.NewPublisher(nc, pubsub.Timeout); err != nil {
		s.Denials.Close()
		return nil, fmt.Errorf("open log: %w", err)
	}
	s.Link.Pub = s.pub
	s.Denials.Of(s.pub)
	guarded, done := s.Denials.Guard(ctx, "") // everything there is needed
	err = open(guarded, s, request.NewFormer(nc, s.patience))
	if err = done(err); err != nil {
		s.Close()
		return nil, fmt.Errorf("open log: %w", explain(err))
	}
	return s, nil
}

// explain adds the meaning of an error at opening, where it is known.
func explain(err error) error {
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		// A server without JetStream for any account does not answer.
		errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: %w", ErrNoJetStream, err)
	case request.Missing(err):
		return ErrNoMillrace // the server's own words add nothing
	}
	return err
}

// Open returns the store on a connection, which stays the caller's. It makes missing streams and
// buckets as layout says; layout has no effect on existing ones.
//
// It returns an error that wraps [ErrNoJetStream] if the account has no JetStream, and otherwise
// one that names the stream or bucket that could not be opened or made.
func Open(ctx context.Context, nc *nats.Conn, layout streams.Layout, options ...Option) (*Store, error) {
	return begin(ctx, nc, options, func(ctx context.Context, s *Store, f *request.Former) error {
		if err := streams.Ensure(ctx, f, s.JS, layout); err != nil {
			return err
		}
		return s.open(ctx, f, f.Await)
	})
}

// open finds the streams; find performs the step that finds the log. Where a log is, the rest comes
// (again): a server makes what was deleted within a sweep.
func (s *Store) open(ctx context.Context, f *request.Former, find func(context.Context, func(context.Context) error) error) (err error) {
	err = find(ctx, func(ctx context.Context) (err error) {
		asked := time.Now()
		if s.log, err = s.JS.Stream(ctx, names.LogStream); err != nil {
			return err
		}
		info := s.log.CachedInfo()
		s.Clock.Hear(info.TimeStamp, asked, time.Now())
		if err := streams.Current(info.Config); err != nil {
			return err
		}
		return request.Majority(info.Cluster)
	})
	if err != nil {
		return fmt.Errorf("stream %s: %w", names.LogStream, err)
	}
	if err := f.Await(ctx, func(ctx context.Context) (err error) { s.timers, err = s.JS.Stream(ctx, names.TimerStream); return err }); err != nil {
		return fmt.Errorf("stream %s: %w", names.TimerStream, err)
	}
	if err := f.Await(ctx, func(ctx context.Context) error { _, err := s.JS.KeyValue(ctx, names.NodesBucket); return err }); err != nil {
		return fmt.Errorf("bucket %s: %w", names.NodesBucket, err)
	}
	s.Beats = New(s.Link)
	s.Registry = definitions.New(s.Log, s.log, s)
	made := streams.LayoutOf(s.log.CachedInfo().Config)
	s.ackWait, s.imported = made.AckWait, made.Import
	s.facts = pubsub.NewFacts(s.Link, s.pub, made.SyncAlways)
	return nil
}

// AckWait is how long a lease lasts without an extension.
func (s *Store) AckWait() time.Duration { return s.ackWait }

// Import says what the log lacks because it was imported.
func (s *Store) Import() events.Import { return s.imported }

// Connected tells whether the connection is up at the moment.
func (s *Store) Connected() bool { return s.NC.IsConnected() }

// Close ends what Open started. It does not close the connection.
func (s *Store) Close() {
	if s.facts != nil {
		s.facts.Close()
	}
	s.pub.Close()
	s.Denials.Close()
}

// Seal makes the log refuse all further messages, for good.
func (s *Store) Seal(ctx context.Context) error {
	info, err := s.log.Info(ctx)
	if err != nil {
		return err
	}
	cfg := info.Config
	cfg.Sources = nil
	if _, err = s.JS.UpdateStream(ctx, cfg); err != nil {
		return err
	}
	cfg.Sealed = true
	_, err = s.JS.UpdateStream(ctx, cfg)
	return err
}

// Differences says in words where the existing log differs from a layout, and what to do about each
// difference. Zero fields of the layout are not compared.
func (s *Store) Differences(l streams.Layout) []string {
	return l.Differences(s.log.CachedInfo().Config, s.ackWait)
}
