package jet

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/pubsub"
	"millrace/events/jet/request"
	"millrace/task/value"
)

// How a feed reads. It asks for as many messages as the server reports, and if there are none, for
// the next one. So a reader that reads rarely and much costs far less than one that gets one
// delivery after the other.
const (
	feedWindow = 8192 // messages asked for at once
	feedPart   = 512  // of those, how many are worth looking at before all are there
	// feedBytes is how many bytes are asked for at once. Every byte is in memory twice, received
	// and decoded, and the server closes a connection with too much in flight. It holds several of
	// the largest messages.
	feedBytes = 16 << 20
	// feedPatience is how long to wait for a message that the server counted; it may have been
	// removed since.
	feedPatience = 20 * time.Millisecond
	// feedCautious is how many messages are asked for after one that ended its request, when others
	// of that kind may follow: see [pubsub.Bare].
	feedCautious = 64
)

// Follow implements [events.Follower]. It reads through an ephemeral consumer of its own, in the
// memory of one server; if that is lost, the feed makes another one at the place where it stopped.
func (s *Store) Follow(ctx context.Context, from uint64) (events.Feed, error) {
	f := &feed{store: s, next: max(from, 1), arrived: make(chan struct{}, 1), most: max(feedBytes, 4*int(s.NC.MaxPayload()))}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	return f, nil
}

// feed is the log from a sequence on.
type feed struct {
	store    *Store
	consumer string
	pull     *pubsub.Puller
	next     uint64 // the lowest sequence that Next may return
	most     int    // most bytes asked for at once
	window   int    // most messages asked for at once; 0 before the feed was opened

	arrived chan struct{} // it is time to look at buffer and lost

	mu     sync.Mutex
	buffer []*nats.Msg // guarded by mu
	spare  []*nats.Msg // guarded by mu; the buffer that was read before
	asked  int         // guarded by mu; messages asked for that have not come
	awake  bool        // guarded by mu; the next message wakes the reader
	taken  uint64      // guarded by mu; how many messages the consumer has delivered
	lost   bool        // guarded by mu; the consumer must be made again
	bare   bool        // guarded by mu; the last message may have ended its request

	created  time.Time // when the stream was created; zero before the feed was opened
	last     place     // of the last message read, or that was the last when the feed was opened
	seen     uint64    // consumer sequence of the last message read
	pending  uint64    // how many lay behind that
	broken   bool      // the consumer must be made again before anything else
	foreign  error     // why, if somebody has changed it
	awaited  uint64    // what the log had behind the last message read when that was last looked at
	bodyless []uint64  // messages of the last batch that came without the body that they had
	ended    bool      // the consumer is there, and would be left over
	records  []events.Record
	bytes    int // size of the records
}

func (f *feed) open(ctx context.Context) error {
	cfg := jetstream.ConsumerConfig{
		// Who knows the name can change the consumer. The client library's names follow from others of the
		// process, which it sends around.
		Name: rand.Text(), Description: "Millrace: reads the log in order",
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: f.next,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1,
		InactiveThreshold: time.Minute, MaxWaiting: 64,
	}
	if err := f.same(ctx); err != nil {
		return err
	}
	c, err := f.store.log.CreateConsumer(ctx, cfg)
	if err != nil {
		return fmt.Errorf("follow the log from %d: %w", f.next, err)
	}
	f.consumer = c.CachedInfo().Name
	f.mu.Lock()
	f.window = cmp.Or(f.window, feedWindow)
	f.buffer, f.asked, f.awake, f.taken, f.lost, f.bare = nil, 0, false, 0, false, false
	f.mu.Unlock()
	f.seen, f.pending, f.broken, f.awaited = 0, c.CachedInfo().NumPending, false, 0
	pull, err := pubsub.NewPuller(f.store.NC, names.LogStream, f.consumer, pubsub.ReaderPace, 1, f.take, func(context.Context) { f.fail() })
	if err != nil {
		return err
	}
	pull.Idle, pull.Most, pull.Cut = f.idle, f.most, f.cut
	f.pull = pull
	f.ask()
	return nil
}

// errAnotherLog: the log is not the one that was read before.
var errAnotherLog = errors.New("the log is another one than before")

// place is a sequence of the log, and when its message was stored: by these, a log that has lost its
// last messages differs from the one before, whatever has been stored since.
type place struct {
	seq    uint64
	stored time.Time
}

// isAt tells whether the log still has what it had at a place. A message that was removed since
// says nothing.
func (s *Store) isAt(ctx context.Context, was place) (bool, error) {
	if was.seq == 0 {
		return true, nil
	}
	end, err := s.End(ctx)
	if err != nil || end < was.seq {
		return false, err
	}
	m, found, err := s.Message(ctx, was.seq)
	return !found || m.Stored.Equal(was.stored), err
}

