package pubsub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/request"
	"millrace/task/value"
)

// Timeout is how long an acknowledgement may take before the outcome
// counts as unknown. A change of leader takes up to 6 s.
const Timeout = 8 * time.Second

// doubtFor is how long the publisher waits for another answer after one that looks like an old one.
// If the server repeats an answer, it does so within moments.
const doubtFor = 200 * time.Millisecond

// Why a caller no longer waits for an acknowledgement.
var (
	errClosed = errors.New("the store is closed")
	errLost   = errors.New("the connection was lost meanwhile")
	errOld    = errors.New("the answer is an old one, or the stream was made anew")
)

// Publisher publishes messages and collects their acknowledgements: one inbox for all, one slot for
// each in flight. Compared with the client library's asynchronous publisher it saves a quarter of
// the processor time of a task.
type Publisher struct {
	nc      *nats.Conn
	prefix  string // of the inbox
	sub     *nats.Subscription
	timeout time.Duration
	quit    chan struct{}
	done    chan struct{}
	gone    chan struct{} // closed when the connection is closed for good
	cuts    cuts          // of the connection
	out     *outlet

	mu     sync.Mutex
	all    []*Slot // guarded by mu; by index
	free   []*Slot // guarded by mu
	closed bool    // guarded by mu
}

// Slot waits for one acknowledgement at a time. Its generation is part of the reply subject, so an
// answer that comes too late is dropped.
//
// A new reply subject costs the server several microseconds: it looks up the subscribers, and
// evicts another subject from its cache. So the next message reuses the reply subject if its answer
// cannot be mistaken: if the last message was stored, on the same stream as those before. If the
// server repeats the old answer, its sequence shows that: later messages have higher ones. But a
// stream that was deleted and made again counts from 1 again, and its first answers look like old
// ones. So if no further answer follows within [doubtFor], the outcome is unknown, and later
// messages get new reply subjects.
type Slot struct {
	index int
	done  chan ack

	// guarded by Publisher.mu
	generation uint64
	reply      string    // reply subject of this generation; "" before the first
	sent       time.Time // zero if free
	subject    string    // of the message in flight
	stream     string    // the stream that stored this generation's last message; "" for none
	seq        uint64    // its sequence there
	again      bool      // the next message reuses the generation
	doubt      time.Time // when an answer came that looked like an old one; zero if none did
}

// ticket is the right to a slot for one message. Its holder may come too late: the waiter has left,
// and the slot serves another message.
type ticket struct {
	slot       *Slot
	generation uint64
	reply      string
}

// ack is the server's answer to a message.
type ack struct {
	seq uint64
	err error
	// stream is the stream that stored it; nil if the answer says more than stream and sequence.
	stream []byte
}

// NewPublisher returns a publisher that waits for each acknowledgement at most timeout. The caller closes
// it.
func NewPublisher(nc *nats.Conn, timeout time.Duration) (*Publisher, error) {
	conns := func() uint64 { return nc.Stats().Reconnects }
	p := &Publisher{
		nc:      nc,
		cuts:    cuts{conns: conns},
		prefix:  nc.NewInbox() + ".",
		timeout: timeout,
		quit:    make(chan struct{}),
		done:    make(chan struct{}),
		gone:    make(chan struct{}),
	}
	sub, err := nc.Subscribe(p.prefix+"*", p.receive)
	if err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	// Acknowledgements are small and there is at most one per slot.
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, err
	}
	p.sub = sub
	p.out = newOutlet(nc, p.refuse)
	go p.out.run()
	// From here on, for a goroutine may begin to listen only after the first message was lost.
	go p.expire(nc.StatusChanged(nats.RECONNECTING, nats.CONNECTED, nats.CLOSED))
	return p, nil
}

// Close sends what has not left yet, and ends all waits.
func (p *Publisher) Close() {
	p.out.close()
	close(p.quit)
	<-p.done
	_ = p.sub.Unsubscribe() // the connection may be gone already
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.giveUp(time.Now(), errClosed)
	p.cuts.end()
}

