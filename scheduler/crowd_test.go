package scheduler

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/node"
)

// peers are schedulers of one process that never announce their end.
type peers struct {
	mu    sync.Mutex
	heard map[int]func(string, bool)
}

func (p *peers) Meet(heard func(string, bool)) (func(), error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard == nil {
		p.heard = map[int]func(string, bool){}
	}
	n := len(p.heard)
	p.heard[n] = heard
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.heard[n] = func(string, bool) {}
	}, nil
}

func (p *peers) Say(name string, here bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, heard := range p.heard {
		if here {
			heard(name, here)
		}
	}
	return nil
}

// counted is a log that counts the requests of schedulers.
type counted struct {
	*events.Memory
	mu   sync.Mutex
	n    counts // guarded by mu
	mute bool   // guarded by mu; offers of admitted tasks are lost
}

// counts are the reads of the log, the reads of children's ends from the read model, and the
// written facts, including refused ones.
type counts struct{ reads, looks, writes, refused int }

func (c counts) less(before counts) counts {
	return counts{c.reads - before.reads, c.looks - before.looks, c.writes - before.writes, c.refused - before.refused}
}

func (c *counted) counts() counts {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counted) read() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.reads++
}

func (c *counted) wrote(n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n.writes += n
	if errors.Is(err, events.ErrConflict) {
		c.n.refused += n
	}
}

func (c *counted) Task(ctx context.Context, id task.ID) ([]events.Record, error) {
	c.read()
	return c.Memory.Task(ctx, id)
}

func (c *counted) Beginning(ctx context.Context, id task.ID, to uint64) ([]events.Record, error) {
	c.read()
	return c.Memory.Beginning(ctx, id, to)
}

func (c *counted) Latest(ctx context.Context, about events.Fact) (events.Record, uint64, error) {
	c.read()
	return c.Memory.Latest(ctx, about)
}

func (c *counted) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := c.Memory.Append(ctx, f, last)
	c.wrote(1, err)
	return seq, err
}

func (c *counted) AppendAll(ctx context.Context, facts []*events.Fact, last []uint64) (uint64, error) {
	first, err := c.Memory.AppendAll(ctx, facts, last)
	c.wrote(len(facts), err)
	return first, err
}

func (c *counted) Place(ctx context.Context, f *events.Fact) (uint64, error) {
	seq, err := c.Memory.Place(ctx, f)
	c.wrote(1, err)
	return seq, err
}

func (c *counted) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(int, uint64, error)) {
	if !first && c.muted() {
		for i := range facts {
			done(i, 0, errors.New("the scheduler dies"))
		}
		return
	}
	c.Memory.PlaceAll(ctx, facts, first, c.counting(done))
}

func (c *counted) muted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mute
}

func (c *counted) setMute(mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = mute
}

func (c *counted) counting(done func(int, uint64, error)) func(int, uint64, error) {
	return func(i int, seq uint64, err error) {
		c.wrote(1, err)
		done(i, seq, err)
	}
}

// crowd is a number of schedulers in one world, and the requests that each makes.
type crowd struct {
	*testWorld
	log  *counted
	all  []*Scheduler
	stop []func() // each ends one scheduler like a crash
	deaf []func() // each makes one scheduler deaf to the log while it lives

	silent chan struct{} // closed when n2 falls silent
	pace   time.Duration // between two checks for work
}

// Ends counts its calls.
func (c *crowd) Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	c.log.mu.Lock()
	c.log.n.looks++
	c.log.mu.Unlock()
	return c.testWorld.Ends(ctx, ids)
}

// WatchBeats reports to each scheduler when n2 falls silent.
func (c *crowd) WatchBeats(ctx context.Context, gone func(node.ID, time.Time), lost func()) error {
	lost()
	select {
	case <-c.silent:
		gone("n2", time.Time{})
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

// newCrowd starts schedulers, each without the parts that cuts remove.
func newCrowd(t *testing.T, n int, met Peers, cuts ...func(*Scheduler)) *crowd {
	// The scheduler that goes first with n2 is the first to be killed.
	names := []string{"scheduler-0", "scheduler-1", "scheduler-2"}[:n]
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(Weight(b, "n2"), Weight(a, "n2")) })
	// By default it checks when the consequences are done, and nothing else begins at the same
	// moment.
	c := &crowd{testWorld: newTestWorld(t), silent: make(chan struct{}), pace: 3 * gather / 2}
	c.log = &counted{Memory: c.Memory}
	for _, name := range names {
		v := newLimitView(c.Memory)
		h := hearing{c, make(chan struct{})}
		s := New(c.log, h, c, Config{Settings: settings, Limits: v, Peers: met, Last: c.log.Last})
		s.turns.Name = name // so that the same one goes first each time
		for _, cut := range cuts {
			cut(s)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		hears, deafen := context.WithCancel(ctx)
		wg.Go(func() { v.follow(hears, s) })
		c.deaf = append(c.deaf, func() { deafen(); close(h.deaf) })
		wg.Go(func() { _ = s.Run(ctx) }) // it returns nil
		c.all = append(c.all, s)
		c.stop = append(c.stop, func() { cancel(); wg.Wait() })
	}
	t.Cleanup(func() {
		for _, stop := range c.stop {
			stop()
		}
	})
	go func() { // the view lists new tasks
		feed, _ := c.Follow(t.Context(), 1)
		for {
			records, err := feed.Next(t.Context())
			if err != nil {
				return
			}
			for i := range records {
				if e, birth := records[i].Fact.Event.(task.Submitted); birth && (e.Parent != "" || e.Spec.Concurrency != nil) { // the test lists the others
					c.lists(records[i].Fact.Task)
				}
			}
		}
	}()
	c.join(t, "n1")
	c.join(t, "n2")
	pass(10 * time.Second) // until they know of each other and of the nodes
	return c
}

// forever is longer than the work of any test.
const forever = time.Minute

// work claims and finishes offers, as nodes do, until all tasks have ended, and returns how long
// that took.
func (c *crowd) work(t *testing.T) time.Duration {
	t.Helper()
	from, err := c.Offers(t.Context(), []string{"default", "@n1", "@n2", "@n3"})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for began := time.Now(); ; {
		pass(c.pace)
		var offers []*events.Offer
		for o := from.(*events.MemoryOffers).Try(); o != nil; o = from.(*events.MemoryOffers).Try() {
			offers = append(offers, o)
		}
		for _, o := range offers {
			now := c.task(t, o.Fact.Task)
			if started, _, err := c.rec.Do(t.Context(), now, claimOf(o, "n1")); err == nil {
				c.do(t, started, task.Finish{Epoch: started.Epoch})
			}
			if err := o.Ack(); err != nil {
				t.Fatal(err)
			}
		}
		open, err := c.pick(t.Context(), func(t *task.Task) bool { return !t.State.Terminal() })
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); len(open) == 0 || took > forever {
			return took
		}
	}
}
