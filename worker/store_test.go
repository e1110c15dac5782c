package worker_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/node"
	"millrace/task/output"
	"millrace/worker"
)

const ackWait = 12 * time.Second

var errBroken = errors.New("broken on purpose")

// store is one node's access to a log that all nodes of a test share. It keeps what the worker
// stored and fails on request.
type store struct {
	*events.Memory

	mu         sync.Mutex
	beats      []beat                          // guarded by mu
	forgotten  int                             // guarded by mu
	hints      map[node.ID]func(task.ID)       // guarded by mu
	printed    []printed                       // guarded by mu
	kept       []output.Records                // guarded by mu
	deliveries int                             // guarded by mu
	acks       int                             // guarded by mu
	extend     func(ctx context.Context) error // guarded by mu; nil if extending works
	extended   time.Time                       // guarded by mu; when a lease was last extended
	beating    func() error                    // guarded by mu; nil if heartbeats are stored
	keep       func(r output.Records) error    // guarded by mu; nil if keeping works
	print      func(context.Context) error     // guarded by mu; nil if printing works at once
	prove      func(context.Context) error     // guarded by mu; nil if proofs come through at once
	proofs     int                             // guarded by mu
	also       func([]string) error            // guarded by mu; nil if all routes can be served
	trouble    error                           // guarded by mu
	from       []uint64                        // guarded by mu; the sequence behind which each reading of a node began
	lives      []output.Live                   // guarded by mu
	checkpoint output.Checkpoint               // guarded by mu
	apart      map[string][]byte               // guarded by mu; results of steps
	unread     error                           // guarded by mu; nil if a checkpoint can be read
	cut        bool                            // guarded by mu; the node is cut off
	mute       bool                            // guarded by mu; writes get no answer
	deaf       bool                            // guarded by mu; nothing does
	broken     chan events.Break
	lease      time.Duration // of the log; 0 for ackWait
}

type beat struct {
	node.Heartbeat
	at  time.Time
	ttl time.Duration
}

type printed struct {
	output.Lines
	at    time.Time
	facts int // how many facts the task had when the lines were stored
}

// ports are those of a worker on a store.
func (s *store) ports() worker.Ports { return worker.Ports{Log: s, Offers: s, Nodes: s, Outputs: s} }

// tokens are the leases that were asked for their token, by that.
var tokens sync.Map

func (l *lease) Token() string {
	token := fmt.Sprintf("%p", l)
	tokens.Store(token, l)
	return token
}

func (s *store) Resume(token string) events.Lease {
	l, _ := tokens.Load(token)
	return &lease{l.(*lease).Lease, s}
}

func (s *store) Told(ctx context.Context, _ task.ID, _ uint64) (output.Told, error) {
	return output.Told{}, s.reach(ctx)
}

func newStore(m *events.Memory) *store {
	return &store{Memory: m, hints: map[node.ID]func(task.ID){}, broken: make(chan events.Break, 1)}
}

func (s *store) AckWait() time.Duration { return cmp.Or(s.lease, ackWait) }

// reach fails while the node is cut off: at once, as if it knew. While the log is deaf, it waits as the
// adapter does.
func (s *store) reach(ctx context.Context) error {
	if get(s, &s.deaf) {
		try, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		<-try.Done()
		return try.Err()
	}
	if get(s, &s.cut) {
		return errBroken
	}
	return nil
}

// answer fails when ctx ends, while writes get no answer.
func (s *store) answer(ctx context.Context) error {
	if !get(s, &s.mute) && !get(s, &s.deaf) {
		return nil
	}
	try, cancel := context.WithTimeout(ctx, 8*time.Second) // as the adapter waits
	defer cancel()
	<-try.Done()
	return events.ErrUnknown
}

func (s *store) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	if err := s.answer(ctx); err != nil {
		return 0, err
	}
	if err := s.reach(ctx); err != nil {
		return 0, err
	}
	return s.Memory.Append(ctx, f, last)
}

func (s *store) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Task(ctx, id)
}

func (s *store) Beginning(ctx context.Context, id task.ID, to uint64) ([]events.Record, error) {
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Beginning(ctx, id, to)
}

func (s *store) Node(ctx context.Context, id node.ID, from uint64) ([]events.Record, error) {
	s.mu.Lock()
	s.from = append(s.from, from)
	s.mu.Unlock()
	if err := s.reach(ctx); err != nil {
		return nil, err
	}
	return s.Memory.Node(ctx, id, from)
}

func (s *store) Beat(ctx context.Context, id node.ID, h node.Heartbeat, ttl time.Duration) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	if err := s.reach(ctx); err != nil {
		return err
	}
	if beating := get(s, &s.beating); beating != nil {
		if err := beating(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.beats = append(s.beats, beat{h, time.Now(), ttl})
	return s.Memory.Beat(ctx, id, h, ttl)
}

// Alive lists a heartbeat of every registered node.
func (s *store) Alive(ctx context.Context) (map[node.ID]node.Heartbeat, error) {
	alive := map[node.ID]node.Heartbeat{}
	for _, r := range s.All() {
		if e, ok := r.Fact.Event.(node.Registered); ok {
			alive[r.Fact.Node] = node.Heartbeat{Session: e.Session}
		}
	}
	return alive, s.reach(ctx)
}

func (s *store) Pulse(ctx context.Context, id node.ID) (node.Pulse, error) {
	if err := s.reach(ctx); err != nil {
		return node.Pulse{}, err
	}
	return s.Memory.Pulse(ctx, id)
}

func (s *store) Forget(ctx context.Context, id node.ID) error {
	if err := s.answer(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgotten++
	return s.Memory.Forget(ctx, id)
}

func (s *store) OnHint(id node.ID, look func(task.ID)) (func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hints[id] = look
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hints, id)
	}, nil
}

