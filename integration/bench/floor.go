package bench

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/streams"
)

const (
	stream      = "MR_FLOOR"
	queuePrefix = "mrfloor.queue."
	chainPrefix = "mrfloor.task."
)

// Loop is the bare loop, on a stream of its own.
type Loop struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	tasks    int
	inFlight int

	pull   *pubsub.Puller
	sub    *nats.Subscription
	prefix string
	done   atomic.Int64
	ended  chan struct{}
	failed chan error

	mu    sync.Mutex
	calls []func(uint64) // guarded by mu; by reply token
	free  []int          // guarded by mu
}

// Open makes a bare loop for a number of tasks, inFlight of them concurrently. The caller calls
// Close.
func Open(ctx context.Context, nc *nats.Conn, layout streams.Layout, tasks, inFlight int) (*Loop, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	cfg := bare(layout)
	_ = js.DeleteStream(ctx, stream) // of a run that was cut off
	if _, err := js.CreateStream(ctx, cfg); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	f := &Loop{nc: nc, js: js, tasks: tasks, inFlight: inFlight, ended: make(chan struct{}), failed: make(chan error, 1)}
	if _, err := js.CreateConsumer(ctx, stream, jetstream.ConsumerConfig{
		Durable:       "floor",
		FilterSubject: queuePrefix + ">",
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       time.Minute,
		MaxAckPending: -1,
		MaxWaiting:    8192,
	}); err != nil {
		f.Close(ctx)
		return nil, fmt.Errorf("floor: %w", err)
	}
	if err := f.listen(); err != nil {
		f.Close(ctx)
		return nil, err
	}
	return f, nil
}

// bare is the configuration of the loop's stream: the log's own, but for its subjects and what it
// sources.
func bare(layout streams.Layout) jetstream.StreamConfig {
	cfg := layout.LogStream()
	cfg.Name, cfg.Subjects, cfg.Sources = stream, []string{queuePrefix + ">", chainPrefix + ">"}, nil
	return cfg
}

// Fill publishes all births, and returns how long that took.
func (f *Loop) Fill(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	err := f.births(ctx, f.tasks, 4*f.inFlight)
	return time.Since(start), err
}

// Drain runs all tasks to their ends, and returns how long that took.
func (f *Loop) Drain(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	if err := f.run(); err != nil {
		return 0, err
	}
	err := f.wait(ctx)
	return time.Since(start), err
}

// AtOnce publishes births while tasks run, and returns how long all of them took.
func (f *Loop) AtOnce(ctx context.Context) (time.Duration, error) {
	start := time.Now()
	if err := f.run(); err != nil {
		return 0, err
	}
	if _, err := f.Fill(ctx); err != nil {
		return 0, err
	}
	err := f.wait(ctx)
	return time.Since(start), err
}

// Close ends the loop and removes its stream, also when ctx has ended.
func (f *Loop) Close(ctx context.Context) {
	if f.pull != nil {
		f.pull.Close()
	}
	if f.sub != nil {
		_ = f.sub.Unsubscribe() // the connection may be gone
	}
	_ = f.js.DeleteStream(context.WithoutCancel(ctx), stream) // else the next run does
}

// run begins to take tasks.
func (f *Loop) run() (err error) {
	f.pull, err = pubsub.NewPuller(f.nc, stream, "floor", pubsub.WorkerPace, min(pubsub.AtOnce, f.inFlight/2), f.offer, func(context.Context) {})
	if err == nil {
		f.pull.Want(f.inFlight)
	}
	return err
}

