package scheduler

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/node"
	"millrace/task"
	"millrace/task/schedule"
)

// All schedulers come to the same order, each goes first with its share, and what one had that goes is spread over the rest.
func TestPlaces(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	order := func(names []string, key string) []string {
		at := make([]string, len(names))
		for i, name := range names {
			others := slices.Delete(slices.Clone(names), i, i+1)
			at[place(name, slices.Values(others), key)] = name
		}
		return at
	}
	const keys = 4000
	firsts, seconds := map[string]int{}, map[string]int{}
	for n := range keys {
		key := fmt.Sprintf("01JNA%021d", n)
		all := order(names, key)
		if slices.Contains(all, "") {
			t.Fatalf("two have the same place: %q", all)
		}
		firsts[all[0]]++
		if all[0] == "a" {
			seconds[all[1]]++
		}
		if without := order(names[1:], key); !slices.Equal(without, slices.DeleteFunc(all, func(name string) bool { return name == "a" })) {
			t.Fatalf("without the first of %q the order is %q", all, without)
		}
	}
	for _, name := range names {
		if n := firsts[name]; n < keys/5 || n > keys*3/10 {
			t.Errorf("%s goes first %d times of %d", name, n, keys)
		}
		if n := seconds[name]; name != "a" && (n < firsts["a"]/4 || n > firsts["a"]*5/12) {
			t.Errorf("%s goes second to a %d times of %d", name, n, firsts["a"])
		}
	}
}

// What goes to another one first is this scheduler's after a while, unless it is done by then.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newTurns("one")
		l := one.left()
		if !l.mine("x") || l.some.Load() || l.again(nil) != nil {
			t.Error("one that is alone waits for somebody")
		}
		one.join(true)
		one.hear("two", true)
		one.hear("one", true)
		keys := map[bool][]string{}
		for n := range 100 {
			key := fmt.Sprint(n)
			keys[one.first(key)] = append(keys[one.first(key)], key)
		}
		mine, others := keys[true][0], keys[false]
		if !l.mine(mine) || l.mine(others[0]) || l.mine(others[1]) || l.mine(others[2]) {
			t.Error("it does not leave what goes to another one first")
		}
		<-l.wake
		l.drop(others[1])
		time.Sleep(patience / 2)
		one.hear("two", true)
		if l.mine(others[0]) || len(l.late()) > 0 {
			t.Error("it waits for less than it should")
		}
		time.Sleep(patience / 2)
		if got := l.late(); !slices.Equal(got, slices.Sorted(slices.Values([]string{others[0], others[2]}))) {
			t.Errorf("late are %q", got)
		}
		if !l.mine(others[0]) || l.mine(others[1]) {
			t.Error("what is late is not its own, or what is done is")
		}
		time.Sleep(patience)
		if !l.mine(others[1]) || !l.mine(others[2]) || l.some.Load() || !one.alone.Load() {
			t.Error("it waits for one that is gone")
		}
	})
}

// Who has not said that it is here goes last: nobody waits for it. And many dead ones delay nothing for long.
func TestWhoGoesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := newTurns("one")
		one.hear("two", true)
		if one.first("x") || one.first("y") || one.first("z") {
			t.Error("it goes first, and the others do not know of it")
		}
		one.join(true)
		for n := range 10 {
			one.hear(fmt.Sprint(n), true)
		}
		for n := range 100 {
			if w := one.wait(fmt.Sprint(n)); w > goesLast*patience {
				t.Fatalf("it waits for %v", w)
			}
		}
		for n := range 10 {
			one.hear(fmt.Sprint(n), false)
		}
		one.hear("two", false)
		if !one.first("x") {
			t.Error("it waits although it is alone")
		}
	})
}

// peers are schedulers of one process, of which none says goodbye.
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

// counted is a log that counts what schedulers ask of it.
type counted struct {
	*events.Memory
	mu   sync.Mutex
	n    counts // guarded by mu
	mute bool   // guarded by mu; no offer of a task that is admitted gets through
}

// counts are of reads of the log and looks at the read model for what became of children, and of facts that were
// written, the refused ones among them.
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

