package scheduler

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/task/value"
)

// stage is a log with schedules whose fires are handed out by hand. Its clock is ahead of the
// machine's by a time in nanoseconds.
type stage struct {
	*events.Memory
	ahead atomic.Int64
	came  chan *events.Offer

	mu      sync.Mutex
	defined map[string]schedule.Stored // guarded by mu, like all below
	changed []schedule.Change
	were    map[string][]schedule.Stored // all revisions
	jobs    map[string]uint64            // revisions
	jobSeq  []string                     // changes
	last    map[string]events.Record
	heads   map[string]uint64     // of definitions and of fires, by subject
	born    map[task.ID]time.Time // by the log's clock
	made    map[task.ID]*events.Fact
	armed   map[string]schedule.Tick
	timed   map[string]uint64 // the revisions that set them
	asked   int               // how often changes were requested
	fires   map[string]events.Record
	decided int  // how many decisions were stored
	read    int  // how many decisions were asked for
	full    bool // the queue of new tasks is full
	keeps   bool // births are stored in the log
}

// newStage makes a stage. When the test ends, all its decisions are made again, and changed ones
// must be detected.
func newStage(t *testing.T, ahead time.Duration) *stage {
	s := bareStage(ahead)
	t.Cleanup(func() {
		for _, f := range verify.Decided(s.All()) {
			t.Error(f.What)
		}
		logtest.Alter(t, s.All(), testkit.Size(1, 2), map[string]int{}, verify.Doubted)
	})
	return s
}

func bareStage(ahead time.Duration) *stage {
	s := &stage{
		came:    make(chan *events.Offer, 100),
		defined: map[string]schedule.Stored{}, were: map[string][]schedule.Stored{}, jobs: map[string]uint64{}, last: map[string]events.Record{}, heads: map[string]uint64{},
		born: map[task.ID]time.Time{}, made: map[task.ID]*events.Fact{}, armed: map[string]schedule.Tick{}, timed: map[string]uint64{}, fires: map[string]events.Record{},
	}
	s.ahead.Store(int64(ahead))
	s.Memory = events.NewMemory(s.now, time.Minute)
	return s
}

func (s *stage) now() time.Time { return time.Now().UTC().Add(time.Duration(s.ahead.Load())) }

// define stores a schedule with hourly ticks.
func (s *stage) define(name, of string, first time.Time, paused bool) {
	d := schedule.Definition{Name: name, When: job.Schedule{Every: value.Duration(time.Hour), Start: first.Format(time.RFC3339Nano)}}
	if of != "" {
		d.Make = birth.Submission{Job: of}
	}
	if paused {
		d.Paused = &schedule.Pause{}
	}
	s.store(d)
}

// store stores a definition. Without one of its own, it gets an arbitrary spec to make.
func (s *stage) store(d schedule.Definition) {
	if d.Make.Job == "" && d.Make.Spec == nil {
		d.Make = birth.Submission{Spec: &job.Spec{Handler: "x"}}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	is := schedule.Stored{Definition: d, Revision: s.defined[d.Name].Revision + 1, Changed: s.now()}
	s.defined[d.Name], s.were[d.Name] = is, append(s.were[d.Name], is)
	s.changed = append(s.changed, schedule.Change{Name: d.Name, Now: &is})
	text, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	s.say(events.Fact{Def: task.Named(task.DefSchedule, d.Name), Event: task.DefinitionApplied{Edition: task.Edition{Revision: is.Revision, Text: text}}})
}

// say records a fact about a schedule that is not a decision, with mu held.
func (s *stage) say(f events.Fact) events.Record {
	f.ID, f.At, f.Type = events.NewID(s.now()), s.now(), events.TypeOf(f.Event)
	seq, err := s.Memory.Append(context.Background(), &f, s.heads[f.About()])
	if err != nil {
		panic(err)
	}
	s.heads[f.About()] = seq
	return s.All()[seq-1]
}

func (s *stage) defineJob(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[name]++
	s.jobSeq = append(s.jobSeq, name)
}

// fire hands out the fire of a tick, which the log has stored now or earlier.
func (s *stage) fire(name string, deliveries int, tick time.Time) *testLease {
	l := &testLease{}
	s.mu.Lock()
	r := s.fires[name]
	if deliveries == 1 {
		r = s.say(events.Fact{Schedule: name, Event: task.ScheduleFired{Revision: s.defined[name].Revision, Tick: tick, Due: tick}})
	}
	s.fires[name] = r
	delete(s.armed, name)
	s.mu.Unlock()
	s.came <- &events.Offer{Record: r, Deliveries: deliveries, Lease: l}
	return l
}

// birth returns the birth of a tick's task, nil if there is none.
func (s *stage) birth(name string, tick time.Time) *events.Fact {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made[schedule.TaskID(name, tick)]
}

// counts returns how many tasks were born, and how often changes were requested.
func (s *stage) counts() (born, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.born), s.asked
}

