package whatif_test

import (
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/history/verify"
	"millrace/history/whatif"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/value"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// written is a log as programs write it: each decision is made by the rules, and names its inputs.
type written struct {
	t     testing.TB
	log   []events.Record
	tasks map[task.ID]*task.Task
}

func (w *written) add(at time.Duration, kind events.Kind, f events.Fact) uint64 {
	f.At, f.Type, f.ID = noon.Add(at), events.TypeOf(f.Event), events.NewID(noon.Add(at))
	w.log = append(w.log, events.Record{Seq: uint64(len(w.log) + 1), Stored: f.At, Kind: kind, Fact: f})
	r := &w.log[len(w.log)-1]
	if f.Task != "" {
		if w.tasks[f.Task] == nil {
			w.tasks[f.Task] = &task.Task{ID: f.Task}
		}
		w.tasks[f.Task].Apply(r.Task())
	}
	return r.Seq
}

// ids returns the ids of tasks, by number from 1.
func id(n int) task.ID { return task.ID("01JNAT0000000000000000000" + string(rune('0'+n))) }

func (w *written) born(at time.Duration, n int, spec job.Spec, with ...func(*task.Work)) uint64 {
	if spec.Handler == "" {
		spec.Handler = "x"
	}
	work := task.Work{Spec: &spec, Route: "default.5", Job: "j"}
	if p := spec.Timeout.Pending; p > 0 {
		work.StartBy = noon.Add(at + p.Std())
	}
	for _, change := range with {
		change(&work)
	}
	return w.add(at, events.KindOffer, events.Fact{Task: id(n), Event: task.Submitted{Work: work}})
}

func (w *written) do(at time.Duration, n int, c task.Command) uint64 {
	w.t.Helper()
	k := w.tasks[id(n)]
	e, err := k.Decide(c, noon.Add(at))
	if err != nil {
		w.t.Fatal(err)
	}
	return w.add(at, events.KindChain, events.Fact{Task: id(n), Event: e, By: k.DecidedBy(c, e)})
}

func (w *written) starts(at time.Duration, n int, offer uint64) uint64 {
	return w.do(at, n, task.Claim{Node: "n", Session: "s", Offer: offer})
}

func (w *written) fails(at time.Duration, n int, epoch uint64, class string) uint64 {
	return w.do(at, n, task.Fail{Epoch: epoch, Class: class})
}

// lost makes a node fall silent at noon, and be found lost when its heartbeat has expired.
func (w *written) lost(ttl time.Duration) {
	w.add(0, events.KindNode, events.Fact{Node: "n", Event: node.Registered{Session: "s", Profile: node.Profile{Slots: 1, Queues: []string{"default"}, TTL: value.Duration(ttl)}}})
	w.silent(0, ttl, func() {})
}

// silent makes a node come online, do something and fall silent, and be found lost when its
// heartbeat has expired.
func (w *written) silent(at, ttl time.Duration, do func()) {
	w.add(at, events.KindNode, events.Fact{Node: "n", Event: node.WentOnline{Session: "s"}})
	do()
	w.add(at+ttl+time.Second, events.KindNode, events.Fact{Node: "n", Actor: "scheduler", Event: node.WentOffline{Session: "s", Lost: true, Reason: node.RanOut},
		By: &task.By{Lease: &task.LeaseBy{At: noon.Add(at + ttl + time.Second), Beat: noon.Add(at + ttl), RanOut: true}}})
}

func judge(t *testing.T, log []events.Record, only whatif.Only, sets ...string) *whatif.Report {
	t.Helper()
	other, err := whatif.Parse(sets, only)
	if err != nil {
		t.Fatal(err)
	}
	j := whatif.New(whatif.Config{Other: other})
	for i := range log {
		if err := j.Add(&log[i]); err != nil {
			t.Fatal(err)
		}
	}
	return j.Report()
}

const s = time.Second

// Each other setting has an effect where it decides, and only there.
func TestOtherSettings(t *testing.T) {
	t.Parallel()
	failsOnce := func(retry job.Retry) func(*written) {
		return func(w *written) {
			w.fails(2*s, 1, w.starts(s, 1, w.born(0, 1, job.Spec{Retry: retry})), value.Exit)
		}
	}
	runs := func(timeout job.Timeout, waits, runs time.Duration, class string) func(*written) {
		return func(w *written) {
			epoch := w.starts(waits, 1, w.born(0, 1, job.Spec{Timeout: timeout}))
			if class != "" {
				w.fails(waits+runs, 1, epoch, class)
				return
			}
			w.do(waits+runs, 1, task.Finish{Epoch: epoch})
		}
	}
	lost := func(w *written) { w.lost(15 * s) }
	swept := func(w *written) {
		w.ready("n", 1)
		epoch := w.starts(2*s, 1, w.born(s, 1, job.Spec{}))
		w.add(26*s, events.KindNode, events.Fact{Node: "n", Actor: "scheduler", Event: node.WentOffline{Session: "s", Lost: true, Reason: node.RanOut},
			By: &task.By{Lease: &task.LeaseBy{At: noon.Add(26 * s), Beat: noon.Add(25 * s), RanOut: true}}})
		w.add(70*s, events.KindChain, events.Fact{Task: id(1), Actor: "scheduler", Event: task.AttemptLost{Attempt: 1, Epoch: epoch, Reason: "node n is offline"},
			By: &task.By{Rule: task.RuleDuty, Seen: epoch + 1, Task: epoch, Bounds: &task.Bounds{StartDeadline: value.Duration(5 * time.Minute), AckWait: value.Duration(30 * s), Slack: value.Duration(3 * s)}}})
	}
	again := func(w *written) {
		w.fails(2*s, 1, w.starts(s, 1, w.born(0, 1, job.Spec{})), value.Exit)
		w.do(3*s, 1, task.Reopen{Reason: "again"})
		offer, _ := task.NextOffer(w.tasks[id(1)])
		seq := w.add(3*s, events.KindOffer, events.Fact{Task: id(1), Event: offer})
		w.do(24*s, 1, task.Finish{Epoch: w.do(4*s, 1, task.Claim{Node: "n", Session: "s", Offer: seq, After: offer.After})})
	}
	breaks := func(failures int) func(*written) {
		return func(w *written) {
			breaker := &limit.Breaker{Failures: failures, Cooldown: value.Duration(time.Minute)}
			for n := 1; n <= 3; n++ {
				at := time.Duration(n) * 3 * s
				w.fails(at+2*s, n, w.starts(at+s, n, w.born(at, n, job.Spec{Breaker: breaker})), value.Exit)
			}
		}
	}
	expired := func(w *written) {
		offer := w.born(0, 1, job.Spec{Timeout: job.Timeout{Pending: value.Duration(10 * s)}})
		w.do(12*s, 1, task.Claim{Node: "n", Session: "s", Offer: offer})
	}
	missed := func(w *written) {
		text := `{"name":"nightly","schedule":{"every":"1m","start":"2026-03-01T12:01:00Z","catchup":"none"},"task":{"spec":{"handler":"x"}},"since":"2026-03-01T12:00:00Z"}`
		w.add(0, events.KindDefinition, events.Fact{Def: "schedule.nightly", Event: task.DefinitionApplied{Edition: task.Edition{Revision: 1, Text: json.RawMessage(text)}}})
		tick := noon.Add(time.Minute)
		fire := w.add(10*time.Minute, events.KindFire, events.Fact{Schedule: "nightly", Event: task.ScheduleFired{Tick: tick, Due: tick}})
		w.add(10*time.Minute, events.KindTick, events.Fact{Schedule: "nightly", Actor: "scheduler", By: &task.By{Offer: fire},
			Event: task.ScheduleSkipped{Tick: tick, Until: noon.Add(9 * time.Minute), Count: 9, Ledger: task.Ledger{Last: noon.Add(9 * time.Minute)}, Revision: 1, Reason: task.SkipMissed, Detail: "catchup is none"}})
	}
	for name, c := range map[string]struct {
		log  func(*written)
		sets []string
		only whatif.Only
		kind string // the kind of the single change; "" for none
		what string
	}{
		"nothing is other":                      {log: failsOnce(job.Retry{})},
		"retries, and there were none":          {failsOnce(job.Retry{}), []string{"retry.max=5"}, whatif.Only{}, whatif.Differs, "attempt 2 would have followed, due at 12:00:03.000, in 1s"},
		"retries of that job":                   {failsOnce(job.Retry{}), []string{"retry.max=5"}, whatif.Only{Job: "j"}, whatif.Differs, "attempt 2 would have followed"},
		"retries of another job":                {failsOnce(job.Retry{}), []string{"retry.max=5"}, whatif.Only{Job: "k"}, "", ""},
		"no retries":                            {failsOnce(job.Retry{Max: 2}), []string{"retry.max=0"}, whatif.Only{}, whatif.Differs, "no other attempt would have followed"},
		"more retries than it needs":            {failsOnce(job.Retry{Max: 2}), []string{"retry.max=3"}, whatif.Only{}, "", ""},
		"a longer pause":                        {failsOnce(job.Retry{Max: 2}), []string{"retry.min=5s"}, whatif.Only{}, whatif.Differs, "attempt 2 would have been due 4s later, at 12:00:07.000"},
		"a shorter pause":                       {failsOnce(job.Retry{Max: 2, Min: value.Duration(3 * s)}), []string{"retry.min=1s"}, whatif.Only{}, whatif.Differs, "due 2s sooner"},
		"not on that failure":                   {failsOnce(job.Retry{Max: 2}), []string{`retry.not_on=["exit"]`}, whatif.Only{}, whatif.Differs, "no other attempt"},
		"it waits for longer than it may":       {runs(job.Timeout{}, 20*s, s, ""), []string{"timeout.pending=10s"}, whatif.Only{}, whatif.Never, "expired"},
		"it waits for less":                     {runs(job.Timeout{}, 20*s, s, ""), []string{"timeout.pending=30s"}, whatif.Only{}, "", ""},
		"it would have had longer to wait":      {expired, []string{"timeout.pending=1m"}, whatif.Only{}, whatif.Differs, "attempt.started in place of it"},
		"it would have expired all the same":    {expired, []string{"timeout.pending=11s"}, whatif.Only{}, "", ""},
		"it runs for longer than it may":        {runs(job.Timeout{}, s, 20*s, ""), []string{"timeout.run=10s"}, whatif.Only{}, whatif.Never, "run timeout"},
		"stopped before a sweep finds it lost":  {swept, []string{"timeout.run=5s"}, whatif.Only{}, whatif.Never, "run timeout"},
		"its node had died before":              {swept, []string{"timeout.run=30s"}, whatif.Only{}, "", ""},
		"in its second life it runs too long":   {again, []string{"timeout.run=10s"}, whatif.Only{}, whatif.Never, "run timeout"},
		"it would have been stopped sooner":     {runs(job.Timeout{Run: value.Duration(5 * s)}, s, 6*s, value.Timeout), []string{"timeout.run=3s"}, whatif.Only{}, whatif.Never, "run timeout"},
		"it runs for less":                      {runs(job.Timeout{}, s, 20*s, ""), []string{"timeout.run=30s"}, whatif.Only{}, "", ""},
		"it would have had longer to run":       {runs(job.Timeout{Run: value.Duration(5 * s)}, s, 6*s, value.Timeout), []string{"timeout.run=10s"}, whatif.Only{}, whatif.Not, "would not have been stopped"},
		"no node serves, and the bound is less": {runs(job.Timeout{}, 2*time.Minute, s, ""), []string{"start_deadline=1m"}, whatif.Only{}, whatif.Never, "start timeout"},
		"heartbeats last less":                  {lost, []string{"node_ttl=10s"}, whatif.Only{}, whatif.AsSoon, "5s sooner"},
		"heartbeats last longer":                {lost, []string{"node_ttl=30s"}, whatif.Only{}, whatif.Not, "would have lasted until 2026-03-01T12:00:30Z"},
		"heartbeats last as long":               {lost, []string{"node_ttl=15s"}, whatif.Only{}, "", ""},
		"a breaker that bears less":             {breaks(5), []string{"breaker.failures=2"}, whatif.Only{}, whatif.Never, "breaker of job j would have opened"},
		"a breaker that bears enough":           {breaks(5), []string{"breaker.failures=4"}, whatif.Only{}, "", ""},
		"a breaker that nobody has":             {failsOnce(job.Retry{}), []string{"breaker.failures=1"}, whatif.Only{}, "", ""},
		"ticks are made up for":                 {missed, []string{"schedule.catchup=all"}, whatif.Only{}, whatif.Differs, "the planned run would have got its task; 9 planned runs from it on were left out"},
		"ticks of another schedule":             {missed, []string{"schedule.catchup=all"}, whatif.Only{Schedule: "other"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &written{t: t, tasks: map[task.ID]*task.Task{}}
			c.log(w)
			r := judge(t, w.log, c.only, c.sets...)
			if len(r.Mistakes) > 0 {
				t.Fatalf("the log itself is wrong: %+v", r.Mistakes)
			}
			if c.kind == "" {
				if len(r.Changes) > 0 || r.Decisions.Same != r.Decisions.All {
					t.Errorf("%+v", r)
				}
				return
			}
			if len(r.Changes) != 1 || r.Changes[0].Kind != c.kind || !strings.Contains(r.Changes[0].What, c.what) {
				t.Errorf("%+v\nwant one %q with %q", r.Changes, c.kind, c.what)
			}
		})
	}
}

// From a difference on, the task is unknown, and so is everything that depends on it: tasks that
// need it, its children, tasks under its limit. Tasks in its queue may have waited longer or
// shorter. Earlier records are untouched.
func TestWhatIsUnknown(t *testing.T) {
	t.Parallel()
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	done := func(at time.Duration, n int, with ...func(*task.Work)) {
		w.do(at+2*s, n, task.Finish{Epoch: w.starts(at+s, n, w.born(at, n, job.Spec{}, with...))})
	}
	done(0, 1)
	epoch := w.starts(4*s, 2, w.born(3*s, 2, job.Spec{Retry: job.Retry{Max: 1}}))
	w.fails(5*s, 2, epoch, value.Exit)
	done(10*s, 3, func(k *task.Work) { k.Needs = &task.Needs{Of: []task.Need{{Task: id(2)}}} })
	done(20*s, 4, func(k *task.Work) { k.Parent = id(2) })
	done(30*s, 5)
	done(40*s, 6, func(k *task.Work) { k.Route = "other.5" })
	r := judge(t, w.log, whatif.Only{}, "retry.max=0")
	var unknown []task.ID
	for _, u := range r.Unknown {
		unknown = append(unknown, u.Task)
	}
	if !slices.Equal(unknown, []task.ID{id(2), id(3), id(4)}) {
		t.Errorf("unknown are %+v", r.Unknown)
	}
	if r.Tasks != (whatif.Tasks{All: 6, Differ: 1, Unknown: 2, Later: 1, Same: 2}) {
		t.Errorf("%+v", r.Tasks)
	}
}

// A setting that affects no decision is refused, with the valid ones.
func TestSettingsThatDecideNothing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"retry.max": "sets nothing", "retri.max=5": "did you mean retry?", "retry.mux=5": `there is no field "mux"; there are avoid_node, avoid_wait, backoff, `, "retry.max=-1": "want 0 or more",
		"node_ttl=10": "with a unit", "run.shell=true": "decides nothing", "schedule.cetchup=all": `there is no field "cetchup"; there are at, `, "timeout=5s": "want one of its fields: ", "flap_limit=x": "want a number",
		"node_ttl=0s": "want more than 0", "retry.max=abc": "retry.max is a string, want a number", "retry.on=exit": "want a list", "retry=3": "retry is a number, want one of its fields: avoid_node, ",
		"schedule.catchup=sometimes": "want one of last, ", "schedule.every=-5s": "is negative", "concurrency.max=0": "nothing is left of concurrency", "concurrency.max=-1": "want 1 or more",
		"concurrency=5": "want one of its fields: key, max, on_limit", "rate.limit=0": "nothing is left of rate", "breaker.failures=0": "",
	} {
		_, err := whatif.Parse([]string{text}, whatif.Only{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := whatif.Parse([]string{"retry.max=5", "node_ttl=9s", "retry.max=6"}, whatif.Only{}); err == nil || err.Error() != "retry.max is there twice" {
		t.Errorf("retry.max twice: %v", err)
	}
}

// --set takes each field of a rule by itself.
func TestFieldsOfRules(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"rate.burst=5", "rate.limit=9", "concurrency.on_limit=skip", "concurrency.max=3", "budget.starts=7", "budget.per=week", "per_node.max=2", "breaker.cooldown=5s",
		"breaker.failures=4", "signal.timeout=1m", "retry.backoff=fixed", `retry.on=["exit=75"]`, "timeout.run=5s", `concurrency={"max":1}`, "schedule.overlap=skip", "window=nights",
	} {
		if _, err := whatif.Parse([]string{text}, whatif.Only{}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Every decision in logs of earlier versions and in the examples repeats under its own settings.
func TestCorpusComesOutTheSame(t *testing.T) {
	t.Parallel()
	exports, err := filepath.Glob("../../events/testdata/corpus/log/v*/*.jsonl")
	files, also := filepath.Glob("../../examples/incidents/*.mri")
	if len(exports) < 3 || len(files) < 2 || errors.Join(err, also) != nil {
		t.Fatal(exports, files)
	}
	decisions := 0
	same := func(name string, partial bool, each func(add func(*events.Record) error) error) {
		// New copies of specs take the path of other settings, and must change nothing.
		anew := verify.Other{Spec: func(_ string, spec *job.Spec) *job.Spec { c := *spec; return &c }}
		for _, other := range []verify.Other{{}, anew} {
			cfg := whatif.Config{Partial: partial, Other: other}
			if partial { // as files say that hold only what lived in their span
				cfg.Lacks = math.MaxUint64 - 1
			}
			j := whatif.New(cfg)
			if err := each(j.Add); err != nil {
				t.Fatal(name, err)
			}
			r := j.Report()
			if len(r.Mistakes) > 0 || len(r.Changes) > 0 || r.Tasks.All == 0 || r.Decisions.Same+r.Decisions.Unjudged != r.Decisions.All {
				t.Errorf("%s: %+v", name, r)
			}
			t.Logf("%s: %+v", filepath.Base(name), r.Decisions)
			if partial {
				decisions += r.Decisions.Same
			}
		}
	}
	for _, name := range exports {
		same(name, false, func(add func(*events.Record) error) error {
			file, err := os.Open(name)
			if err != nil {
				return err
			}
			defer file.Close()
			r, err := events.NewExportReader(file)
			for err == nil {
				var record events.Record
				if record, err = r.Next(); err == nil {
					err = add(&record)
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		})
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := incident.Open(data)
		if err != nil {
			t.Fatal(err)
		}
		same(name, true, func(add func(*events.Record) error) error {
			for r, err := range f.Facts() {
				if err == nil {
					err = add(&r)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	if decisions == 0 {
		t.Error("no decision of an incident file was made again")
	}
}

// A breaker that would have opened holds the later tasks of its job.
func TestWhatABreakerWouldHaveHeld(t *testing.T) {
	t.Parallel()
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	for n := 1; n <= 3; n++ {
		at := time.Duration(n) * 3 * s
		spec := job.Spec{Breaker: &limit.Breaker{Failures: 5, Cooldown: value.Duration(time.Minute)}}
		w.fails(at+2*s, n, w.starts(at+s, n, w.born(at, n, spec)), value.Exit)
	}
	r := judge(t, w.log, whatif.Only{}, "breaker.failures=2")
	if len(r.Changes) != 1 || r.Changes[0].About != "j" || r.Changes[0].Task != "" {
		t.Errorf("%+v, want one change, about job j", r.Changes)
	}
	if len(r.Unknown) != 1 || r.Unknown[0].Task != id(3) || !strings.Contains(r.Unknown[0].Why, "breaker of job j") {
		t.Errorf("unknown are %+v, want the task after it", r.Unknown)
	}
}

// What a node held when it was lost could have been found sooner as well, and may have waited
// otherwise; what it held when it was lost again could not.
func TestWhatIsLostSooner(t *testing.T) {
	t.Parallel()
	w := &written{t: t, tasks: map[task.ID]*task.Task{}}
	w.lost(15 * s)
	lose := func(at time.Duration, n int) {
		var epoch uint64
		w.silent(at, 15*s, func() { epoch = w.starts(at, n, w.born(at, n, job.Spec{})) })
		w.do(at+17*s, n, task.Lose{Epoch: epoch, Reason: "node n is offline"})
	}
	lose(time.Minute, 1)
	lose(2*time.Minute, 2)
	r := judge(t, w.log, whatif.Only{}, "node_ttl=10s")
	var follows []string
	for _, c := range r.Changes {
		follows = append(follows, c.Follows...)
	}
	const lost = "so could what was then found to be lost there: "
	if !slices.Equal(follows, []string{lost + "#8", lost + "#13"}) {
		t.Errorf("%q follow", follows)
	}
	if r.Tasks != (whatif.Tasks{All: 2, Later: 2}) {
		t.Errorf("%+v, want two that may have waited otherwise", r.Tasks)
	}
}
