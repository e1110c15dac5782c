package promises

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet"
	"millrace/events/jet/streams"
	"millrace/integration/harness"
	"millrace/internal/testkit"
	"millrace/scheduler"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
)

// openLog opens a log on a server of its own, in this process.
func openLog(t testing.TB) *jet.Store {
	t.Helper()
	_, store := openServed(t)
	return store
}

// openServed is openLog, with the connection to that server.
func openServed(t testing.TB) (*nats.Conn, *jet.Store) {
	t.Helper()
	served := harness.Open(t, streams.Layout{})
	return served.Conn, served.Store
}

// mortal is a log that is cut off after so many writes, before or after the last of them is
// done: as for a scheduler that is killed there.
type mortal struct {
	*jet.Store
	left   *atomic.Int64 // writes until the end
	lost   bool          // the last write is done, and its answer lost
	killed chan struct{} // closed at the end
}

var errKilled = errors.New("killed")

func (m mortal) write(do func() error) error {
	switch left := m.left.Add(-1); {
	case left > 0:
		return do()
	case left == 0:
		if m.lost {
			_ = do() // the caller never sees the answer
		}
		close(m.killed)
	}
	return errKilled
}

func (m mortal) Append(ctx context.Context, f *events.Fact, last uint64) (seq uint64, err error) {
	err = m.write(func() (err error) { seq, err = m.Store.Append(ctx, f, last); return err })
	return seq, err
}

func (m mortal) PlaceAll(ctx context.Context, facts []*events.Fact, first bool, done func(i int, seq uint64, err error)) {
	for i, f := range facts {
		var seq uint64
		err := m.write(func() (err error) {
			m.Store.PlaceAll(ctx, []*events.Fact{f}, first, func(_ int, at uint64, failed error) { seq, err = at, failed })
			return err
		})
		done(i, seq, err)
	}
}

func (m mortal) ArmSchedule(ctx context.Context, name string, revision uint64, tick schedule.Tick, replace bool) error {
	return m.write(func() error { return m.Store.ArmSchedule(ctx, name, revision, tick, replace) })
}

// livesFor is a log for a scheduler that is killed at its n-th write.
func livesFor(store *jet.Store, n int64, lost bool) mortal {
	m := mortal{Store: store, left: new(atomic.Int64), lost: lost, killed: make(chan struct{})}
	m.left.Store(n)
	return m
}

// lasting is a log for a scheduler that is not killed.
func lasting(store *jet.Store) mortal { return livesFor(store, 1<<40, false) }

// schedulerOn is a scheduler that keeps schedules, and nothing else.
func schedulerOn(m mortal, ticks scheduler.Ticks) *scheduler.Scheduler {
	return scheduler.New(m, noView{}, noBeats{}, scheduler.Config{Schedules: m, Ticks: ticks, Births: client.New(m.Store, "scheduler").DeskStore(), Log: slog.New(slog.DiscardHandler)})
}

// oneFire gives a scheduler one fire, and no other.
type oneFire struct {
	scheduler.Ticks
	events.Offers
	comes chan *events.Offer
}