func (c *counted) Admitted(ctx context.Context, of task.Scope) (uint64, error) {
	c.read()
	return c.Memory.Admitted(ctx, of)
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

func (c *counted) PlaceAll(ctx context.Context, facts []*events.Fact, done func(int, uint64, error)) {
	if c.muted() {
		for i := range facts {
			done(i, 0, errors.New("the scheduler dies"))
		}
		return
	}
	c.Memory.PlaceAll(ctx, facts, c.counting(done))
}

func (c *counted) PlaceFirst(ctx context.Context, facts []*events.Fact, done func(int, uint64, error)) {
	c.Memory.PlaceFirst(ctx, facts, c.counting(done))
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

// crowd is so many schedulers of one world, and what each of them asks of the log.
type crowd struct {
	*testWorld
	log  *counted
	all  []*Scheduler
	stop []func() // each ends one scheduler as a crash would
	deaf []func() // each has one scheduler hear no more of the log, while it lives

	silent chan struct{} // closed when n2 falls silent
	pace   time.Duration // between two looks for work
}

// Ends counts how often it is asked.
func (c *crowd) Ends(ctx context.Context, ids []task.ID) (map[task.ID]task.End, uint64, error) {
	c.log.mu.Lock()
	c.log.n.looks++
	c.log.mu.Unlock()
	return c.testWorld.Ends(ctx, ids)
}

// WatchBeats tells each scheduler when n2 falls silent.
func (c *crowd) WatchBeats(ctx context.Context, gone func(node.ID), lost func()) error {
	lost()
	select {
	case <-c.silent:
		gone("n2")
		<-ctx.Done()
	case <-ctx.Done():
	}
	return nil
}

// hearing is the read model of a scheduler, which is level with the log until it is deaf.
type hearing struct {
	*crowd
	deaf chan struct{}
}

func (h hearing) Wait(ctx context.Context, _ uint64) error {
	select {
	case <-h.deaf:
		<-ctx.Done()
		return ctx.Err()
	case <-time.After(time.Millisecond):
		return nil
	}
}

// newCrowd starts schedulers, each of which lacks what cuts take away.
func newCrowd(t *testing.T, n int, met Peers, cuts ...func(*Scheduler)) *crowd {
	// Who goes first with n2 is the first to be killed.
	names := []string{"scheduler-0", "scheduler-1", "scheduler-2"}[:n]
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(weight(b, "n2"), weight(a, "n2")) })
	// By default it looks when what follows has followed, and nothing else begins at the same moment.
	c := &crowd{testWorld: newTestWorld(t), silent: make(chan struct{}), pace: 3 * gather / 2}
	c.log = &counted{Memory: c.Memory}
	for _, name := range names {
		v := newLimitView(c.Memory)
		h := hearing{c, make(chan struct{})}
		s := New(c.log, h, c, Config{Settings: settings, Limits: v, Peers: met})
		s.turns.name = name // so that the same one goes first each time
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
	go func() { // the view lists what is born
		feed, _ := c.Follow(t.Context(), 1)
		for {
			records, err := feed.Next(t.Context())
			if err != nil {
				return
			}
			for i := range records {
				if e, birth := records[i].Fact.Event.(task.Submitted); birth && (e.Parent != "" || e.Spec.Concurrency != nil) { // the others the test lists
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

// forever is longer than any work of a test takes.
const forever = time.Minute

// work claims and finishes what is offered, as nodes do, until all tasks have ended, and returns how long that took.
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

// load is a kind of work that asks schedulers for much.
type load struct {
	name  string
	ready func(*testing.T, *crowd) // before any scheduler is killed; nil for nothing
	give  func(*testing.T, *crowd)
	looks int // of the two others, for a child has ended and its parent wants nothing yet
}

func (l *load) begin(t *testing.T, n int, met Peers, cuts ...func(*Scheduler)) *crowd {
	c := newCrowd(t, n, met, cuts...)
	if l.ready != nil {
		l.ready(t, c)
		pass(patience)
	}
	return c
}

var loads = []load{
	{name: "lost", give: func(t *testing.T, c *crowd) {
		for range 40 {
			c.claim(t, c.submit(t, task.Spec{}), "n2")
		}
		c.setBeat("n2", node.Heartbeat{})
		close(c.silent)
	}},
	{name: "steps", give: steps},
	{name: "slow steps", ready: func(_ *testing.T, c *crowd) { c.pace = 3 * patience }, give: steps, looks: 2 * 2 * 40},
	{name: "included nodes", ready: func(t *testing.T, c *crowd) {
		for range 40 {
			c.asked(t, task.Spec{Handler: "x", Place: task.Place{Mode: task.PlaceAll, Late: task.LateInclude}})
		}
	}, give: func(t *testing.T, c *crowd) {
		c.join(t, "n3")
		pass(patience + patience/2)
		parents, err := c.Parents(t.Context(), batch)
		for _, id := range parents {
			if names := c.task(t, id).Children.Names; len(names) != 3 {
				t.Errorf("a parent has children on %q, and not on n3", names)
			}
		}
		if err != nil || len(parents) != 40 {
			t.Errorf("%d parents, %v", len(parents), err)
		}
	}},
	{name: "children", give: func(t *testing.T, c *crowd) {
		for range 40 {
			c.asked(t, task.Spec{Handler: "x", Place: task.Place{Mode: task.PlaceAll}})
		}
	}},
	{name: "limits", give: func(t *testing.T, c *crowd) {
		for n := range 480 { // so many rounds that they take longer than patience
			c.submitLimited(t, n, task.Spec{Concurrency: task.Concurrencies{{Max: 1, Key: fmt.Sprint("/", n%6)}}})
		}
	}},
}

func steps(t *testing.T, c *crowd) {
	for range 40 {
		c.asked(t, task.Spec{Steps: []task.Step{handled("c", task.StepNeed{Step: "b"}), handled("b", task.StepNeed{Step: "a"}), handled("a")}})
	}
}

// Three schedulers that know of each other cost the log what one does.
func TestThreeCostWhatOneDoes(t *testing.T) {
	more := 0 // that three cost which do not know of each other
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			cost := func(n int, met Peers) (c counts) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, n, met)
					before := w.log.counts()
					l.give(t, w)
					if took := w.work(t); took > forever {
						t.Error("not all tasks have ended")
					}
					pass(2 * goesLast * patience)
					c = w.log.counts().less(before)
					noRepairs(t, w.all)
				})
				return c
			}
			one, strangers, three := cost(1, nil), cost(3, nil), cost(3, &peers{})
			t.Logf("one: %+v; three that do not know of each other: %+v; that do: %+v", one, strangers, three)
			if three.refused > 0 || three.writes > one.writes+one.writes/20 || three.reads > one.reads+one.reads/4 || three.looks > one.looks+one.looks/10+l.looks {
				t.Errorf("three schedulers cost %+v, and one costs %+v", three, one)
			}
			more += strangers.reads + strangers.refused - one.reads
		})
	}
	if more < 300 {
		t.Errorf("three that do not know of each other cost %d reads and refused facts more: this shows nothing", more)
	}
}

