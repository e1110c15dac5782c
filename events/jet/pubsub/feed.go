package pubsub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Feed has the messages of a subject that is not Millrace's own. All processes that listen for one job
// share them.
type Feed struct {
	// Job is for whom it listens.
	Job string
	// Stream has the messages. Default: the stream that stores the subject; without one, messages are heard
	// when they are sent, or never.
	Stream string
	// Subject chooses among them, with wildcards. Default: all of the stream.
	Subject string
	// Since is when a new listener begins: what the stream has from before it does not hear.
	Since time.Time
	Log   *slog.Logger

	pause  time.Duration // instead of feedAgain, for tests
	warned time.Time     // when messages that must come again were last told of
}

func (f *Feed) again() time.Duration { return cmp.Or(f.pause, feedAgain) }

// Message is a message of a [Feed].
type Message struct {
	// Stream and Seq are where it lies, and Made is when that stream was: one that is made anew counts from
	// 1 again. Stream is "" for a message that no stream has.
	Stream string
	Made   time.Time
	Seq    uint64
	// At is when it was stored, and zero if it was not.
	At      time.Time
	Subject string
	Header  map[string][]string
	// ID is what a sender repeats when it sends the same again; "" if it says nothing of the kind.
	ID   string
	Data []byte
}

var (
	// ErrNever is for a message that can have no effect, however often it comes.
	ErrNever = errors.New("the message is refused")
	// ErrUnwanted is the cause with which the context of a feed ends if nobody shall continue it.
	ErrUnwanted = errors.New("nobody listens any more")
)

const (
	feedBatch = 64
	// feedMost is how many messages may have been delivered that are not dealt with: so many are tried again
	// while a queue is full, and no more are asked for.
	feedMost = 256
	// feedWidth is how many messages of a feed are dealt with at once.
	feedWidth = 16
	// feedAgain is how long a message is left alone that could not be dealt with, and after how long a feed
	// looks whether a stream stores its subject.
	feedAgain = 5 * time.Second
	// feedWait is how long a process may take for a message before it counts as dead.
	feedWait = 20 * time.Second
	// feedIdle is how long the NATS server keeps the place of a feed to which nobody listens.
	feedIdle = 7 * 24 * time.Hour
)

// Take deals with a message, and returns what a sender that waits for it is told. What its effect is
// must be durable when it returns. After an error that does not wrap [ErrNever] the message comes again,
// if a stream has it.
type Take func(ctx context.Context, m *Message) (answer any, err error)

// Run passes messages to take, several at once and in no order, until ctx ends or something fails. A
// message of a stream comes again until take is done with it.
func (f *Feed) Run(ctx context.Context, nc *nats.Conn, take Take) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	for err == nil && ctx.Err() == nil {
		var stream jetstream.Stream
		if stream, err = f.find(ctx, js); err != nil {
			break
		}
		if stream != nil {
			err = f.consume(ctx, stream, take)
		} else {
			err = f.hear(ctx, nc, js, take)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// find returns the stream that has the messages; nil if none does.
func (f *Feed) find(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	name := f.Stream
	if name == "" {
		var all []string
		names := js.StreamNames(ctx, jetstream.WithStreamListSubject(f.Subject))
		for name := range names.Name() {
			all = append(all, name)
		}
		switch {
		case names.Err() != nil:
			return nil, fmt.Errorf("find the stream of %s: %w", f.Subject, names.Err())
		case len(all) == 0:
			return nil, nil
		case len(all) > 1:
			return nil, fmt.Errorf("the streams %s store messages of %s; set on.stream to one of them", strings.Join(all, " and "), f.Subject)
		}
		name = all[0]
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", name, err)
	}
	return stream, nil
}

// consumer finds or makes the place of the feed in a stream. Its name is another one for each stream, job
// and subject, so that none begins in the place of another.
func (f *Feed) consumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	info := stream.CachedInfo()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", f.Job, f.Subject, info.Created.UTC().Format(time.RFC3339Nano)))
	name := "millrace-" + hex.EncodeToString(sum[:10])
	c, err := stream.Consumer(ctx, name)
	if !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return c, err
	}
	config := jetstream.ConsumerConfig{
		Durable: name, Description: "Millrace: messages that make tasks of job " + f.Job, FilterSubject: f.Subject,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: feedWait, MaxDeliver: -1, MaxAckPending: feedMost, InactiveThreshold: feedIdle,
		DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &f.Since,
	}
	if info.Config.Retention == jetstream.WorkQueuePolicy { // which knows no other beginning
		config.DeliverPolicy, config.OptStartTime = jetstream.DeliverAllPolicy, nil
	}
	if c, err = stream.CreateConsumer(ctx, config); errors.Is(err, jetstream.ErrConsumerExists) {
		c, err = stream.Consumer(ctx, name) // another server was faster
	}
	return c, err
}