// reads returns how many decisions were asked for.
func (s *stage) reads() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read
}

func (s *stage) next(name string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.armed[name].At
}

// wantBorn checks when the task of a tick was born, and the state of its fire.
func (s *stage) wantBorn(t *testing.T, name string, tick time.Time, l *testLease) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	at, there := s.born[schedule.TaskID(name, tick)]
	if late := at.Sub(tick); !there || late < 0 || late > 30*time.Millisecond {
		t.Errorf("the task of %s is there: %t, and %v late; want it within 30ms", name, there, late)
	}
	if next := s.armed[name].At; !next.Equal(tick.Add(time.Hour)) {
		t.Errorf("the next timer of %s is for %v, want an hour after %v", name, next, tick)
	}
	if !l.acked {
		t.Errorf("the fire of %s was not acknowledged", name)
	}
}

type testLease struct {
	acked, returned bool
	extended        int
}

func (l *testLease) Ack() error                   { l.acked = true; return nil }
func (l *testLease) Return() error                { l.returned = true; return nil }
func (l *testLease) Rest(time.Duration) error     { return nil }
func (l *testLease) Extend(context.Context) error { return nil }
func (l *testLease) Prolong() error               { l.extended++; return nil }

// stageOffers hands out the fires of the stage.
type stageOffers struct{ s *stage }

func (o stageOffers) Next(ctx context.Context) (*events.Offer, error) {
	select {
	case offer := <-o.s.came:
		return offer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
func (stageOffers) Also(context.Context, []string) error { return nil }
func (stageOffers) Prove(context.Context) error          { return nil }
func (stageOffers) Trouble() error                       { return nil }
func (stageOffers) Broken() <-chan events.Break          { return nil }
func (stageOffers) Low() uint64                          { return 0 }
func (stageOffers) Weigh(map[string]int)                 {}
func (stageOffers) Close()                               {}

func (s *stage) Fires(context.Context) (events.Offers, error) { return stageOffers{s}, nil }
func (s *stage) Time(context.Context) (time.Time, error)      { return s.now(), nil }

func (s *stage) Schedules(context.Context) ([]schedule.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.defined)), nil
}

func (s *stage) ScheduleAt(_ context.Context, name string, revision uint64) (*schedule.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &s.were[name][revision-1], nil
}

func (s *stage) ScheduleChanges(_ context.Context, after, _ uint64) ([]schedule.Change, bool, uint64, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	reached := uint64(len(s.changed))
	if after == 0 && reached > 0 {
		return nil, true, reached, nil
	}
	return slices.Clone(s.changed[after:]), false, reached, nil
}

func (s *stage) JobChanges(_ context.Context, after, _ uint64) ([]string, bool, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.jobSeq[after:]), after == 0, uint64(len(s.jobSeq)), nil
}

func (s *stage) JobToRun(_ context.Context, name string) (job.Job, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[name] == 0 {
		return job.Job{}, 0, birth.ErrNoTask
	}
	return job.Job{Name: name, Spec: job.Spec{Handler: "x"}}, s.jobs[name], nil
}