// What a scheduler that was killed should have done first others do within a bounded time.
func TestSchedulersAreKilled(t *testing.T) {
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			after := func(killed int) (took time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 3, &peers{})
					for _, stop := range w.stop[:killed] {
						stop()
					}
					l.give(t, w)
					took = w.work(t)
					noRepairs(t, w.all)
				})
				return took
			}
			none := after(0)
			for killed := 1; killed <= 2; killed++ {
				took := after(killed)
				t.Logf("with %d of 3 schedulers killed it took %v, with none %v", killed, took, none)
				if late := took - none; late > time.Duration(killed)*patience+patience/2 {
					t.Errorf("with %d of 3 schedulers killed all was %v late", killed, late)
				}
			}
		})
	}
}

// A scheduler that lives and hears no more of the log keeps nothing from the others: soon they count on it no more.
func TestDeafSchedulersGoLast(t *testing.T) {
	for _, l := range loads {
		t.Run(l.name, func(t *testing.T) {
			after := func(deaf int) (took time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 3, &peers{})
					for _, deafen := range w.deaf[:deaf] {
						deafen()
					}
					pass(stuckAfter + 2*patience)
					for i, s := range w.all {
						if s.turns.joined() != (i >= deaf) {
							t.Errorf("of scheduler %d the others think that it is here: %t", i, s.turns.joined())
						}
					}
					l.give(t, w)
					took = w.work(t)
				})
				return took
			}
			if none, two := after(0), after(2); two-none > patience/2 {
				t.Errorf("with two deaf schedulers of three it took %v, with none %v", two, none)
			}
		})
	}
}

// One whose rounds fail, or do not end, is not counted on, until they do.
func TestFitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f fitness
		is := func(want bool, when string) {
			t.Helper()
			if f.fit() != want {
				t.Errorf("%s it is fit: %t", when, !want)
			}
		}
		is(false, "before its read model is level")
		f.level()
		is(true, "then")
		f.begins("a")
		f.ends("a", errors.New("no"))
		is(false, "after a round that failed")
		f.begins("a")
		is(false, "during the next")
		f.ends("a", nil)
		is(true, "after that")
		f.begins("b")
		time.Sleep(stuckAfter)
		f.level()
		is(true, "in a long round")
		time.Sleep(time.Second)
		is(false, "in one that does not end")
		f.ends("b", nil)
		is(true, "when it has ended")
		time.Sleep(stuckAfter)
		is(false, "behind the log")
	})
}