// consume passes the messages of a stream to take.
func (f *Feed) consume(ctx context.Context, stream jetstream.Stream, take Take) error {
	made := stream.CachedInfo().Created
	c, err := f.consumer(ctx, stream)
	if err != nil {
		return fmt.Errorf("consumer for job %s: %w", f.Job, err)
	}
	for err == nil && ctx.Err() == nil {
		err = f.batch(ctx, c, made, take)
	}
	if errors.Is(context.Cause(ctx), ErrUnwanted) {
		ctx, done := context.WithTimeout(context.WithoutCancel(ctx), feedAgain)
		defer done()
		if err := stream.DeleteConsumer(ctx, c.CachedInfo().Name); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			f.Log.Warn("a consumer is left, which the NATS server removes when it has been idle", "job", f.Job, "consumer", c.CachedInfo().Name, "for", feedIdle.String(), "error", err)
		}
	}
	return err
}

// batch passes some messages of a consumer to take.
func (f *Feed) batch(ctx context.Context, c jetstream.Consumer, made time.Time, take Take) error {
	asking, done := context.WithTimeout(ctx, f.again())
	defer done()
	batch, err := c.Fetch(feedBatch, jetstream.FetchContext(asking))
	if err != nil {
		return err
	}
	var again errgroup.Group
	again.SetLimit(feedWidth)
	for m := range batch.Messages() {
		again.Go(func() error { return f.one(ctx, m, made, take) })
	}
	if err := again.Wait(); err != nil && ctx.Err() == nil && time.Since(f.warned) > time.Minute {
		f.warned = time.Now()
		f.Log.Warn("messages wait, and come again", "job", f.Job, "error", err)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) && ctx.Err() == nil {
		return err
	}
	return nil
}

// one deals with a message of a stream. The error says that it comes again.
func (f *Feed) one(ctx context.Context, m jetstream.Msg, made time.Time, take Take) error {
	at, err := m.Metadata()
	if err != nil {
		return err
	}
	ctx, done := context.WithTimeout(ctx, feedWait*2/3)
	defer done()
	_, err = take(ctx, &Message{
		Stream: at.Stream, Made: made, Seq: at.Sequence.Stream, At: at.Timestamp, Subject: m.Subject(), Header: m.Headers(), ID: m.Headers().Get(jetstream.MsgIDHeader), Data: m.Data(),
	})
	switch { // an acknowledgement that is lost lets the message come again, which makes nothing twice
	case err == nil:
		_ = m.Ack()
	case errors.Is(err, ErrNever):
		_ = m.TermWithReason(err.Error())
		err = nil
	default:
		_ = m.NakWithDelay(f.again())
	}
	return err
}

// hear passes messages that no stream has to take, until a stream stores their subject.
func (f *Feed) hear(ctx context.Context, nc *nats.Conn, js jetstream.JetStream, take Take) error {
	sub, err := nc.QueueSubscribeSync(f.Subject, "millrace-"+f.Job)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }() // the connection may be gone
	var g errgroup.Group
	defer func() { _ = g.Wait() }()
	g.SetLimit(feedWidth)
	for looked := time.Now(); ctx.Err() == nil; {
		waiting, done := context.WithTimeout(ctx, f.again())
		m, err := sub.NextMsgWithContext(waiting)
		done()
		switch {
		case err == nil:
			g.Go(func() error {
				// To answer whoever waits for the answer of a new stream would be wrong, and that has the message.
				if m.Reply != "" {
					if stream, err := f.find(ctx, js); err == nil && stream != nil {
						return nil
					}
				}
				f.answer(ctx, m, take)
				return nil
			})
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrSlowConsumer) && ctx.Err() == nil:
			return fmt.Errorf("subscribe to %s: %w", f.Subject, err)
		}
		if time.Since(looked) > f.again() {
			if stream, err := f.find(ctx, js); err == nil && stream != nil {
				return nil
			}
			looked = time.Now()
		}
	}
	return nil
}

// answer deals with a message that no stream has, and tells its sender if that waits for an answer.
func (f *Feed) answer(ctx context.Context, m *nats.Msg, take Take) {
	ctx, done := context.WithTimeout(ctx, feedWait*2/3)
	defer done()
	is, err := take(ctx, &Message{Subject: m.Subject, Header: m.Header, ID: m.Header.Get(jetstream.MsgIDHeader), Data: m.Data})
	if m.Reply == "" {
		if err != nil && !errors.Is(err, ErrNever) {
			f.Log.Warn("a message is lost, for no stream has it", "job", f.Job, "subject", m.Subject, "error", err)
		}
		return
	}
	reply := nats.NewMsg(m.Reply)
	if err == nil {
		reply.Data, err = json.Marshal(is)
	}
	if err != nil {
		code := "503"
		if errors.Is(err, ErrNever) {
			code = "400"
		}
		reply.Header.Set("Nats-Service-Error-Code", code)
		reply.Header.Set("Nats-Service-Error", strings.Join(strings.Fields(err.Error()), " "))
	}
	_ = m.RespondMsg(reply) // whoever gets none asks again
}