func (s *stage) LastDecision(ctx context.Context, name string) (events.Record, error) {
	last, err := s.LastDecisions(ctx, []string{name})
	return last[name], err
}

func (s *stage) LastDecisions(_ context.Context, names []string) (map[string]events.Record, error) {
	time.Sleep(time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read += len(names)
	found := map[string]events.Record{}
	for _, name := range names {
		if r, ok := s.last[name]; ok {
			found[name] = r
		}
	}
	return found, nil
}

func (s *stage) Append(ctx context.Context, f *events.Fact, last uint64) (uint64, error) {
	seq, err := s.Memory.Append(ctx, f, last)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.decided++
		s.last[f.Schedule] = events.Record{Seq: seq, Stored: s.now(), Kind: events.KindTick, Fact: *f}
	}
	return seq, err
}

func (s *stage) LastFire(_ context.Context, name string) (events.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fires[name], nil
}

func (s *stage) Decisions(_ context.Context, name string, _ time.Time) ([]events.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.last[name]; ok {
		return []events.Record{r}, nil
	}
	return nil, nil
}

func (s *stage) PlaceAll(_ context.Context, facts []*events.Fact, _ bool, done func(i int, seq uint64, err error)) {
	for i, f := range facts {
		seq, err := s.placeFirst(f)
		done(i, seq, err)
	}
}

func (s *stage) placeFirst(f *events.Fact) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.born[f.Task]; there {
		return 0, events.ErrConflict
	}
	if s.full {
		return 0, queue.ErrFull
	}
	s.born[f.Task], s.made[f.Task] = s.now(), f
	if s.keeps {
		return s.Place(context.Background(), f)
	}
	return 1, nil
}

func (s *stage) JobAt(ctx context.Context, name string, _ uint64) (job.Job, uint64, error) {
	return s.JobToRun(ctx, name)
}

func (s *stage) DeclareAll(context.Context, []*task.Work, string) error       { return nil }
func (s *stage) PinFiles(_ context.Context, f *job.Files) (*job.Files, error) { return f, nil }
func (s *stage) Waiting(context.Context, string, int) (waiting int, handed uint64, err error) {
	return 0, 0, nil
}

func (s *stage) ArmSchedule(_ context.Context, name string, revision uint64, t schedule.Tick, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed[name], s.timed[name] = t, revision
	return nil
}

func (s *stage) ArmedSchedules(context.Context) (map[string]bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	armed := map[string]bool{}
	for name := range s.armed {
		armed[name] = true
	}
	return armed, nil
}

func (s *stage) TimedBy(_ context.Context, names []string) (map[string]uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	timed := map[string]uint64{}
	for _, name := range names {
		if _, there := s.armed[name]; there {
			timed[name] = s.timed[name]
		}
	}
	return timed, nil
}

func (s *stage) PauseSchedule(context.Context, string, string, string) (bool, error) {
	return false, nil
}
func (s *stage) Hint(node.ID, task.ID) error { return nil }

// play runs the pipeline of fires during do.
func (s *stage) play(t *testing.T, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	one := New(s, nil, nil, Config{Schedules: s, Ticks: s, Births: s, Now: s.now, Log: slog.New(slog.DiscardHandler)})
	go func() { ended <- one.handleFires(ctx) }()
	do()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Timers fire ahead of ticks. Tasks are born when these are due by the log's clock, whatever the
// machine's clock shows.
func TestFiresWaitForTheirTick(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{0, 7 * time.Hour, -900 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, ahead)
				s.play(t, func() {
					var ticks []time.Time
					var leases []*testLease
					for i := range 40 {
						name, tick := fmt.Sprint("s", i), s.now().Add(schedule.Ahead).Add(time.Duration(i%3)*100*time.Millisecond)
						s.define(name, "", tick, false)
						ticks, leases = append(ticks, tick), append(leases, s.fire(name, 1, tick))
					}
					pass(schedule.Ahead - time.Millisecond)
					born, asked := s.counts()
					if born > 0 {
						t.Error("a task was born before its tick")
					}
					pass(400 * time.Millisecond)
					for i, l := range leases {
						s.wantBorn(t, fmt.Sprint("s", i), ticks[i], l)
					}
					if _, now := s.counts(); now-asked > 5 {
						t.Errorf("it was asked %d times for changes of definitions, want once for all ticks of a moment", now-asked)
					}

					// A fire that comes long after its tick does not wait.
					late := s.now().Add(-time.Second)
					s.define("late", "", late, false)
					l := s.fire("late", 1, late)
					pass(20 * time.Millisecond)
					if s.birth("late", late) == nil || !l.acked {
						t.Error("a fire that comes late was not dealt with at once")
					}
				})
			})
		})
	}
}