// A scheduler that lacks one reaction is found out by these tests: its work takes too long, or the sweep repairs it.
func TestNoReactionMayBeMissing(t *testing.T) {
	deaf := func(to func(*Scheduler) reactor) func(*Scheduler) {
		return func(s *Scheduler) {
			s.reactors = slices.DeleteFunc(s.reactors, func(r reactor) bool { return r == to(s) })
		}
	}
	for work, cuts := range map[string]map[string]func(*Scheduler){
		"steps":    {"what others need has ended": deaf(func(s *Scheduler) reactor { return s.needs })},
		"children": {"children have ended": deaf(func(s *Scheduler) reactor { return s.families })},
		"lost": {
			"a node is silent": func(s *Scheduler) { s.beats = unheard{s.beats} },
			"a node has gone":  func(s *Scheduler) { s.cfg.React = time.Hour },
		},
	} {
		for name, cut := range cuts {
			t.Run(name, func(t *testing.T) {
				l := &loads[slices.IndexFunc(loads, func(l load) bool { return l.name == work })]
				synctest.Test(t, func(t *testing.T) {
					w := l.begin(t, 1, nil, cut)
					l.give(t, w)
					took := w.work(t)
					if repairs := w.all[0].Repairs(); took < patience && len(repairs) == 0 {
						t.Errorf("nobody misses it: all is done after %v", took)
					}
				})
			})
		}
	}
}

// unheard are heartbeats of which nobody hears when they run out.
type unheard struct{ Heartbeats }

func (unheard) WatchBeats(ctx context.Context, _ func(node.ID), lost func()) error {
	lost()
	<-ctx.Done()
	return nil
}

// What a scheduler has admitted and not offered another one offers, and not each of them.
func TestOneOffersWhatWasAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newCrowd(t, 3, &peers{})
		w.log.setMute(true)
		var ids []task.ID
		for n := range 30 {
			ids = append(ids, w.submitLimited(t, n, task.Spec{Concurrency: task.Concurrencies{{Max: 10, Key: fmt.Sprint("/", n%3)}}}))
		}
		pass(time.Second)
		w.log.setMute(false)
		pass(offerAgain + 2*patience)
		for _, id := range ids {
			if offers, _ := w.offersOf(t, id); offers != 1 {
				t.Errorf("task %s has %d offers, want one", id, offers)
			}
		}
	})
}

// Of three schedulers one sees to a tick on which nobody has decided, and the others after it.
func TestTicksAreSeenToInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		due := time.Now()
		waits := map[time.Duration]int{}
		for _, name := range []string{"one", "two", "three"} {
			of := newTurns(name)
			of.join(true)
			w := newTickWatch(time.Now, of)
			heap.Push(&w.due, &watchedTick{schedule: "s", tick: schedule.Tick{At: due, Due: due}, at: due.Add(tickPatience)})
			for now := due; ; now = now.Add(tickLook) {
				for _, other := range []string{"one", "two", "three"} {
					of.hear(other, true)
				}
				if len(w.late(now)) > 0 {
					waits[now.Sub(due)]++
					break
				}
			}
		}
		for n := range 3 {
			if at := tickPatience + time.Duration(n)*patience; waits[at] != 1 {
				t.Errorf("%d see to it after %v, want one: %v", waits[at], at, waits)
			}
		}
	})
}

// Of an offer that is dead every scheduler hears. One deals with it, and the others ask for nothing.
func TestOneBuriesAnOffer(t *testing.T) {
	for killed := range 3 {
		synctest.Test(t, func(t *testing.T) {
			w := newTestWorld(t)
			w.join(t, "n1")
			met := &peers{}
			var heard []func(uint64)
			var asked []*buried
			var stops []func()
			for i := range 3 {
				d := &buried{deliveries: deliveries{testWorld: w, heard: make(chan func(uint64), 1)}}
				s := New(w.Memory, w, w, Config{Settings: settings, Deliveries: d, Peers: met})
				s.turns.name = fmt.Sprint("scheduler-", i)
				ctx, stop := context.WithCancel(t.Context())
				go func() { _ = s.Run(ctx) }() // it returns nil
				w.tell(t, s)
				heard, asked, stops = append(heard, <-d.heard), append(asked, d), append(stops, stop)
			}
			pass(2 * patience)
			for i := range killed {
				stops[i]()
			}
			synctest.Wait()
			var ids []task.ID
			for range 12 {
				synctest.Wait()
				ids = append(ids, w.submit(t, task.Spec{}))
				seq, err := w.Last(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, dead := range heard[killed:] {
					dead(seq)
				}
				if killed == 0 {
					pass(10 * time.Millisecond)
				}
			}
			pass(time.Duration(killed)*patience + patience/2)
			for _, id := range ids {
				w.wants(t, "a task whose offer is dead", id, task.Abnormal, task.ReasonPoison)
			}
			pass(3 * patience)
			n := 0
			for _, d := range asked {
				n += int(d.asked.Load())
			}
			if n != len(ids) {
				t.Errorf("with %d killed they read %d offers, want %d", killed, n, len(ids))
			}
		})
	}
}

// buried counts how often it is asked for an offer.
type buried struct {
	deliveries
	asked atomic.Int32
}

func (b *buried) Message(ctx context.Context, seq uint64) (events.Record, bool, error) {
	b.asked.Add(1)
	<-time.After(time.Millisecond) // until all have heard of it
	return b.deliveries.Message(ctx, seq)
}
