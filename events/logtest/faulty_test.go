package logtest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seeds = flag.Uint64("seeds", 300, "how many seeds to try")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const id = task.ID("01JNA0TASK0000000000000000")

func world(seed uint64, share float64) (*logtest.Faulty, func(actor string) *events.Recorder) {
	clock := func() time.Time { return noon }
	log := logtest.NewFaulty(events.NewMemory(clock, time.Minute), seed, share)
	var ids atomic.Uint64
	return log, func(actor string) *events.Recorder {
		return &events.Recorder{Log: log, Actor: actor, Now: clock,
			NewID: func(time.Time) string { return fmt.Sprintf("01JNA0%020d", ids.Add(1)) }}
	}
}

// perSeed runs a body under many seeds and names the failing one.
func perSeed(t *testing.T, body func(t *testing.T, seed uint64)) {
	t.Helper()
	for seed := range *seeds {
		body(t, seed)
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}

func TestRecorderRecordsOnce(t *testing.T) {
	faults := 0
	perSeed(t, func(t *testing.T, seed uint64) {
		log, recorder := world(seed, 0.6)
		r, ctx := recorder("n1"), t.Context()
		if _, err := r.Submit(ctx, id, task.Submitted{Work: work()}); err != nil {
			t.Fatal(err)
		}
		now := load(t, r)
		commands := []func() task.Command{
			func() task.Command { return task.Claim{Node: "n1", Offer: 1, After: now.Turn} },
			func() task.Command { return task.Release{Epoch: now.Epoch, Reason: "shutdown"} },
			func() task.Command { return task.Claim{Node: "n2", Offer: 2, After: now.Turn} },
			func() task.Command { return task.Cancel{Reason: "no longer needed"} },
			func() task.Command { return task.Stopped{Epoch: now.Epoch} },
			func() task.Command { return task.Reopen{Reason: "needed after all"} },
		}
		var want []task.Event
		for _, c := range commands {
			var e task.Event
			var err error
			if now, e, err = r.Do(ctx, now, c()); err != nil || e == nil {
				t.Fatalf("%T: %v, %v", c(), e, err)
			}
			want = append(want, e)
		}
		log.Settle() // writes still under way must change nothing
		records := chain(t, log)
		if len(records) != len(want) {
			t.Fatalf("the chain has %d facts after %d commands", len(records), len(want))
		}
		for i := range want {
			if got, want := records[i].Fact.Type, events.TypeOf(want[i]); got != want {
				t.Errorf("fact %d is %s, want %s", i, got, want)
			}
		}
		if read, err := r.Load(ctx, id); err != nil || read.State != now.State || read.Head != now.Head {
			t.Errorf("Do left the task %s at %d, the log has it %s at %d (%v)", now.State, now.Head, read.State, read.Head, err)
		}
		faults += log.Faults()
	})
	if faults == 0 {
		t.Error("no answer was lost, so nothing was tested")
	}
}

// Several actors work with outdated knowledge and lost answers: each event that Do reports is
// recorded once, and no other event is.
func TestRecordersRace(t *testing.T) {
	perSeed(t, func(t *testing.T, seed uint64) {
		log, recorder := world(seed, 0.3)
		if _, err := recorder("client").Submit(t.Context(), id, task.Submitted{Work: work()}); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		reported := map[events.Type]int{}
		for i := range 3 {
			r := recorder(fmt.Sprint("n", i))
			rng := rand.New(rand.NewPCG(seed, uint64(i)))
			wg.Go(func() {
				var now task.Task
				now.ID = id
				for range 8 {
					var e task.Event
					var err error
					now, e, err = r.Do(t.Context(), now, anyCommand(rng, now, i))
					if err != nil && !refusal(err) {
						t.Errorf("Do: %v", err)
						return
					}
					if e != nil {
						mu.Lock()
						reported[events.TypeOf(e)]++
						mu.Unlock()
					}
				}
			})
		}
		wg.Wait()
		log.Settle()
		recorded := map[events.Type]int{}
		var ids []string
		for _, r := range chain(t, log) {
			recorded[r.Fact.Type]++
			ids = append(ids, r.Fact.ID)
		}
		slices.Sort(ids)
		if len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("a fact is recorded twice: %v", ids)
		}
		for _, typ := range events.Types {
			if recorded[typ] != reported[typ] {
				t.Errorf("%s: %d recorded, %d reported", typ, recorded[typ], reported[typ])
			}
		}
	})
}