// same checks that the stream is still the one that was read before.
func (f *feed) same(ctx context.Context) error {
	stream, err := f.store.JS.Stream(ctx, names.LogStream)
	if err != nil {
		return fmt.Errorf("follow the log from %d: %w", f.next, err)
	}
	info := stream.CachedInfo()
	switch {
	case f.created.IsZero():
		f.created, f.last = info.Created, place{info.State.LastSeq, info.State.LastTime}
		return nil
	case !f.created.Equal(info.Created):
		return fmt.Errorf("%w: its stream was deleted and made again", errAnotherLog)
	}
	is, err := f.store.isAt(ctx, f.last)
	if err == nil && !is {
		err = fmt.Errorf("%w: it has lost its messages from %d on, or some before", errAnotherLog, f.last.seq)
	}
	return err
}

// ask asks for the messages that exist, or else for the next one.
func (f *feed) ask() {
	f.mu.Lock()
	missing := int(min(max(f.pending, 1), uint64(f.window))) - f.asked
	f.asked += missing
	f.window = min(2*f.window, feedWindow)
	f.mu.Unlock()
	f.pull.Want(missing)
}

func (f *feed) take(m *nats.Msg) bool {
	f.mu.Lock()
	f.buffer = append(f.buffer, m)
	f.taken++
	f.asked--
	f.bare = pubsub.Bare(m)
	look := f.asked <= 0 || len(f.buffer) == feedPart || f.awake
	f.mu.Unlock()
	if look {
		f.notify()
	}
	return true
}

// cut withdraws what did not fit into the bytes of a request: it is asked for when the rest has
// been read.
func (f *feed) cut(left int) {
	f.mu.Lock()
	f.asked -= left
	f.mu.Unlock()
	f.notify()
}

// idle detects the loss of a message that no other message follows.
func (f *feed) idle(sent uint64) {
	f.mu.Lock()
	missing := sent > f.taken
	f.mu.Unlock()
	if missing {
		f.fail()
	}
}

func (f *feed) fail() {
	f.mu.Lock()
	f.lost = true
	f.mu.Unlock()
	f.notify()
}

func (f *feed) notify() {
	signal(f.arrived)
}

// Next implements [events.Feed]. It returns when it has everything that exists, or a large part of
// it.
func (f *feed) Next(ctx context.Context) ([]events.Record, error) {
	clear(f.records)
	f.records, f.bytes = f.records[:0], 0
	for {
		if f.broken {
			if err := f.foreign; err != nil {
				f.foreign = nil
				return nil, err
			}
			if err := f.reopen(ctx); err != nil {
				return nil, err
			}
		}
		batch, left, lost, err := f.wait(ctx)
		if err != nil {
			if len(f.records) > 0 {
				return f.records, nil // the next call says why there are no more
			}
			return nil, err
		}
		read, next, last := len(f.records), f.next, f.last
		f.broken = !f.read(batch) || lost
		if f.overlooked(ctx, next, f.records[read:]) { // all of it will come again
			f.records, f.next, f.last = f.records[:read], next, last
			f.suspect(ctx)
		}
		if !f.broken && left <= 0 {
			enough := f.pending == 0 || len(f.records) >= feedWindow || f.bytes >= f.most/2
			f.ask() // so that the answer is there at the next call
			if !enough {
				continue
			}
		}
		if len(f.records) > 0 && (left <= 0 || f.pending == 0 || len(batch) == 0 || f.broken) {
			return f.records, nil
		}
	}
}

// wait returns what has come, and how much of what was asked for has not.
func (f *feed) wait(ctx context.Context) (batch []*nats.Msg, left int, lost bool, err error) {
	patience, look := time.NewTimer(feedPatience), time.NewTicker(checkEvery)
	defer patience.Stop()
	defer look.Stop()
	for quiet := false; ; {
		withheld := false
		select {
		case <-ctx.Done():
			return nil, 0, false, ctx.Err()
		case <-f.arrived:
		case <-patience.C:
			quiet = true
		case <-look.C:
			withheld = f.withheld(ctx)
		}
		f.mu.Lock()
		batch, left, lost = f.buffer, f.asked, f.lost
		if quiet && f.bare && len(batch) == 0 && f.pending > 0 { // the server has sent it elsewhere
			lost, f.ended, f.window = true, true, feedCautious
		}
		f.awake = len(batch) == 0
		if withheld = withheld && f.awake; withheld {
			f.mu.Unlock()
			f.suspect(ctx)
			return nil, left, true, nil
		}
		if !f.awake || lost || len(f.records) > 0 {
			f.buffer, f.spare = f.spare[:0], batch
			f.mu.Unlock()
			return batch, left, lost, nil
		}
		f.mu.Unlock()
	}
}