func (o oneFire) Fires(context.Context) (events.Offers, error) { return o, nil }
func (o oneFire) Close()                                       {}
func (o oneFire) Next(ctx context.Context) (*events.Offer, error) {
	select {
	case offer := <-o.comes:
		return offer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fireLease is the lease of that fire.
type fireLease struct {
	events.Lease
	acked chan struct{}
}

func (l fireLease) Ack() error   { close(l.acked); return nil }
func (fireLease) Return() error  { return nil }
func (fireLease) Prolong() error { return nil }

// handle runs a scheduler that gets a fire, as the log hands it out for so many times. It tells
// whether the scheduler has acknowledged the fire; else it was killed.
func handle(t testing.TB, m mortal, fire *events.Record, deliveries int) bool {
	t.Helper()
	acked := make(chan struct{})
	one := oneFire{Ticks: m, comes: make(chan *events.Offer, 1)}
	one.comes <- &events.Offer{Record: *fire, Deliveries: deliveries, Lease: fireLease{acked: acked}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- schedulerOn(m, one).Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	patient, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	select {
	case <-acked:
		return true
	case <-m.killed:
	case <-patient.Done():
		t.Errorf("no scheduler has dealt with the fire %d after %v", fire.Seq, harness.Patience)
	}
	return false
}

// fireOf has the server write the fire of a tick into the log, and returns it.
func fireOf(t testing.TB, store *jet.Store, name string, tick time.Time) events.Record {
	t.Helper()
	stored, err := store.Schedule(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.ArmSchedule(t.Context(), name, stored.Revision, schedule.Tick{At: tick, Due: tick}, true); err != nil {
		t.Fatal(err)
	}
	var r events.Record
	testkit.Eventually(t, name+" fires", func() bool {
		if r, err = store.LastFire(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		f, ok := r.Fact.Event.(task.ScheduleFired)
		return ok && f.Tick.Equal(tick)
	})
	r.Stored = tick // as if the server had been in time
	return r
}

// Wherever a scheduler is killed between a fire, its task and the next timer, another one does the
// rest, and each only once: one decision, one birth, one timer.
func TestSchedulersDieAnywhere(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	ctx := t.Context()
	now := time.Now().Truncate(time.Hour)
	for _, lost := range []bool{false, true} {
		for n := int64(1); ; n++ {
			name := fmt.Sprintf("s%d-%t", n, lost)
			d := schedule.Definition{Name: name, When: job.Schedule{Cron: "0 * * * *", CatchUp: "none"}, Make: birth.Submission{Spec: &job.Spec{Handler: "x"}}}
			if _, _, err := store.PutSchedule(ctx, d, "test"); err != nil {
				t.Fatal(err)
			}
			fire := fireOf(t, store, name, now)
			lives := handle(t, livesFor(store, n, lost), &fire, 1)
			handle(t, lasting(store), &fire, 2)
			wantOneTask(t, store, name, now)
			if lives {
				break // it came to its end
			}
			if n > 20 {
				t.Fatal("there is no end of writes")
			}
		}
	}
}

// wantOneTask checks that a tick has one decision, one birth, and a timer after it.
func wantOneTask(t *testing.T, store *jet.Store, name string, tick time.Time) {
	t.Helper()
	decisions, err := store.Decisions(t.Context(), name, tick.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	decided := 0
	for _, r := range decisions {
		if schedule.Decides(r.Fact.Event, tick) {
			decided++
		}
	}
	births, err := store.Task(t.Context(), schedule.TaskID(name, tick))
	if err != nil {
		t.Fatal(err)
	}
	armed, err := store.ArmedSchedules(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if decided != 1 || len(births) != 1 || !armed[name] {
		t.Errorf("%s: %d decisions, %d births, timer %t; want one of each", name, decided, len(births), armed[name])
	}
}

// Any number of schedulers may deal with one fire at once.
func TestManySchedulersOneTask(t *testing.T) {
	t.Parallel()
	store := openLog(t)
	now := time.Now().Truncate(time.Hour)
	d := schedule.Definition{Name: "busy", When: job.Schedule{Cron: "0 * * * *", Overlap: "skip"}, Make: birth.Submission{Spec: &job.Spec{Handler: "x"}}}
	if _, _, err := store.PutSchedule(t.Context(), d, "test"); err != nil {
		t.Fatal(err)
	}
	fire := fireOf(t, store, "busy", now)
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() { handle(t, lasting(store), &fire, 1) })
	}
	wait.Wait()
	wantOneTask(t, store, "busy", now)
}

// A server that was killed with everything else finds the ticks that its schedules have missed, and
// makes one task for each.
func TestSchedulesOverAnOutage(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	server := p.Server()
	p.Run("schedule", "add", "pulse", "--every", "1s", "--catchup", "all", "--", "true")
	c := p.Connect()
	ticks := func(least int) func() bool {
		return func() bool {
			stored, err := c.Schedule(p.Context(), "pulse")
			if err != nil {
				return false
			}
			reports, err := c.Ticks(p.Context(), &stored, stored.Since, 1000)
			made := 0
			for _, r := range reports {
				if r.Outcome == client.TickTask {
					made++
				}
			}
			return err == nil && made >= least
		}
	}
	p.Until("it has fired", ticks(2))
	server.Kill()
	p.Server()
	c = p.Connect()
	p.Until("it fires again", ticks(6))
	p.Run("schedule", "pause", "pulse")
	stored, err := c.Schedule(p.Context(), "pulse")
	if err != nil {
		t.Fatal(err)
	}
	reports, err := c.Ticks(p.Context(), &stored, stored.Since, 1000)
	if err != nil {
		t.Fatal(err)
	}
	// The last ones may still be on their way.
	reports = reports[:max(0, len(reports)-12)]
	for _, r := range reports {
		if r.Outcome != client.TickTask {
			t.Errorf("the tick %s became %s: %s", r.Tick, r.Outcome, r.Why)
		}
	}
	p.Run("verify", "--rule", "I-6")
}

// With -long, so many schedules are due at once.
const dueAtOnce = 20_000

// No tick is early, and each is soon: the delay counts from when a tick is due until the log has
// the birth of its task.
func TestManySchedulesDueAtOnce(t *testing.T) {
	t.Parallel()
	n := 200
	if *harness.Long {
		n = dueAtOnce
	}
	store := openLog(t)
	ctx, stop := context.WithCancel(t.Context())
	running := make(chan error, 1)
	m := lasting(store)
	go func() { running <- schedulerOn(m, m).Run(ctx) }()
	defer func() { stop(); <-running }()

	each := func(n int, do func(i int) error) {
		var wait sync.WaitGroup
		numbers := make(chan int)
		for range 64 {
			wait.Go(func() {
				for i := range numbers {
					err := do(i)
					// A busy server may answer too late. What it refuses, it refuses again.
					for began := time.Now(); errors.Is(err, context.DeadlineExceeded) && time.Since(began) < harness.Patience; {
						err = do(i)
					}
					if err != nil {
						t.Error(err)
					}
				}
			})
		}
		for i := range n {
			numbers <- i
		}
		close(numbers)
		if wait.Wait(); t.Failed() {
			t.FailNow() // what is not stored makes no task, for which the rest would wait
		}
	}
	put := func(name string, at time.Time) (revision uint64, err error) {
		d := schedule.Definition{Name: name, When: job.Schedule{At: at.Format(time.RFC3339Nano)}, Make: birth.Submission{Spec: &job.Spec{Handler: "x"}}}
		revision, _, err = store.PutSchedule(ctx, d, "test")
		return revision, err
	}
	// How fast this machine is now, by schedules that are never due.
	began, few := time.Now(), n/20
	each(few, func(i int) error {
		_, err := put(fmt.Sprintf("far%d", i), began.AddDate(1, 0, 0))
		return err
	})
	storing := max(time.Duration(n)*1500*time.Microsecond, time.Since(began)*time.Duration(3*n/few))

	// All are stored before the first is due: one in the past is refused. Timers may be set after that; those
	// are made up for.
	due := time.Now().Add(time.Second + storing)
	at := func(i int) time.Time { return due.Add(time.Duration(i) * 4 * time.Second / time.Duration(n)) }
	revisions := make([]uint64, n)
	each(n, func(i int) (err error) {
		revisions[i], err = put(fmt.Sprintf("s%d", i), at(i))
		return err
	})
	each(n, func(i int) error {
		return store.ArmSchedule(ctx, fmt.Sprintf("s%d", i), revisions[i], schedule.Tick{At: at(i), Due: at(i)}, true)
	})
	t.Logf("%d timers set %v before they are due", n, time.Until(due))

	feed, err := store.Follow(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	var late []time.Duration
	for len(late) < n {
		records, err := feed.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			e, ok := records[i].Fact.Event.(task.Submitted)
			if !ok {
				continue
			}
			after := records[i].Stored.Sub(e.Tick)
			if after < 0 {
				t.Errorf("schedule %s was %v early", e.Schedule, -after)
			}
			late = append(late, after)
		}
	}
	slices.Sort(late)
	t.Logf("%d schedules due within 4s: births p50 %v, p99 %v, max %v after their ticks", n, late[n/2], late[n*99/100], late[n-1])
}

// One of two schedulers is killed with fires in its hands. The other one lets no tick of theirs
// wait until the log gives it those.
func TestTicksOfAKilledScheduler(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 3*time.Second)
	p.NATS()
	start := func(i int) *harness.Process {
		s := p.Start("server", "--data", fmt.Sprint("server-", i))
		s.Until("a server is ready", func() bool { return strings.Contains(s.Said.String(), "Millrace serves ") })
		return s
	}
	servers := []*harness.Process{start(0), start(1)}
	const schedules = 8
	for i := range schedules {
		p.Run("schedule", "add", fmt.Sprint("s", i), "--every", "2s", "--queue", "nobody", "--", "true")
	}
	c := p.Connect()
	ticks := func() (n int, late []time.Duration) {
		for i := range schedules {
			decisions, err := c.Store().Decisions(t.Context(), fmt.Sprint("s", i), time.Time{})
			if err != nil {
				t.Fatal(err)
			}
			n += len(decisions)
			for _, r := range decisions {
				e, ok := r.Fact.Event.(task.ScheduleAdmitted)
				if !ok {
					t.Errorf("a tick got no task: %+v", r.Fact.Event)
				}
				late = append(late, r.Stored.Sub(e.Due))
			}
		}
		slices.Sort(late)
		return n, late
	}
	reach := func(what string, more int) {
		t.Helper()
		before, _ := ticks()
		p.Until(what, func() bool { n, _ := ticks(); return n >= before+more })
	}
	reach("ticks come", 2*schedules)
	for i := range servers { // which of them has fires is up to the log
		p.Until("fires are in somebody's hands", func() bool {
			r, err := c.Store().LastFire(t.Context(), "s0")
			if err != nil {
				t.Fatal(err)
			}
			f, _ := r.Fact.Event.(task.ScheduleFired)
			left := f.Due.Sub(c.Now())
			return left > 50*time.Millisecond && left < schedule.Ahead/2
		})
		servers[i].Kill()
		reach("ticks come after a scheduler was killed", 4*schedules)
		servers[i] = start(i)
	}
	_, late := ticks()
	t.Logf("%d ticks, late by %v at most", len(late), late[len(late)-5:])
	if late[0] < 0 || late[len(late)-1] > 2500*time.Millisecond {
		t.Errorf("ticks are late by %v to %v, want no more than 2.5s", late[0], late[len(late)-1])
	}
	for _, s := range servers {
		s.Stop()
	}
}