// Publish sends a message, together with concurrent ones of other callers, and waits for its
// acknowledgement. If none comes, the error wraps [events.ErrUnknown]. When Publish returns, the
// message belongs to the caller again.
func (p *Publisher) Publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	t, err := p.reserve(m.Subject)
	if err != nil {
		return 0, err
	}
	m.Reply = t.reply
	p.out.put(parcel{m: m, ticket: t})
	seq, err := p.wait(ctx, t.slot)
	if errors.Is(err, events.ErrUnknown) { // it may not even have left
		p.out.recall(m)
	}
	return seq, err
}

// Post sends a message that is not answered, together with concurrent ones. An error means that the
// store or its connection is closed.
func (p *Publisher) Post(subject string, body []byte) error {
	select {
	case <-p.quit:
		return errClosed
	default:
	}
	if p.nc.IsClosed() {
		return fmt.Errorf("publish to %s: %w", subject, request.Gone(p.nc))
	}
	p.out.put(parcel{subject: subject, body: body})
	return nil
}

// refuse tells the waiting caller that its message could not be sent.
func (p *Publisher) refuse(one parcel, err error) {
	if one.m == nil {
		return // no caller waits
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer(one.ticket, ack{err: p.refused(one.m, err)})
}

// send sends a message at once without waiting; the caller then calls wait.
func (p *Publisher) send(m *nats.Msg) (*Slot, error) {
	t, err := p.reserve(m.Subject)
	if err != nil {
		return nil, err
	}
	if err := p.sendTo(t, m); err != nil {
		p.release(t.slot)
		return nil, err
	}
	return t.slot, nil
}

// reserve takes a free slot for a message to a subject; the caller releases it.
func (p *Publisher) reserve(subject string) (ticket, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ticket{}, errClosed
	}
	var s *Slot
	if n := len(p.free); n > 0 {
		s, p.free = p.free[n-1], p.free[:n-1]
	} else {
		s = &Slot{index: len(p.all), done: make(chan ack, 1)}
		p.all = append(p.all, s)
	}
	if s.reply == "" {
		s.reply = p.reply(s)
	}
	s.sent, s.subject = time.Now(), subject
	return ticket{s, s.generation, s.reply}, nil
}

// sendTo publishes a message whose acknowledgement goes to a slot.
func (p *Publisher) sendTo(t ticket, m *nats.Msg) error {
	m.Reply = t.reply
	if err := p.nc.PublishMsg(m); err != nil {
		return p.refused(m, err)
	}
	return nil
}

// reply returns the reply subject of a slot's current generation.
func (p *Publisher) reply(s *Slot) string {
	var buf [64]byte
	reply := append(buf[:0], p.prefix...)
	reply = strconv.AppendInt(reply, int64(s.index), 36)
	reply = append(reply, '-')
	reply = strconv.AppendUint(reply, s.generation, 36)
	return string(reply)
}

// refused explains why the client library does not take a message.
func (p *Publisher) refused(m *nats.Msg, err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("%w: the server takes at most %d bytes", events.ErrTooLarge, p.nc.MaxPayload())
	}
	if p.nc.IsClosed() {
		err = request.Gone(p.nc)
	}
	return fmt.Errorf("publish to %s: %w", m.Subject, err)
}

func (p *Publisher) wait(ctx context.Context, s *Slot) (uint64, error) {
	select {
	case a := <-s.done:
		p.release(s)
		return a.seq, a.err
	case <-ctx.Done():
		p.release(s)
		return 0, fmt.Errorf("%w: %w", events.ErrUnknown, context.Cause(ctx))
	}
}

// Oldest is for how long the oldest message in flight has waited for its acknowledgement; 0 if none
// is in flight.
func (p *Publisher) Oldest() (waited time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		if !s.sent.IsZero() {
			waited = max(waited, time.Since(s.sent))
		}
	}
	return waited
}