// wait waits until all tasks have ended.
func (f *Loop) wait(ctx context.Context) error {
	select {
	case <-f.ended:
		return nil
	case err := <-f.failed:
		return fmt.Errorf("floor: %w", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

var (
	birthBody = []byte(`{"type":"task.submitted","v":1,"id":"01JD6Z0000000000000000000A","at":"2026-11-21T01:33:54.123456789Z","task":"01JD6Z0000000000000000000B","spec":{"handler":"noop"},"route":"default.5"}`)
	startBody = []byte(`{"type":"attempt.started","v":1,"id":"01JD6Z0000000000000000000A","at":"2026-11-21T01:33:54.123456789Z","task":"01JD6Z0000000000000000000B","attempt":1,"node":"node-1","session":"01JD6Z0000000000000000000C","offer":123456}`)
	ackBody   = []byte("+ACK")
	endBody   = []byte(`{"type":"attempt.finished","v":1,"id":"01JD6Z0000000000000000000A","at":"2026-11-21T01:33:54.123456789Z","task":"01JD6Z0000000000000000000B","attempt":1,"epoch":123456}`)
)

func (f *Loop) listen() (err error) {
	f.prefix = f.nc.NewInbox() + "."
	f.sub, err = f.nc.Subscribe(f.prefix+"*", func(m *nats.Msg) {
		token, err := strconv.Atoi(m.Subject[len(f.prefix):])
		seq, refused := pubsub.Answer(m)
		if err == nil {
			err = refused
		}
		if err != nil {
			f.fail(err)
			return
		}
		f.mu.Lock()
		call := f.calls[token]
		f.free = append(f.free, token)
		f.mu.Unlock()
		call(seq)
	})
	if err != nil {
		return err
	}
	return f.sub.SetPendingLimits(-1, -1)
}

func (f *Loop) fail(err error) {
	select {
	case f.failed <- err:
	default:
	}
}

// publish sends a message and calls then with its sequence.
func (f *Loop) publish(subject string, expect int64, body []byte, then func(uint64)) {
	f.mu.Lock()
	var token int
	if n := len(f.free); n > 0 {
		token, f.free = f.free[n-1], f.free[:n-1]
	} else {
		token = len(f.calls)
		f.calls = append(f.calls, nil)
	}
	f.calls[token] = then
	f.mu.Unlock()
	m := pubsub.Blank(subject, "attempt.started")
	m.Reply = f.prefix + strconv.Itoa(token)
	if expect >= 0 {
		m.Expect(uint64(expect))
	}
	own := m.Data
	m.Data = body
	if err := f.nc.PublishMsg(&m.Msg); err != nil {
		f.fail(err)
	}
	m.Data = own
	m.Free()
}

func (f *Loop) births(ctx context.Context, n, window int) error {
	places := make(chan struct{}, window)
	for i := range n {
		select {
		case places <- struct{}{}:
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
		f.publish(queuePrefix+"default.5."+idOf(i), -1, birthBody, func(uint64) { <-places })
	}
	for range window {
		select {
		case places <- struct{}{}:
		case err := <-f.failed:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func idOf(i int) string {
	const width = 26
	s := strconv.Itoa(i)
	return "01JD6Z0000000000000000000000"[:width-len(s)] + s
}

// offer claims and ends a task: each step is the callback of the previous one.
func (f *Loop) offer(m *nats.Msg) bool {
	chain := chainPrefix + m.Subject[len(queuePrefix)+len("default.5."):]
	reply := m.Reply
	f.publish(chain, 0, startBody, func(epoch uint64) {
		f.publish(chain, int64(epoch), endBody, func(uint64) {
			if err := f.nc.Publish(reply, ackBody); err != nil {
				f.fail(err)
			}
			if f.done.Add(1) == int64(f.tasks) {
				close(f.ended)
			}
			f.pull.Want(1)
		})
	})
	return true
}

// outputBatch is how large the bare messages of [Output] are.
const outputBatch = 256 << 10

// stallWait is how long a message may wait for the answers to those before it. The client library
// would give up after 0.2 s, which a busy machine exceeds.
const stallWait = time.Minute

// Output stores n bytes of a repeated line as bare messages in a stream made like
// [names.OutputStream], two in flight, and returns how long that took.
func Output(ctx context.Context, nc *nats.Conn, layout streams.Layout, line string, n int64) (time.Duration, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(2))
	if err != nil {
		return 0, err
	}
	var cfg jetstream.StreamConfig
	for _, s := range layout.Streams() {
		if s.Name == names.OutputStream {
			cfg = s
		}
	}
	cfg.Name, cfg.Subjects = stream+"_OUTPUT", []string{"mrfloor.output"}
	if _, err := js.CreateStream(ctx, cfg); err != nil {
		return 0, err
	}
	var body []byte
	for len(body) < outputBatch {
		body = append(append(body, line...), '\n')
	}
	began := time.Now()
	for sent := int64(0); sent < n; sent += int64(len(body)) {
		if _, err := js.PublishMsgAsync(&nats.Msg{Subject: cfg.Subjects[0], Data: body}, jetstream.WithStallWait(stallWait)); err != nil {
			return 0, err
		}
	}
	select {
	case <-js.PublishAsyncComplete():
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	took := time.Since(began)
	return took, js.DeleteStream(ctx, cfg.Name)
}
