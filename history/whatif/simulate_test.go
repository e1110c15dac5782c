package whatif_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/history/whatif"
	"millrace/task"
	"millrace/task/duties"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

// ready makes a node with slots serve the queue from the beginning.
func (w *written) ready(name node.ID, slots int) {
	w.add(0, events.KindNode, events.Fact{Node: name, Event: node.Registered{Session: "s", Profile: node.Profile{Slots: slots, Queues: []string{"default"}, TTL: value.Duration(15 * s)}}})
	w.add(0, events.KindNode, events.Fact{Node: name, Event: node.WentOnline{Session: "s"}})
}

func simulate(t *testing.T, log []events.Record, from uint64, sets ...string) *whatif.Simulated {
	t.Helper()
	other, err := whatif.Parse(sets, whatif.Only{})
	if err != nil {
		t.Fatal(err)
	}
	var p whatif.Player
	for i := range log {
		if err := p.Add(&log[i]); err != nil {
			t.Fatal(err)
		}
	}
	return simulated(t, &p, from, duties.Settings{StartDeadline: 5 * time.Minute, AckWait: 30 * s, Slack: 3 * s}, other)
}

func simulated(t testing.TB, p *whatif.Player, from uint64, settings duties.Settings, other verify.Other) *whatif.Simulated {
	t.Helper()
	is, err := p.Simulate(from, settings, other)
	if err != nil {
		t.Fatal(err)
	}
	return is
}

// queue is a hand-written log of four tasks, one second apart, that run for three seconds each on a
// node with two slots: none starts before there is a place, and each starts some milliseconds
// after.
func queue(t *testing.T, spec job.Spec) []events.Record {
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	w.ready("n", 2)
	offers := map[int]uint64{}
	epochs := map[int]uint64{}
	born := func(n int, at time.Duration) {
		offers[n] = w.born(at, n, spec, func(k *task.Work) {
			if spec.Limited() {
				k.Holds = []string{task.HoldLimit}
			}
		})
	}
	starts := func(n int, at time.Duration) {
		if spec.Limited() {
			offers[n] = w.add(at-4*ms, events.KindOffer, events.Fact{Task: id(n), Event: task.AdmittedOffer(*w.tasks[id(n)], 0)})
		}
		epochs[n] = w.starts(at, n, offers[n])
	}
	finishes := func(n int, at time.Duration) { w.do(at, n, task.Finish{Epoch: epochs[n]}) }
	born(1, 0)
	starts(1, 5*ms)
	born(2, 1000*ms)
	starts(2, 1004*ms)
	born(3, 2000*ms)
	born(4, 3000*ms)
	finishes(1, 3005*ms)
	starts(3, 3009*ms)
	finishes(2, 4004*ms)
	starts(4, 4010*ms)
	finishes(3, 6009*ms)
	w.fails(7010*ms, 4, epochs[4], value.Exit)
	return w.log
}

const ms = time.Millisecond

// Without a change, the starts are as recorded, except for the delay between a place and a start;
// and so are the ends.
func TestPlayedAsRecorded(t *testing.T) {
	t.Parallel()
	log := queue(t, job.Spec{})
	for from := range uint64(len(log)) {
		r := simulate(t, log, from+1)
		if r.Misses.Max.Std() > r.Handover.Std()+ms || r.Misses.SameEnd != r.Misses.Ends || len(r.Tasks) > 0 {
			t.Errorf("from #%d: %+v", from+1, r)
		}
	}
	r := simulate(t, log, 1)
	if r.Misses.Starts != 4 || r.Misses.Max.Std() > ms || r.Misses.Ends != 4 || r.Attempts[whatif.Recorded] != 4 || r.Queues[0].Is.Most != 2 {
		t.Errorf("%+v", r)
	}
}

// A function with steps waits as recorded, and goes on behind its wait.
func TestPlayedFunctions(t *testing.T) {
	t.Parallel()
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	w.ready("n", 2)
	offer := w.born(0, 1, job.Spec{})
	epoch := w.starts(5*ms, 1, offer)
	w.do(1000*ms, 1, task.Remember{Epoch: epoch, Steps: []task.Step{{Name: "charge", Kind: task.StepDo}}})
	w.do(2005*ms, 1, task.Suspend{Epoch: epoch, First: 1, Park: task.Park{Step: "night", Kind: task.StepSleep, Until: noon.Add(62 * s)}})
	due := task.Due{Route: "default.5", After: w.tasks[id(1)].Turn, Due: noon.Add(62 * s)}
	offer = w.add(62*s, events.KindOffer, events.Fact{Task: id(1), Event: due})
	epoch = w.do(62*s+5*ms, 1, task.Claim{Node: "n", Session: "s", Offer: offer, After: w.tasks[id(1)].Turn})
	w.do(63*s, 1, task.Suspend{Epoch: epoch, First: 2, Park: task.Park{Step: "yes", Kind: task.StepAwait}})
	w.do(70*s, 1, task.Unhold{Hold: task.HoldSignal, Inputs: []byte(`{"yes":{"data":1}}`)})
	offer = w.add(70*s+ms, events.KindOffer, events.Fact{Task: id(1), Event: task.Queued{Work: w.tasks[id(1)].Work, Attempt: 3, After: w.tasks[id(1)].Turn}})
	epoch = w.do(70*s+5*ms, 1, task.Claim{Node: "n", Session: "s", Offer: offer, After: w.tasks[id(1)].Turn})
	w.do(71*s, 1, task.Finish{Epoch: epoch})
	for from := range uint64(len(w.log)) {
		r := simulate(t, w.log, from+1)
		if r.Misses.Ends != r.Misses.SameEnd || len(r.Tasks) > 0 || r.Misses.Max.Std() > 10*ms {
			t.Errorf("from #%d: %+v", from+1, r)
		}
	}
	if r := simulate(t, w.log, 1); r.Attempts[whatif.Recorded] != 1 || r.Misses.Ends != 1 {
		t.Errorf("%+v", r)
	}
}