func (p *Publisher) release(s *Slot) {
	p.mu.Lock()
	if !s.again { // a later answer comes too late
		s.generation++
		s.reply, s.stream, s.seq = "", "", 0
	}
	s.sent, s.doubt, s.again = time.Time{}, time.Time{}, false
	select {
	case <-s.done: // answered after the waiter had left
	default:
	}
	p.free = append(p.free, s)
	p.mu.Unlock()
}

// receive passes an acknowledgement to its waiter.
func (p *Publisher) receive(m *nats.Msg) {
	index, generation, ok := parseToken(m.Subject[len(p.prefix):])
	if !ok {
		return
	}
	a := parseAck(m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if index < len(p.all) {
		p.answer(ticket{slot: p.all[index], generation: generation}, a)
	}
}

// answer is called with mu held.
func (p *Publisher) answer(t ticket, a ack) {
	s := t.slot
	if s.generation != t.generation || s.sent.IsZero() {
		return // too late
	}
	again := a.stream != nil
	switch {
	case !again:
	case s.stream == "":
		s.stream = string(a.stream)
	case s.stream != string(a.stream):
		again = false // its sequences cannot be compared
	case a.seq <= s.seq:
		if s.doubt.IsZero() {
			s.doubt = time.Now()
			p.forget(s.stream)
		}
		return
	}
	s.again, s.seq, a.stream = again, a.seq, nil
	select {
	case s.done <- a:
	default: // one answer is enough
	}
}

// forget gives all later messages new reply subjects: the stream may be another one. It is called
// with mu held.
func (p *Publisher) forget(stream string) {
	for _, s := range p.free {
		if s.stream == stream {
			s.generation++
			s.reply, s.stream, s.seq = "", "", 0
		}
	}
}

func parseToken(token string) (int, uint64, bool) {
	a, b, ok := strings.Cut(token, "-")
	index, err1 := strconv.ParseUint(a, 36, 31)
	generation, err2 := strconv.ParseUint(b, 36, 64)
	return int(index), generation, ok && err1 == nil && err2 == nil
}

// Gone implements [request.Publisher]. It is also closed if Close finds the connection closed.
func (p *Publisher) Gone() <-chan struct{} { return p.gone }

// expire ends the wait for acknowledgements that do not come: those that take too long, and at once
// those that were lost with a connection.
func (p *Publisher) expire(status chan nats.Status) {
	defer close(p.done)
	defer p.nc.RemoveStatusListener(status)
	ticker := time.NewTicker(p.timeout / 16)
	defer ticker.Stop()
	late := fmt.Errorf("waited for %v", p.timeout)
	var lost time.Time // when the connection was lost
	for {
		select {
		case <-p.quit:
			if p.nc.IsClosed() {
				p.cutOff()
			}
			return
		case now := <-ticker.C:
			p.giveUp(now.Add(-p.timeout), late)
			p.giveUpDoubts(now.Add(-doubtFor))
		case s := <-status:
			switch s {
			case nats.RECONNECTING:
				lost = time.Now()
				continue
			case nats.CLOSED:
				p.cutOff()
				continue
			}
			// Messages sent since then go out now and will be answered.
			p.giveUp(lost, errLost)
			p.cuts.look()
		}
	}
}

// cutOff ends all waits: the connection is closed for good. It may be called again.
func (p *Publisher) cutOff() {
	select {
	case <-p.gone:
	default:
		close(p.gone)
	}
	p.giveUp(time.Now(), request.Gone(p.nc))
	p.cuts.end()
}

// giveUp ends the wait for unanswered messages that were sent before a time.
func (p *Publisher) giveUp(before time.Time, why error) {
	p.answerAll(fmt.Errorf("%w: %w", events.ErrUnknown, why), func(s *Slot) bool { return s.sent.Before(before) })
}

// giveUpDoubts ends the wait of slots whose only answer came before a time and looked like an old
// one.
func (p *Publisher) giveUpDoubts(before time.Time) {
	p.answerAll(fmt.Errorf("%w: %w", events.ErrUnknown, errOld), func(s *Slot) bool { return !s.doubt.IsZero() && s.doubt.Before(before) })
}

// Deny answers callers that wait for a message to a subject, or all if that is "", and tells
// whether there were any.
func (p *Publisher) Deny(subject string, why error) (told bool) {
	return p.answerAll(fmt.Errorf("nothing was stored: %w", why), func(s *Slot) bool { return s.subject == subject || subject == "" })
}

// answerAll answers the callers of some of the messages that are on their way with an error, and
// tells whether there were any.
func (p *Publisher) answerAll(err error, which func(*Slot) bool) (told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.all {
		if !s.sent.IsZero() && which(s) {
			p.answer(ticket{slot: s, generation: s.generation}, ack{err: err})
			told = true
		}
	}
	return told
}

// Answer decodes the server's answer to a publish: the sequence at which it stored the message.
func Answer(m *nats.Msg) (uint64, error) {
	a := parseAck(m)
	return a.seq, a.err
}

// parseAck decodes the server's answer to a publish.
func parseAck(m *nats.Msg) ack {
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		return ack{err: events.ErrNoStream}
	}
	if stream, seq, ok := plainAck(m.Data); ok {
		return ack{seq: seq, stream: stream}
	}
	var answer struct {
		Seq       uint64               `json:"seq"`
		Duplicate bool                 `json:"duplicate"`
		Error     *request.ServerError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return ack{err: fmt.Errorf("%w: the server's answer to a publish cannot be read: %w", events.ErrUnknown, value.Plainly(err))}
	}
	if answer.Error != nil {
		return ack{err: answer.Error}
	}
	if answer.Duplicate {
		return ack{seq: answer.Seq, err: request.ErrDuplicate}
	}
	return ack{seq: answer.Seq}
}

