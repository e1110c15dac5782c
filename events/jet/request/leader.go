// Package request reads and writes single messages of a JetStream server and reports what became of
// each: it asks leaders, asks again while they change, and reports the server's refusals and its
// time. It holds no rules about tasks.
//
// It makes records of the messages of the log, however they were delivered, and reads
// those of a subject, of a page or since a time. Reading writes nothing.
//
// It also reads and writes contexts of the nats command line: files with the address of
// a NATS server and the credentials for it. That command's own package for them links the whole
// NATS server, which a program that only submits tasks need not carry.
//
// It finds servers of Millrace on this machine that run for the same user. A process
// with a server of its own writes a record with its address, which only that user may read. The
// command line and programs look there when they are given no address. The package does not connect
// to the servers.
package request

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
)

// Publisher publishes messages, and waits for the answers.
type Publisher interface {
	// Publish stores a message. After an error that wraps [events.ErrUnknown] it may be stored all
	// the same.
	Publish(ctx context.Context, m *nats.Msg) (seq uint64, err error)
	// Deny tells the callers that wait for an answer that the server refuses what they published to
	// a subject or, if that is "", that none of them receives any answer. It tells whether there
	// were any.
	Deny(subject string, denied error) bool
	// Cut returns a context that ends with the next loss of the connection.
	Cut() context.Context
	// Gone is closed when the connection is closed for good.
	Gone() <-chan struct{}
}

// Link is a connection to the server that keeps the log.
type Link struct {
	NC      *nats.Conn
	JS      jetstream.JetStream
	Pub     Publisher
	Denials *denials
	Clock   *Clock
	askTime func() (time.Time, error) // called by the clock of [Link.Now] when its answer is old
}

// New returns the link on a connection, which stays the caller's. It has no publisher yet, and does
// not watch for refusals.
func New(nc *nats.Conn, js jetstream.JetStream) *Link {
	l := &Link{NC: nc, Clock: NewClock(nil)}
	l.JS, l.askTime = library{js, l}, l.timeSoon
	return l
}

// Times of a request to the server.
const (
	// ReadTimeout is for it and its repetitions. A leader that does not hand over is replaced after 4 to
	// 9 s (the election timeout of nats-server's raft), and what was asked before is lost for its try.
	ReadTimeout = 15 * time.Second
	ReadTry     = 2 * time.Second // after that it counts as lost
	// slowTry bounds the tries that follow one in vain. Each is half as long again, for a server may be
	// slow: to ask it the same as often as before would never bring an answer.
	slowTry = 5 * time.Second
)

// MaxBatch is how many messages one request asks for.
const MaxBatch = 256

// Message is a message as a stream's leader returns it.
type Message struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// LeaderGetFrom reads one message from a stream's leader, which has everything that was
// acknowledged. The client's own calls would ask any replica.
func (l *Link) LeaderGetFrom(ctx context.Context, stream string, request map[string]any) (m Message, found bool, err error) {
	body, err := json.Marshal(request)
	if err != nil {
		return m, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	err = l.Patiently(ctx, func(ctx context.Context) (err error) {
		m, found, err = l.storedMessage(ctx, stream, body)
		return err
	})
	return m, found, err
}

func (l *Link) storedMessage(ctx context.Context, stream string, request []byte) (Message, bool, error) {
	m, err := l.Request(ctx, names.APIGet+stream, request)
	if err != nil {
		return Message{}, false, err
	}
	var answer struct {
		Message Message      `json:"message"`
		Error   *ServerError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return Message{}, false, fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	if answer.Error != nil {
		if Says(answer.Error, CodeNoMessage) {
			return Message{}, false, nil
		}
		return Message{}, false, answer.Error
	}
	return answer.Message, true, nil
}

// Within bounds calls of the client library by a time and by the connection: the context ends
// with limit, and when the connection was lost and is back. What the server answered meanwhile
// will not come any more, which the library does not notice: its calls would wait for their whole
// time. The caller makes them again.
func (l *Link) Within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(l.Pub.Cut(), cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// Patiently repeats a request while there is no server to answer it: the leader is changing, or the
// connection was lost and the request with it, which it learns when the connection is back. When
// ctx ends during a try, the error also names what failed the tries before.
func (l *Link) Patiently(ctx context.Context, request func(context.Context) error) error {
	var hindered error
	patience := ReadTry
	for pause := time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		try, cancel := l.Within(ctx, patience)
		err := request(try)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			patience = min(patience*3/2, slowTry)
		} else {
			patience = ReadTry
		}
		switch {
		case err != nil && ctx.Err() != nil && hindered != nil && errors.Is(err, ctx.Err()):
			return fmt.Errorf("%w: %w", hindered, err)
		case err != nil && l.WhyGone() != nil:
			return l.WhyGone()
		case err == nil || ctx.Err() != nil || !Passes(err) && !errors.Is(err, context.Canceled):
			return err
		case !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
			hindered = err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// ReadError adds to an error which subject could not be read; nil stays nil.
func ReadError(subject string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %s: %w", subject, err)
}

// Passes tells whether the cause of a failed request will pass by itself.
func Passes(err error) bool {
	return Says(err, CodeNoLeader) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) ||
		errors.Is(err, events.ErrNoStream)
}

// Added returns the value of a header that the server adds when it delivers a message. It comes
// after the message's own headers, which may have the same name.
func Added(m *nats.Msg, header string) string {
	values := m.Header.Values(header)
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

// BatchGet asks any replica of a stream for several messages, at most most of them.
func (l *Link) BatchGet(ctx context.Context, stream string, most int, request map[string]any) ([]*nats.Msg, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, ReadTimeout)
	defer cancel()
	var found []*nats.Msg
	err = l.Patiently(ctx, func(ctx context.Context) (err error) {
		found, err = l.batchGetOnce(ctx, stream, most, body)
		return err
	})
	return found, err
}

func (l *Link) batchGetOnce(ctx context.Context, stream string, most int, request []byte) (_ []*nats.Msg, err error) {
	ctx, done := l.Denials.Guard(ctx, names.APIDirect+stream)
	defer func() { err = done(err) }()
	inbox := l.NC.NewInbox()
	answers := make(chan *nats.Msg, most+1) // the answers and the end
	// Not a synchronous subscription: that would mistake a message for an error if its headers say
	// so.
	sub, err := l.NC.ChanSubscribe(inbox, answers)
	if err != nil {
		return nil, err
	}
	// Fails only if the connection is gone, and the subscription with it.
	defer func() { _ = sub.Unsubscribe() }()
	if err := l.NC.PublishRequest(names.APIDirect+stream, inbox, request); err != nil {
		return nil, err
	}
	var found []*nats.Msg
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if Added(m, jetstream.SequenceHeader) != "" { // else it is the server's own status
			found = append(found, m)
			continue
		}
		switch status := m.Header.Get("Status"); status {
		case "204", "404": // the end; nothing
			return found, nil
		case "503":
			return nil, events.ErrNoStream
		default:
			return nil, fmt.Errorf("the server says %s %s", status, m.Header.Get("Description"))
		}
	}
}

// SequenceOf returns the sequence of a message from a direct get.
func SequenceOf(m *nats.Msg) (uint64, error) {
	seq, err := strconv.ParseUint(Added(m, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a message without a sequence: %w", err)
	}
	return seq, nil
}