// Under other settings tasks start, end and are retried as the rules say.
func TestPlayedOtherwise(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		log  []events.Record
		set  string
		sum  whatif.Sum
		task int // the task in question
		is   whatif.Lot
		sure string
	}{
		"one at a time": {queue(t, job.Spec{Concurrency: limit.Concurrencies{{Max: 2}}}), "concurrency.max=1", whatif.Sum{Tasks: 4, Later: 3}, 4,
			whatif.Lot{Started: noon.Add(9019 * ms), State: "error", Reason: "exit", Attempts: 1}, whatif.Recorded},
		"a retry": {queue(t, job.Spec{}), "retry.max=1", whatif.Sum{Tasks: 4, Finished: 1, Retried: 1}, 4,
			whatif.Lot{Started: noon.Add(4008 * ms), State: "finished", Attempts: 2}, whatif.Median},
		"too long": {queue(t, job.Spec{}), "timeout.run=2s", whatif.Sum{Tasks: 4, Sooner: 2, Unended: 3}, 3,
			whatif.Lot{Started: noon.Add(2008 * ms), State: "error", Reason: "timeout", Attempts: 1}, whatif.Recorded},
		"too late": {queue(t, job.Spec{}), "timeout.pending=500ms", whatif.Sum{Tasks: 4, Sooner: 1, Unended: 1}, 3,
			whatif.Lot{State: "abnormal", Reason: "expired"}, whatif.Recorded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := simulate(t, c.log, 1, c.set)
			if r.Misses.Max.Std() > 3*ms || r.Sum != c.sum {
				t.Errorf("%+v, want %+v; %+v", r.Sum, c.sum, r)
			}
			for _, f := range r.Tasks {
				if f.Task != id(c.task) {
					continue
				}
				if off := f.Is.Started.Sub(c.is.Started).Abs(); off > 10*ms || f.Is.State != c.is.State || f.Is.Reason != c.is.Reason || f.Is.Attempts != c.is.Attempts || f.Sure != c.sure {
					t.Errorf("%+v, want %+v, %s", f, c.is, c.sure)
				}
				return
			}
			t.Errorf("nothing is said of task %d: %+v", c.task, r.Tasks)
		})
	}
}

// Rates, budgets, breakers and windows that tasks did not have decide when they would have started.
func TestPlayedUnderRules(t *testing.T) {
	t.Parallel()
	calendar := func(w *written) {
		text := []byte(`{"name":"late","rules":[{"closed":"2026-03-01 11:00-12:10"}]}`)
		def := task.Named(task.DefCalendar, "late")
		w.add(0, events.KindDefinition, events.Fact{Def: def, Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: text, Digest: task.DigestOf(text)}}})
	}
	for name, c := range map[string]struct {
		set    string
		starts map[int]time.Duration // of some of 20 tasks, of the first that starts otherwise
	}{
		"a rate":   {`rate={"limit":1}`, map[int]time.Duration{2: s, 11: 10 * s, 20: 19 * s}},
		"a budget": {`budget={"starts":5}`, map[int]time.Duration{6: 12 * time.Hour, 10: 12 * time.Hour, 11: 36 * time.Hour, 20: 60 * time.Hour}},
		"a window": {"window=late", map[int]time.Duration{1: 10 * time.Minute, 20: 10 * time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := crowded(t, 20, 100, job.Spec{Handler: "x"})
			calendar(w)
			r := simulate(t, w.log, 1, c.set)
			is := map[task.ID]whatif.Fare{}
			for _, f := range r.Tasks {
				is[f.Task] = f
			}
			for n, at := range c.starts {
				if off := is[nth(n)].Is.Started.Sub(noon.Add(at)); off < 0 || off > 10*ms {
					t.Errorf("task %d: %+v, want its start at %v", n, is[nth(n)], at)
				}
			}
			if first := slices.Min(slices.Collect(maps.Keys(c.starts))); len(is) != 21-first {
				t.Errorf("%d tasks otherwise, want %d", len(is), 21-first)
			}
		})
	}
}