// plainAck decodes the plain answer {"stream":"X","seq":N}, which nearly all have. Any other form
// is left to the JSON decoder.
func plainAck(data []byte) (stream []byte, seq uint64, ok bool) {
	const before, between = `{"stream":"`, `","seq":`
	if !bytes.HasPrefix(data, []byte(before)) || data[len(data)-1] != '}' {
		return nil, 0, false
	}
	name := bytes.IndexByte(data[len(before):], '"')
	if name < 0 || !bytes.HasPrefix(data[len(before)+name:], []byte(between)) {
		return nil, 0, false
	}
	digits := data[len(before)+name+len(between) : len(data)-1]
	for _, c := range digits {
		if c < '0' || c > '9' {
			return nil, 0, false
		}
		seq = seq*10 + uint64(c-'0')
	}
	return data[len(before) : len(before)+name], seq, len(digits) > 0
}

// Cut implements [request.Publisher].
func (p *Publisher) Cut() context.Context { return p.cuts.next() }

// cuts tells callers that wait for an answer that the connection was lost and is back: the request
// or its answer went with it, and the caller must ask again. A caller that has asked on the
// connection that is back is told nothing, however late the publisher hears of that connection.
type cuts struct {
	conns func() uint64 // counts the connections; a new one counts before anything arrives on it

	mu     sync.Mutex
	ctx    context.Context // guarded by mu; ends with the next cut, nil if no caller waits
	cancel context.CancelFunc
	conn   uint64 // guarded by mu; the connection of those callers
}

// next returns a context that ends with the next cut.
func (c *cuts) next() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.conns()
	if c.conn != now {
		c.stop()
	}
	if c.ctx == nil {
		c.ctx, c.cancel = context.WithCancel(context.Background())
		c.conn = now
	}
	return c.ctx
}

// look ends the waits on earlier connections.
func (c *cuts) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn != c.conns() {
		c.stop()
	}
}

// end ends all waits.
func (c *cuts) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stop()
}

// stop ends all waits. The caller holds mu.
func (c *cuts) stop() {
	if c.ctx != nil {
		c.cancel()
		c.ctx = nil
	}
}