func TestNodeRecordsOnce(t *testing.T) {
	perSeed(t, func(t *testing.T, seed uint64) {
		log, recorder := world(seed, 0.6)
		r := recorder("n1")
		commands := []node.Command{node.Register{Session: "s1"}, node.Beat{Session: "s1"}, node.Drain{Session: "s1"}, node.Leave{Session: "s1"}, node.Register{Session: "s2"}}
		for _, c := range commands {
			if _, e, err := r.DoNode(t.Context(), "n1", c); err != nil || e == nil {
				t.Fatalf("%T: %v, %v", c, e, err)
			}
		}
		log.Settle()
		if records, err := log.Node(t.Context(), "n1", 0); err != nil || len(records) != len(commands) {
			t.Errorf("the node has %d facts after %d commands (%v)", len(records), len(commands), err)
		}
	})
}

// An offer that names a missing chain must not keep Do busy for ever.
func TestRecorderIgnoresWhatAnOfferSaysOfTheChain(t *testing.T) {
	log, recorder := world(1, 0)
	r := recorder("n1")
	for range 9 {
		if _, err := log.Place(t.Context(), r.Fact(id, task.Queued{Work: work(), Attempt: 2, After: 5})); err != nil {
			t.Fatal(err)
		}
	}
	now := load(t, r)
	now, _, err := r.Do(t.Context(), now, task.Claim{Node: "n1", Offer: 6, After: now.Turn})
	if err != nil || now.State != task.Running {
		t.Errorf("the claim left the task %s: %v", now.State, err)
	}
}

// What follows from a state becomes durable although answers are lost. Settling more than once
// leads to no second attempt.
func TestSettle(t *testing.T) {
	perSeed(t, func(t *testing.T, seed uint64) {
		log, recorder := world(seed, 0.6)
		r, ctx := recorder("n1"), t.Context()
		if _, err := r.Submit(ctx, id, task.Submitted{Work: work(), Due: noon.Add(-time.Second)}); err != nil {
			t.Fatal(err)
		}
		now := load(t, r)
		for attempt := 1; attempt <= 2; attempt++ {
			if now.State != task.Pending || !now.Offered {
				t.Fatalf("attempt %d: the task is %s, offered: %v", attempt, now.State, now.Offered)
			}
			var err error
			if now, _, err = r.Do(ctx, now, task.Claim{Node: "n1", Offer: now.Seq, After: now.Turn}); err != nil {
				t.Fatal(err)
			}
			if now, _, err = r.Do(ctx, now, task.Release{Epoch: now.Epoch}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := r.Settle(ctx, &now); err != nil {
					t.Fatal(err)
				}
			}
			now = load(t, r)
		}
		log.Settle()
		if n := len(chain(t, log)); n != 5 {
			t.Errorf("the chain has %d facts, want the birth, two starts and two releases", n)
		}
	})
}

func TestLoadOfNothing(t *testing.T) {
	_, recorder := world(1, 0)
	if _, err := recorder("n1").Load(t.Context(), id); !errors.Is(err, task.ErrUnknown) {
		t.Errorf("Load: %v, want ErrUnknown", err)
	}
}

func load(t *testing.T, r *events.Recorder) task.Task {
	t.Helper()
	now, err := r.Load(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return now
}

// deaf loses the answer of every write.
type deaf struct{ events.Log }

func (deaf) Append(context.Context, *events.Fact, uint64) (uint64, error) {
	return 0, events.ErrUnknown
}

func TestRecorderEndsWithItsContext(t *testing.T) {
	_, recorder := world(1, 0)
	r := recorder("n1")
	r.Log = deaf{r.Log}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := r.Do(ctx, task.Task{ID: id}, task.Claim{Node: "n1"})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, events.ErrUnknown) {
		t.Errorf("Do: %v, want the context's error and ErrUnknown", err)
	}
	_, _, err = r.DoNode(ctx, "n1", node.Register{Session: "s1"})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, events.ErrUnknown) {
		t.Errorf("DoNode: %v, want the context's error and ErrUnknown", err)
	}
}

func work() task.Work { return task.Work{Spec: &job.Spec{Handler: "noop"}, Route: "default.5"} }

func chain(t *testing.T, log events.Log) []events.Record {
	t.Helper()
	records, err := log.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(records, func(r events.Record) bool { return r.Kind != events.KindChain })
}

func anyCommand(rng *rand.Rand, t task.Task, i int) task.Command {
	switch rng.IntN(6) {
	case 0:
		return task.Cancel{Reason: "chance"}
	case 1:
		return task.Reopen{Reason: "chance"}
	case 2:
		return task.Finish{Epoch: t.Epoch}
	case 3:
		return task.Lose{Epoch: t.Epoch, Reason: "chance"}
	}
	return task.Claim{Node: fmt.Sprint("n", i), Offer: uint64(i + 1), After: t.Turn, Account: &task.Account{Epoch: t.Epoch, Session: t.Session}}
}

func refusal(err error) bool {
	for _, known := range []error{task.ErrUnknown, task.ErrEnded, task.ErrRunning, task.ErrStale, task.ErrFenced, task.ErrNotWaiting, task.ErrLeased} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}