func (s *store) OnPing(node.ID, func() node.Pong) (func(), error) { return func() {}, nil }

// Hint reaches only the node of this store.
func (s *store) Hint(id node.ID, about task.ID) error {
	s.mu.Lock()
	look := s.hints[id]
	s.mu.Unlock()
	if look != nil {
		look(about)
	}
	return nil
}

func (s *store) Print(ctx context.Context, l output.Lines) error {
	if s.reach(ctx) != nil {
		return events.ErrUnknown
	}
	if print := get(s, &s.print); print != nil {
		if err := print(ctx); err != nil {
			return err
		}
	}
	records, err := s.Memory.Task(ctx, l.Task)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.printed = append(s.printed, printed{l, time.Now(), len(records)})
	return nil
}

// rans holds where tasks last ran, by log and name.
var rans sync.Map

type ranKey struct {
	log  *events.Memory
	name string
}

func (s *store) Ran(ctx context.Context, name string) (duties.Ran, error) {
	r, _ := rans.Load(ranKey{s.Memory, name})
	ran, _ := r.(duties.Ran)
	return ran, s.reach(ctx)
}

func (s *store) SaveRan(ctx context.Context, r duties.Ran) error {
	rans.Store(ranKey{s.Memory, r.Name}, r)
	return s.reach(ctx)
}

func (s *store) SaveLive(ctx context.Context, l output.Live) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lives = append(s.lives, l)
	return nil
}

func (s *store) SaveStep(ctx context.Context, id task.ID, digest string, result []byte) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.apart == nil {
		s.apart = map[string][]byte{}
	}
	s.apart[string(id)+digest] = result
	return nil
}

func (s *store) StepResult(ctx context.Context, id task.ID, digest string, _ int) ([]byte, error) {
	return get(s, &s.apart)[string(id)+digest], s.reach(ctx)
}

func (s *store) SaveCheckpoint(ctx context.Context, c output.Checkpoint) error {
	if err := s.reach(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.Follows(&s.checkpoint) {
		return task.ErrFenced
	}
	s.checkpoint = c
	return nil
}

func (s *store) Checkpoint(ctx context.Context, _ task.ID) (output.Checkpoint, error) {
	return get(s, &s.checkpoint), errors.Join(get(s, &s.unread), s.reach(ctx))
}

func (s *store) Keep(ctx context.Context, r output.Records) error {
	if s.reach(ctx) != nil {
		return events.ErrUnknown
	}
	if keep := get(s, &s.keep); keep != nil {
		if err := keep(r); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, r)
	return nil
}

// lines are the texts that were stored, in the order of their numbers, which
// must be without gaps.
func (s *store) lines() ([]string, error) {
	var texts []string
	for _, p := range get(s, &s.printed) {
		for _, l := range p.Lines.Lines {
			if l.N != len(texts)+1 {
				return texts, fmt.Errorf("line %q has number %d, want %d", l.Text, l.N, len(texts)+1)
			}
			texts = append(texts, l.Text)
		}
	}
	return texts, nil
}

// Offers hands out the log's offers under leases that can be counted and broken.
func (s *store) Offers(ctx context.Context, queues []string) (events.Offers, error) {
	o, err := s.Memory.Offers(ctx, queues)
	return &offers{o, s}, err
}

type offers struct {
	events.Offers
	s *store
}

func (o *offers) Next(ctx context.Context) (*events.Offer, error) {
	offer, err := o.Offers.Next(ctx)
	if err != nil {
		return nil, err
	}
	if o.s.reach(ctx) != nil { // an offer on its way to a node that is cut off goes to another
		_ = offer.Return()
		return nil, errBroken
	}
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	o.s.deliveries++
	offer.Lease = &lease{offer.Lease, o.s}
	return offer, nil
}

func (o *offers) Prove(ctx context.Context) error {
	if err := o.s.reach(ctx); err != nil {
		return err
	}
	if prove := get(o.s, &o.s.prove); prove != nil {
		if err := prove(ctx); err != nil {
			return err
		}
	}
	o.s.mu.Lock()
	o.s.proofs++
	o.s.mu.Unlock()
	return o.Offers.Prove(ctx)
}

func (o *offers) Also(ctx context.Context, routes []string) error {
	if err := o.s.reach(ctx); err != nil {
		return err
	}
	if also := get(o.s, &o.s.also); also != nil {
		if err := also(routes); err != nil {
			return err
		}
	}
	return o.Offers.Also(ctx, routes)
}

func (o *offers) Trouble() error { return get(o.s, &o.s.trouble) }

func (o *offers) Broken() <-chan events.Break { return o.s.broken }

type lease struct {
	events.Lease
	s *store
}

func (l *lease) Ack() error {
	l.s.mu.Lock()
	l.s.acks++
	l.s.mu.Unlock()
	return l.Lease.Ack()
}

func (l *lease) Extend(ctx context.Context) error {
	if err := l.s.reach(ctx); err != nil {
		return err
	}
	if extend := get(l.s, &l.s.extend); extend != nil {
		if err := extend(ctx); err != nil {
			return err
		}
	}
	l.s.mu.Lock()
	l.s.extended = time.Now()
	l.s.mu.Unlock()
	return l.Lease.Extend(ctx)
}

// get reads a field of a store. Its slices only grow, so theirs need no copy.
func get[T any](s *store, field *T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *field
}
