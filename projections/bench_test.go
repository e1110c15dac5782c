package projections

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"millrace/events"
	"millrace/projections/past"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/quota"
	"millrace/task/value"
)

// BenchmarkProject folds the three facts of no-op tasks. In "drain" they closely follow each other,
// as when workers keep up; in "backlog" all births come before the first start, as when they do
// not. "observed" is "drain" with an observer that does nothing; "labelled" is "drain" with tasks
// that have labels and come from a schedule.
func BenchmarkProject(b *testing.B) {
	b.Run("drain", func(b *testing.B) { benchmarkProject(b, 100, nil) })
	b.Run("observed", func(b *testing.B) { benchmarkProject(b, 100, []Observer{idle{}}) })
	b.Run("backlog", func(b *testing.B) { benchmarkProject(b, b.N, nil) })
	b.Run("labelled", func(b *testing.B) { benchmarkProject(b, 100, nil, labels) })
}

// BenchmarkProjectFew folds the facts of few tasks at a time, as when workers have little to do.
func BenchmarkProjectFew(b *testing.B) {
	records := noops(b, b.N, 1)
	store, err := Open(filepath.Join(b.TempDir(), "read.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	f, err := newFold(b.Context(), store, DefaultCacheSize)
	if err != nil {
		b.Fatal(err)
	}
	defer f.w.close()
	before := processorTime()
	b.ReportAllocs()
	b.ResetTimer()
	for some := range slices.Chunk(records, 3) {
		if err := f.apply(b.Context(), some); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
}

type idle struct{}

func (idle) Observe([]events.Step) {}

// labels gives a task labels and a schedule.
func labels(w *task.Work) {
	w.Labels, w.Schedule = map[string]string{"team": "images", "tier": "gold"}, "nightly"
}

func benchmarkProject(b *testing.B, ahead int, o []Observer, with ...func(*task.Work)) {
	records := noops(b, b.N, ahead, with...)
	store, err := Open(filepath.Join(b.TempDir(), "read.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	p := Projector{Log: &recorded{records: records}, Store: store, Observers: o}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	runtime.GC()
	before := processorTime()
	b.ReportAllocs()
	b.ResetTimer()
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if err := store.Wait(ctx, uint64(len(records))); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
	cancel()
	<-ended
}

// BenchmarkProjectTicks folds the fire, the decision and the birth of ticks of 20,000 schedules, each of
// which has had one before.
func BenchmarkProjectTicks(b *testing.B) {
	const schedules = 20_000
	spec := &job.Spec{Handler: "noop"}
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	var records []events.Record
	add := func(kind events.Kind, f events.Fact) {
		f.ID, f.At = ulidAt(at, len(records)), at
		raw, err := events.Encode(nil, &f)
		if err == nil {
			f, err = events.Decode(raw)
		}
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, events.Record{Seq: uint64(len(records) + 1), Kind: kind, Fact: f, Raw: raw})
	}
	for i := range schedules + b.N {
		at = at.Add(200 * time.Microsecond)
		name, id := fmt.Sprint("s", i*7919%schedules), task.ID(ulidAt(at, i))
		add(events.KindFire, events.Fact{Schedule: name, Event: task.ScheduleFired{Revision: 1, Tick: at, Due: at}})
		add(events.KindTick, events.Fact{Schedule: name, Event: task.ScheduleAdmitted{Revision: 1, Tick: at, Due: at, Made: id, Ledger: task.Ledger{Last: at}}})
		work := task.Work{Spec: spec, Route: "default.5", Origin: task.Origin{Schedule: name, Tick: at}}
		add(events.KindOffer, events.Fact{Task: id, Event: task.Submitted{Work: work}})
	}
	store, err := Open(filepath.Join(b.TempDir(), "read.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	f, err := newFold(b.Context(), store, DefaultCacheSize)
	if err != nil {
		b.Fatal(err)
	}
	defer f.w.close()
	fold := func(records []events.Record) {
		for some := range slices.Chunk(records, DefaultMaxBatch) {
			if err := f.apply(b.Context(), some); err != nil {
				b.Fatal(err)
			}
		}
	}
	fold(records[:3*schedules])
	runtime.GC()
	before := processorTime()
	b.ReportAllocs()
	b.ResetTimer()
	fold(records[3*schedules:])
	b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// noops makes the records of n tasks, with up to ahead submitted and unfinished ones. Those of job
// fails fail, with their group in the message.
func noops(tb testing.TB, n, ahead int, with ...func(*task.Work)) []events.Record {
	tb.Helper()
	at := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	spec := &job.Spec{Run: &job.Run{Argv: []string{"true"}}, Retry: job.Retry{Max: 3}}
	records := make([]events.Record, 0, 3*n)
	births, fails := make([]uint64, 0, n), map[int]string{}
	add := func(i int, kind events.Kind, e task.Event) {
		at = at.Add(8333 * time.Nanosecond)
		f := events.Fact{ID: ulidAt(at, 3*i+int(kind)), At: at, Task: task.ID(ulidAt(time.UnixMilli(1785585600000+int64(i)/40), i)), Event: e}
		raw, err := events.Encode(nil, &f)
		if err != nil {
			tb.Fatal(err)
		}
		if f, err = events.Decode(raw); err != nil {
			tb.Fatal(err)
		}
		records = append(records, events.Record{Seq: uint64(len(records) + 1), Kind: kind, Fact: f, Raw: raw})
	}
	finish := func(i int) {
		add(i, events.KindChain, task.AttemptStarted{Attempt: 1, Node: "node-1", Session: "01JD6Z8V3M0QK4T7W2X9Y5ABCD", Offer: births[i]})
		if group, is := fails[i]; is {
			add(i, events.KindChain, task.AttemptFailed{Attempt: 1, Epoch: uint64(len(records)), Class: value.Exit, Message: "failed as planned" + group})
		} else {
			add(i, events.KindChain, task.AttemptFinished{Attempt: 1, Epoch: uint64(len(records))})
		}
	}
	for i := range n {
		work := task.Work{Job: "noop", Revision: 7, Spec: spec, Route: "default.5", Params: json.RawMessage(fmt.Sprintf(`{"n":%d}`, i))}
		for _, change := range with {
			change(&work)
		}
		if work.Job == "fails" {
			fails[i] = work.Group
		}
		add(i, events.KindOffer, task.Submitted{Work: work})
		births = append(births, uint64(len(records)))
		if i >= ahead {
			finish(i - ahead)
		}
	}
	for i := max(n-ahead, 0); i < n; i++ {
		finish(i)
	}
	return records
}

func ulidAt(t time.Time, n int) string {
	return firstID(t)[:10] + fmt.Sprintf("%016d", n)
}

// recorded is a log of given records, in the batches of a consumer.
type recorded struct{ records []events.Record }

func (l *recorded) Last(context.Context) (uint64, error) { return uint64(len(l.records)), nil }

func (l *recorded) Follow(_ context.Context, from uint64) (events.Feed, error) {
	return &recordedFeed{l.records[from-1:]}, nil
}

type recordedFeed struct{ records []events.Record }

func (f *recordedFeed) Next(ctx context.Context) ([]events.Record, error) {
	if len(f.records) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	n := min(DefaultMaxBatch, len(f.records))
	batch := f.records[:n]
	f.records = f.records[n:]
	return batch, nil
}

func (f *recordedFeed) Close() {}

// BenchmarkVisible waits for single facts in an idle read model.
func BenchmarkVisible(b *testing.B) {
	log := events.NewMemory(time.Now, time.Minute)
	r := recorder(log)
	store, err := Open("")
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&Projector{Log: log, Store: store}).Run(ctx) }()
	for b.Loop() {
		seq, err := r.Submit(ctx, task.ID(ulid.Make().String()), task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "noop"}, Route: "default.5"}})
		if err != nil {
			b.Fatal(err)
		}
		if err := store.Wait(ctx, seq); err != nil {
			b.Fatal(err)
		}
	}
	cancel()
	<-ended
}

// benchmarkQuery repeats a query, and measures processor time.
func benchmarkQuery(b *testing.B, name string, ask func() error) {
	b.Run(name, func(b *testing.B) {
		before := processorTime()
		for b.Loop() {
			if err := ask(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(processorTime()-before)/float64(b.N), "cpu-ns/op")
	})
}

// BenchmarkQueries queries a store of many tasks, a tenth of them pending, half of them with
// labels.
func BenchmarkQueries(b *testing.B) {
	const n = 100_000
	store, err := Open(filepath.Join(b.TempDir(), "read.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	f, err := newFold(b.Context(), store, DefaultCacheSize)
	if err != nil {
		b.Fatal(err)
	}
	labelled := 0
	records := noops(b, n, n/10, func(w *task.Work) {
		if labelled++; labelled%2 == 0 {
			labels(w)
		}
	})
	for rest := records[:3*n-2*n/10]; len(rest) > 0; {
		size := min(len(rest), DefaultMaxBatch)
		if err := f.apply(b.Context(), rest[:size]); err != nil {
			b.Fatal(err)
		}
		rest = rest[size:]
	}
	if err := f.w.close(); err != nil {
		b.Fatal(err)
	}
	for _, bm := range []struct {
		name   string
		filter view.Filter
	}{
		{"newest", view.Filter{}},
		{"pending", view.Filter{States: []task.State{task.Pending}}},
		{"pending-oldest", view.Filter{States: []task.State{task.Pending}, OldestFirst: true}},
		{"finished", view.Filter{States: []task.State{task.Finished}}},
		{"running", view.Filter{States: []task.State{task.Running, task.Cancelling}}},
		{"job", view.Filter{Job: "noop"}},
		{"no-such-job", view.Filter{Job: "none"}},
		{"no-such-text", view.Filter{Text: "none"}},
		{"no-such-short-text", view.Filter{Text: "qx"}},
		{"no-such-label", view.Filter{Labels: map[string]string{"a": "b"}}},
		{"no-such-schedule", view.Filter{Schedule: "none"}},
		{"no-such-batch", view.Filter{Batch: "none"}},
		{"no-such-priority", view.Filter{Priorities: []int{9}}},
		{"roots", view.Filter{Roots: true, States: []task.State{task.Finished}, Job: "none"}},
	} {
		benchmarkQuery(b, bm.name, func() error {
			_, err := store.tasks(b.Context(), bm.filter)
			return err
		})
	}
	page, err := store.tasks(b.Context(), view.Filter{States: []task.State{task.Finished}, Limit: 250})
	if err != nil {
		b.Fatal(err)
	}
	var ids []task.ID
	for i := range page.Tasks {
		ids = append(ids, page.Tasks[i].ID)
	}
	benchmarkQuery(b, "ends", func() error {
		_, _, err := store.Ends(b.Context(), ids)
		return err
	})
	for _, n := range []int{1, 10, 250} {
		benchmarkQuery(b, fmt.Sprintf("known-%d", n), func() error {
			_, err := store.Known(b.Context(), ids[:n])
			return err
		})
	}
	benchmarkQuery(b, "limited", func() error {
		_, _, err := store.EachLimited(b.Context(), func(quota.Stand, quota.Counters, *task.Grant) {})
		return err
	})
	b.Run("counts", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := store.Counts(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("waiting-none", func(b *testing.B) {
		for b.Loop() {
			if _, err := store.Waiting(b.Context(), "default", time.Unix(0, 0), "", 100); err != nil {
				b.Fatal(err)
			}
		}
	})
}

var pastTasks = flag.Int("past-tasks", 300_000, "how many tasks the read model of BenchmarkPast has")

// BenchmarkPast queries the past of tasks a third of which wait: "first" is the first query after the
// start, of the middle; "moment" is of another moment each time; those with "now" are of the present,
// and the others of the middle again. One in twenty tasks fails, and one in four has a label with one
// of 997 values. In "own", each task has a command, a label and a message that no other has.
func BenchmarkPast(b *testing.B) {
	b.Run("shared", func(b *testing.B) { benchmarkPast(b, func(int, *task.Work) {}) })
	b.Run("own", func(b *testing.B) {
		benchmarkPast(b, func(i int, w *task.Work) {
			own := fmt.Sprintf(" of %d", i*7919)
			w.Spec, w.Group = &job.Spec{Run: &job.Run{Argv: []string{"make", own}}}, own
			if i%4 == 1 {
				w.Labels = map[string]string{"env": "prod", "order": own}
			}
		})
	})
}

// taskLog is a log in memory that finds the records of a task as fast as a stream finds those of a
// subject.
type taskLog struct {
	view.Slice
	of map[task.ID]view.Slice
}

func newTaskLog(records []events.Record) taskLog {
	l := taskLog{records, map[task.ID]view.Slice{}}
	for i := range records {
		id := records[i].Fact.Task
		l.of[id] = append(l.of[id], records[i])
	}
	return l
}

func (l taskLog) About(ctx context.Context, ref view.Ref) ([]events.Record, error) {
	if ref.Kind == view.Tasks {
		return l.of[task.ID(ref.ID)].About(ctx, ref)
	}
	return l.Slice.About(ctx, ref)
}

func benchmarkPast(b *testing.B, with func(i int, w *task.Work)) {
	n, path := *pastTasks, filepath.Join(b.TempDir(), "read.db")
	store, err := Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	f, err := newFold(b.Context(), store, DefaultCacheSize)
	if err != nil {
		b.Fatal(err)
	}
	born := 0
	records := noops(b, n, n/3, func(w *task.Work) {
		if born++; born%20 == 0 {
			labels(w)
		}
		if born%20 == 7 {
			w.Job = "fails"
		}
		if born%4 == 0 {
			w.Labels = map[string]string{"env": "prod", "tenant": fmt.Sprintf("t%d", born%997)}
		}
		with(born, w)
	})
	for rest := records; len(rest) > 0; {
		size := min(len(rest), DefaultMaxBatch)
		if err := f.apply(b.Context(), rest[:size]); err != nil {
			b.Fatal(err)
		}
		rest = rest[size:]
	}
	if err := f.w.close(); err != nil {
		b.Fatal(err)
	}
	index, err := os.Stat(path + pastSuffix)
	if err != nil {
		b.Fatal(err)
	}
	log := newTaskLog(records)
	at := func(n int) view.Whole {
		return store.At(view.Point{Seq: records[n].Seq, At: records[n].Fact.At}, log)
	}
	ask := func(n int, f view.Filter) func() error {
		return func() error {
			_, err := at(n).List(b.Context(), view.Query{Kind: view.Tasks, Filter: f})
			return err
		}
	}
	count := func(n int, f view.Filter) error {
		_, err := at(n).Count(b.Context(), view.Query{Kind: view.Tasks, Filter: f})
		return err
	}
	benchmarkQuery(b, "first", func() error {
		rebound(b, store, past.UsualBounds)
		return count(len(records)/2, view.Filter{})
	})
	b.ReportMetric(float64(index.Size())/float64(n), "index-B/task")
	dice := rand.New(rand.NewPCG(1, 2))
	benchmarkQuery(b, "moment", func() error { return count(dice.IntN(len(records)), view.Filter{}) })
	benchmarkQuery(b, "moment-list", func() error { return ask(dice.IntN(len(records)), view.Filter{})() })
	middle := len(records) / 2
	benchmarkQuery(b, "counts", func() error { return count(middle, view.Filter{}) })
	text := func(s string) view.Filter { return view.Filter{Text: s} }
	label := func(k, v string) view.Filter { return view.Filter{Labels: map[string]string{k: v}} }
	for _, bm := range []struct {
		name   string
		filter view.Filter
	}{
		{"newest", view.Filter{}},
		{"pending", view.Filter{States: []task.State{task.Pending}}},
		{"finished", view.Filter{States: []task.State{task.Finished}}},
		{"label", label("env", "prod")},
		{"rare-label", label("tenant", "t7")},
		{"no-such-label", label("tenant", "none")},
		{"text", text("as planned")},
		{"rare-text", text("791900")},
		{"rare-own-label", label("order", " of 7919")},
		{"short-text", text("ed")},
		{"no-such-text", text("none")},
		{"no-such-short-text", text("qx")},
		{"no-such-job", view.Filter{Job: "none"}},
	} {
		benchmarkQuery(b, bm.name+"-now", func() error {
			_, err := store.tasks(b.Context(), bm.filter)
			return err
		})
		benchmarkQuery(b, bm.name+"-counts-now", func() error {
			_, err := store.Count(b.Context(), view.Query{Kind: view.Tasks, Filter: bm.filter})
			return err
		})
		if bm.filter.Text == "" {
			benchmarkQuery(b, bm.name, ask(middle, bm.filter))
			benchmarkQuery(b, bm.name+"-counts", func() error { return count(middle, bm.filter) })
		}
	}
	benchmarkQuery(b, "oldest", func() error {
		_, err := at(middle).Oldest(b.Context())
		return err
	})
	benchmarkQuery(b, "jobs", func() error {
		_, _, err := at(middle).LastOfJobs(b.Context())
		return err
	})
	benchmarkQuery(b, "limited", func() error {
		_, _, err := at(middle).EachLimited(b.Context(), func(quota.Stand, quota.Counters, *task.Grant) {})
		return err
	})
}

// BenchmarkPlanned asks what a grid of 50 schedules asks: for the tasks of a fortnight and of as many as an answer
// looks up at most, and for the skips, among many tasks.
func BenchmarkPlanned(b *testing.B) {
	n := *pastTasks
	store, err := Open(filepath.Join(b.TempDir(), "read.db"))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	f, err := newFold(b.Context(), store, DefaultCacheSize)
	if err != nil {
		b.Fatal(err)
	}
	at, spec := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC), &job.Spec{Run: &job.Run{Argv: []string{"true"}}}
	ids := make([]task.ID, n)
	var records []events.Record
	for i := range n {
		at = at.Add(10 * time.Millisecond)
		ids[i] = task.ID(ulidAt(at, i))
		work := task.Work{Job: "noop", Spec: spec, Route: "default.5", Origin: task.Origin{Schedule: fmt.Sprint("s", i%50), Tick: at}}
		is := events.Fact{ID: string(ids[i]), At: at, Task: ids[i], Event: task.Submitted{Work: work}}
		raw, err := events.Encode(nil, &is)
		if err != nil {
			b.Fatal(err)
		}
		records = append(records, events.Record{Seq: uint64(i + 1), Kind: events.KindOffer, Fact: is, Raw: raw})
		if len(records) == DefaultMaxBatch || i == n-1 {
			if err := f.apply(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			records = records[:0]
		}
	}
	if err := f.w.close(); err != nil {
		b.Fatal(err)
	}
	for _, looked := range []int{700, 1500} {
		from := 0
		benchmarkQuery(b, fmt.Sprint(looked), func() error {
			var some []task.ID
			for i := range looked {
				some = append(some, ids[(from+i*(n/looked))%n])
			}
			from += 17
			all, err := store.Planned(b.Context(), some)
			if err == nil && len(all) != looked {
				err = fmt.Errorf("%d of %d are known", len(all), looked)
			}
			return err
		})
	}
	benchmarkQuery(b, "skips", func() error { _, err := store.Skips(b.Context(), at.Add(-24*time.Hour)); return err })
}