// The definition at the tick's due time applies, not the one at the time of the fire.
func TestChangedBetweenFireAndTick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		s.play(t, func() {
			tick := s.now().Add(schedule.Ahead)
			s.defineJob("j")
			for _, name := range []string{"stays", "paused", "moved", "job"} {
				job := ""
				if name == "job" {
					job = "j"
				}
				s.define(name, job, tick, false)
			}
			leases := map[string]*testLease{}
			for _, name := range []string{"stays", "paused", "moved", "job"} {
				leases[name] = s.fire(name, 1, tick)
			}
			pass(schedule.Ahead - 5*time.Millisecond)
			s.define("paused", "", tick, true)
			s.define("moved", "", tick.Add(time.Minute), false)
			s.defineJob("j")
			pass(100 * time.Millisecond)
			s.wantBorn(t, "stays", tick, leases["stays"])
			s.wantBorn(t, "job", tick, leases["job"])
			if f := s.birth("job", tick); f == nil || f.Event.(task.Submitted).Revision != 2 {
				t.Errorf("the task of job is %+v, want it made of the job's second revision", f)
			}
			for _, name := range []string{"paused", "moved"} {
				if made := s.birth(name, tick); made != nil || !leases[name].acked {
					t.Errorf("%s: its task is %v, its fire acknowledged: %t; want no task and nothing left to do", name, made, leases[name].acked)
				}
			}
			if next := s.next("moved"); !next.Equal(tick.Add(time.Minute)) {
				t.Errorf("the next timer of moved is for %v, want %v", next, tick.Add(time.Minute))
			}
		})
	})
}

// A scheduler asks for no decision that it has made or heard of. If another one has decided
// unheard, it learns of it when its own decision is refused, and the tick still has one decision.
func TestDecisionsAreKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		tick := s.now().Add(10 * time.Second)
		s.define("s", "", tick, false)
		s.play(t, func() {
			play := func(others bool) (read int) {
				t.Helper()
				pass(tick.Add(-schedule.Ahead).Sub(s.now()))
				before := s.reads()
				if others {
					s.decideUnheard(t, "s", tick)
					s.bear("s", tick)
				}
				l := s.fire("s", 1, tick)
				pass(schedule.Ahead + 50*time.Millisecond)
				if !l.acked || !s.next("s").Equal(tick.Add(time.Hour)) {
					t.Errorf("the fire of %v is acknowledged: %t, and the next timer is for %v", tick, l.acked, s.next("s"))
				}
				tick = tick.Add(time.Hour)
				return s.reads() - before
			}
			play(false) // the first tick has no earlier decision
			if read := play(false); read != 0 {
				t.Errorf("a scheduler asked %d times for decisions that it has made", read)
			}
			if read := play(true); read != 1 {
				t.Errorf("a scheduler asked %d times for the decision of another one, want once", read)
			}
			if read := play(false); read != 0 {
				t.Errorf("a scheduler asked %d times for a decision that it has read", read)
			}
		})
		if born, _ := s.counts(); born != 4 || s.decisions() != 4 {
			t.Errorf("%d tasks and %d decisions, want one for each of four ticks", born, s.decisions())
		}
	})
}