// read decodes messages into records, and tells whether none is missing.
func (f *feed) read(batch []*nats.Msg) bool {
	f.bodyless = f.bodyless[:0]
	for i, m := range batch {
		f.records = append(f.records, events.Record{})
		n := len(f.records) - 1
		r := &f.records[n]
		d, ok := request.From(r, m)
		f.bytes += len(m.Data)
		batch[i] = nil
		if !ok {
			f.records = f.records[:n]
			continue
		}
		if d.ConsumerSeq != f.seen+1 {
			f.records = f.records[:n]
			return false
		}
		f.seen, f.pending = d.ConsumerSeq, d.Pending
		if r.Seq < f.next {
			f.records = f.records[:n]
			continue
		}
		if len(m.Data) == 0 && m.Header.Get(sizeHeader) != "" {
			f.bodyless = append(f.bodyless, r.Seq)
		}
		f.next = r.Seq + 1
		f.last = place{r.Seq, r.Stored}
	}
	return true
}

// A worker may change each consumer of the log whose name it knows: it then takes other messages, gives none out,
// or leaves out their bodies. The reader trusts its consumer as far as the log itself says the same.

// sizeHeader is what the server adds to a message whose body a consumer leaves out.
const sizeHeader = "Nats-Msg-Size"

// mostGaps is how many gaps of a batch are looked at, its last ones: a consumer that was changed leaves gaps
// until its end. A reader that has caught up meets hardly any, for what is removed from the log is old.
const mostGaps = 4

// overlooked tells whether the consumer has passed over what the log has, between records of a batch, of which
// the first may have a sequence, or has left out bodies.
func (f *feed) overlooked(ctx context.Context, first uint64, records []events.Record) bool {
	for _, seq := range f.bodyless[max(len(f.bodyless)-mostGaps, 0):] {
		if m, found, err := f.store.Message(ctx, seq); err == nil && found && len(m.Raw) > 0 {
			return true
		}
	}
	for i, gaps := len(records)-1, 0; i >= 0 && gaps < mostGaps; i-- {
		from := first
		if i > 0 {
			from = records[i-1].Seq + 1
		}
		if records[i].Seq > from {
			gaps++
			if at := f.stored(ctx, from); at > 0 && at < records[i].Seq {
				return true
			}
		}
	}
	return false
}

// withheld tells whether the consumer has not given out what the log had already when this was last asked.
func (f *feed) withheld(ctx context.Context) bool {
	was := f.awaited
	f.awaited = f.stored(ctx, f.next)
	return f.awaited > 0 && f.awaited == was
}

// stored returns the first sequence from from on that the log has; 0 if it has none, or does not answer.
func (f *feed) stored(ctx context.Context, from uint64) uint64 {
	r, _, err := f.store.LeaderGet(ctx, map[string]any{"seq": from, "next_by_subj": ">"})
	if err != nil {
		return 0
	}
	return r.Seq
}

// suspect has the consumer replaced. If somebody has changed it, Next says so.
func (f *feed) suspect(ctx context.Context) {
	f.broken, f.ended = true, true
	c, err := f.store.JS.Consumer(ctx, names.LogStream, f.consumer)
	if err != nil {
		return
	}
	is := c.CachedInfo()
	filters, how := is.Config.FilterSubjects, ""
	if is.Config.FilterSubject != "" {
		filters = append(filters, is.Config.FilterSubject)
	}
	switch {
	case len(filters) > 0:
		how = "it takes only " + value.List(filters)
	case is.Paused:
		how = "it is paused"
	case is.Config.HeadersOnly:
		how = "it leaves out bodies"
	default:
		return
	}
	f.foreign = fmt.Errorf("somebody has changed the consumer by which this process reads the log: %s; take their credentials away; another one reads on from %d", how, f.next)
}

func (f *feed) reopen(ctx context.Context) error {
	if f.pull != nil { // nil before the feed was opened
		f.pull.Close()
	}
	if f.ended {
		f.drop(ctx)
		f.ended = false
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		opening, cancel := f.store.Within(ctx, request.ReadTimeout)
		err := f.open(opening)
		cancel()
		if err == nil || ctx.Err() != nil || errors.Is(err, errAnotherLog) {
			return err
		}
		if gone := f.store.WhyGone(); gone != nil {
			return gone
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// Close implements [events.Feed].
func (f *feed) Close() {
	if f.pull == nil {
		return
	}
	f.pull.Close()
	f.drop(context.Background())
}

// drop removes the consumer. If that fails, the server removes it after a minute.
func (f *feed) drop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, request.ReadTry)
	defer cancel()
	_ = f.store.log.DeleteConsumer(ctx, f.consumer)
}