// A breaker that tasks did not have opens with the third failure: the tasks after it wait for the end
// of its cooldown, and then start one by one.
func TestPlayedUnderBreaker(t *testing.T) {
	t.Parallel()
	w := crowded(t, 40, 1, job.Spec{Handler: "x"})
	var ends []*events.Record
	late := 0 // tasks that start when it is open
	for i := range w.log {
		switch w.log[i].Fact.Event.(type) {
		case task.AttemptFailed:
			ends = append(ends, &w.log[i])
		case task.AttemptStarted:
			if len(ends) > 2 {
				late++
			}
		}
	}
	third := ends[2]
	for _, from := range []uint64{1, third.Seq} { // it counts what failed before, too
		r := simulate(t, w.log, from, `breaker={"failures":3,"cooldown":"1m"}`)
		if late == 0 || r.Sum.Later != late || len(r.Tasks) != late {
			t.Errorf("from #%d: %d tasks would have started with an open breaker, and %+v", from, late, r.Sum)
		}
		for n, f := range r.Tasks {
			if earliest := third.Fact.At.Add(time.Duration(n+1) * time.Minute); f.Is.Started.Before(earliest) || f.Is.State != "error" {
				t.Errorf("from #%d: the breaker opens at %v, and then there is %+v", from, third.Fact.At, f)
			}
		}
	}
}

// A node falls silent at noon, which is found out 16 s later, while it runs a task of one minute;
// the other node takes it over. With shorter heartbeats the takeover comes sooner.
func TestPlayedTakeover(t *testing.T) {
	t.Parallel()
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	w.ready("m", 1)
	w.ready("n", 1)
	offer := w.born(s, 1, job.Spec{})
	w.starts(2*s, 1, offer)
	w.add(16*s, events.KindNode, events.Fact{Node: "n", Actor: "scheduler", Event: node.WentOffline{Session: "s", Lost: true, Reason: node.RanOut}})
	w.do(16*s, 1, task.Lose{Epoch: w.tasks[id(1)].Epoch, Reason: "lost"})
	again, _ := task.NextOffer(w.tasks[id(1)])
	offer = w.add(16*s, events.KindOffer, events.Fact{Task: id(1), Event: again})
	k := w.tasks[id(1)]
	e, err := k.Decide(task.Claim{Node: "m", Session: "s", Offer: offer, After: k.Turn}, noon.Add(17*s))
	if err != nil {
		t.Fatal(err)
	}
	epoch := w.add(17*s, events.KindChain, events.Fact{Task: id(1), Event: e})
	w.do(77*s, 1, task.Finish{Epoch: epoch})
	r := simulate(t, w.log, 1)
	if r.Misses != (whatif.Misses{Starts: 1, Ends: 1, SameEnd: 1}) {
		t.Errorf("%+v", r)
	}
	for ttl, ends := range map[string]time.Duration{"5s": 67 * s, "20s": 82 * s} {
		r = simulate(t, w.log, 1, "node_ttl="+ttl)
		if len(r.Tasks) != 1 || !r.Tasks[0].Is.Ended.Equal(noon.Add(ends)) || r.Tasks[0].Is.Losses != 1 {
			t.Errorf("heartbeats of %s: %+v", ttl, r.Tasks)
		}
	}
}

// Logs of earlier versions can be played. A log of real nodes ends as recorded, with the recorded
// starts.
func TestCorpusPlayedAsRecorded(t *testing.T) {
	t.Parallel()
	exports, err := filepath.Glob("../../events/testdata/corpus/log/v*/*.jsonl")
	if err != nil || len(exports) < 3 {
		t.Fatal(exports, err)
	}
	for _, name := range exports {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		var p whatif.Player
		r, err := events.NewExportReader(file)
		for err == nil {
			var record events.Record
			if record, err = r.Next(); err == nil {
				err = p.Add(&record)
			}
		}
		if file.Close(); !errors.Is(err, io.EOF) {
			t.Fatal(name, err)
		}
		settings := duties.Settings{StartDeadline: 2 * time.Minute, AckWait: 6 * s, Slack: 3 * s}
		is := simulated(t, &p, 1, settings, whatif.Config{}.Other)
		t.Logf("%s: %d tasks, %+v", filepath.Base(name), is.Sum.Tasks, is.Misses)
		if is.Sum.Tasks == 0 || filepath.Base(name) == "session.jsonl" && (is.Misses.SameEnd < is.Misses.Ends || is.Misses.Starts < 30 || is.Misses.P90.Std() > 100*ms) {
			t.Errorf("%s: %+v", name, is)
		}
		if is = simulated(t, &p, 100, settings, whatif.Config{}.Other); filepath.Base(name) == "session.jsonl" && (is.Misses.SameEnd < is.Misses.Ends || is.Misses.Starts < 20 || is.Misses.P90.Std() > 100*ms) {
			t.Errorf("%s, from the middle: %+v", name, is)
		}
	}
}