// Held fires go back when the scheduler ends, are kept when that takes long, and still have one
// task if they are redelivered meanwhile. A forged fire delays nothing.
func TestFiresAreHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		var back, kept, twice, strange *testLease
		far := s.now().Add(20 * time.Second)
		s.play(t, func() {
			soon := s.now().Add(schedule.Ahead + schedule.Grace) // as a later version may set its timers
			for name, tick := range map[string]time.Time{"kept": soon, "strange": s.now().AddDate(1, 0, 0)} {
				s.define(name, "", tick, false)
			}
			kept, strange = s.fire("kept", 1, soon), s.fire("strange", 1, s.now().AddDate(1, 0, 0))
			pass(schedule.Ahead)
			if born, _ := s.counts(); !strange.acked || born > 0 {
				t.Errorf("a fire of next year is done with: %t, and %d tasks are born; want it done with and none", strange.acked, born)
			}
			twice = s.fire("kept", 2, soon)
			pass(schedule.Grace + 50*time.Millisecond)
			s.wantBorn(t, "kept", soon, kept)
			if kept.extended < 3 || twice.acked {
				t.Errorf("a fire that was held for 11s was extended %d times, want more; the one that came again was dealt with: %t", kept.extended, twice.acked)
			}
			s.define("back", "", far, false)
			back = s.fire("back", 1, far)
			pass(100 * time.Millisecond)
		})
		if !back.returned || back.acked || kept.returned {
			t.Errorf("a fire that was held at the end is returned: %t, want true", back.returned)
		}
	})
}

// A sweep may find each time that a schedule has no timer, because its ticks are as close as the
// sweeps. The timer is missing only if the schedule does not fire any more.
func TestTimersBetweenTwoFires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		one := New(s, nil, nil, Config{Schedules: s, Ticks: s, Births: s, Now: s.now, Log: slog.New(slog.DiscardHandler)})
		start := s.now()
		s.define("often", "", start, false)
		s.define("never", "", start, false)
		for range 12 {
			s.fire("often", 1, s.now().Add(schedule.Ahead))
			if err := one.sweepSchedules(t.Context()); err != nil {
				t.Fatal(err)
			}
			pass(5 * time.Second)
		}
		if n := one.Repairs()[RepairSchedule]; n == 0 || s.next("never").IsZero() || !s.next("often").IsZero() {
			t.Errorf("%d timers were set, that of often for %v and that of never for %v; want the latter alone", n, s.next("often"), s.next("never"))
		}
	})
}

// The author of a change may die before setting the timer. A timer of an earlier revision counts as
// missing after a delay in which it may still be set. A timer that was seen is not requested again.
func TestTimerOfAnEarlierRevision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, 0)
		one := New(s, nil, nil, Config{Schedules: s, Ticks: s, Births: s, Now: s.now, Log: slog.New(slog.DiscardHandler)})
		start := s.now()
		s.define("s", "", start, false)
		far := schedule.Tick{At: start.Add(99 * time.Hour), Due: start.Add(99 * time.Hour)}
		if err := s.ArmSchedule(t.Context(), "s", 1, far, true); err != nil {
			t.Fatal(err)
		}
		sweep := func() {
			t.Helper()
			if err := one.sweepSchedules(t.Context()); err != nil {
				t.Fatal(err)
			}
			pass(5 * time.Second)
		}
		for range 6 {
			sweep()
		}
		if next := s.next("s"); !next.Equal(far.At) {
			t.Fatalf("the timer of the present revision was set anew, for %v", next)
		}
		s.define("s", "", start, false) // revision 2 without a timer
		sweep()
		if next := s.next("s"); !next.Equal(far.At) {
			t.Fatalf("the timer was set at once, for %v; whoever has changed the schedule may be about to", next)
		}
		for range 5 {
			sweep()
		}
		if next := s.next("s"); next.Equal(far.At) || one.Repairs()[RepairSchedule] != 1 {
			t.Fatalf("the timer is for %v after %d repairs; want it set anew, once", next, one.Repairs()[RepairSchedule])
		}
	})
}
