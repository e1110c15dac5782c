package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/projections"
	worlds "millrace/projections/view"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/quota"
)

// The past of a log at any sequence equals a read model that was made of the log as it was then:
// every noun, lists and counts, and each thing by itself.
func TestPastIsWhatWasThen(t *testing.T) {
	var compared, limits, definitions, queues atomic.Int64
	each(max(min(*historiesFlag, 200)/20, *historiesFlag/100, 4), func(seed uint64) bool {
		v := variant{windowed: seed%2 == 0, crowded: seed%4 < 2, thrifty: seed%4 == 3}
		h := play(t, *firstFlag+seed, v)
		h.report(t)
		dice := rand.New(rand.NewPCG(seed, 17))
		now, closed := modelOf(t, h.records, 1+dice.IntN(100))
		defer closed()
		for range 6 {
			n := 1 + dice.IntN(len(h.records))
			if err := h.pastAgrees(t, now, n, dice, func(noun string) {
				compared.Add(1)
				switch noun {
				case "limit":
					limits.Add(1)
				case "definition":
					definitions.Add(1)
				case "queue":
					queues.Add(1)
				}
			}); err != nil {
				t.Errorf("seed %d at sequence %d: %v", *firstFlag+seed, h.records[n-1].Seq, err)
				return false
			}
		}
		return true
	})
	if !t.Failed() && (limits.Load() == 0 || definitions.Load() == 0 || queues.Load() == 0) {
		t.Errorf("of %d things compared %d were limits, %d definitions and %d queues", compared.Load(), limits.Load(), definitions.Load(), queues.Load())
	}
}

// pastAgrees compares the past after the first n records, as the read model of the whole log knows
// it and as it is folded, with what those records alone add up to.
func (h *history) pastAgrees(t *testing.T, now *projections.Store, n int, dice *rand.Rand, compared func(noun string)) error {
	then, closed := modelOf(t, h.records[:n], 0)
	defer closed()
	at := worlds.Point{Seq: h.records[n-1].Seq, At: h.records[n-1].Stored}
	err := h.pastIs(t, then, n, dice, nil, compared)
	if err == nil {
		err = h.pastIs(t, then, n, dice, now.At(at, worlds.Slice(h.records)), compared)
	}
	return err
}

// pastIs compares the past after the first n records, with an index or without one, with a model of
// them.
func (h *history) pastIs(t *testing.T, then *projections.Store, n int, dice *rand.Rand, index worlds.Whole, compared func(noun string)) error {
	ctx := t.Context()
	prefix, at := h.records[:n], worlds.Point{Seq: h.records[n-1].Seq, At: h.records[n-1].Stored}
	plain := worlds.NewMemory()
	for i := range prefix {
		plain.Add(&prefix[i])
	}
	past := worlds.Whole(worlds.FoldedAt(plain, worlds.Slice(h.records).About))
	if index != nil {
		past = index
	}
	same := func(noun string, have, want any, errs ...error) error {
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%s: %w", noun, err)
		}
		x, err := json.Marshal(have)
		y, err2 := json.Marshal(want)
		if err = errors.Join(err, err2); err != nil {
			return fmt.Errorf("%s: %w", noun, err)
		}
		if string(x) != string(y) {
			return fmt.Errorf("%s:\n%s\nwant\n%s", noun, x, y)
		}
		compared(noun)
		return nil
	}
	var errs []error
	add := func(err error) { errs = append(errs, err) }

	for kind, noun := range map[worlds.Kind]string{worlds.Nodes: "nodes", worlds.Queues: "queues"} {
		have, err := past.List(ctx, worlds.Query{Kind: kind})
		want, err2 := then.List(ctx, worlds.Query{Kind: kind})
		add(same(noun, [2]any{have.Nodes, have.Queues}, [2]any{want.Nodes, want.Queues}, err, err2))
		for i := range want.Nodes {
			is, err := worlds.GetNode(ctx, past, want.Nodes[i].ID)
			add(same("node", is, want.Nodes[i], err))
		}
		for i := range want.Queues {
			is, err := worlds.GetQueue(ctx, past, want.Queues[i].Name)
			add(same("queue", is, want.Queues[i], err))
		}
	}
	page, err := past.List(ctx, worlds.Query{Kind: worlds.Definitions})
	defs := map[task.Def][]events.Record{}
	for i := range prefix {
		if r := &prefix[i]; r.Kind == events.KindDefinition && r.Fact.Def != "" {
			defs[r.Fact.Def] = append(defs[r.Fact.Def], *r)
		}
	}
	add(same("definitions", slices.Sorted(maps.Keys(page.Definitions)), slices.Sorted(maps.Keys(defs)), err))
	for def, facts := range defs {
		is, err := past.Get(ctx, worlds.Definition(def))
		add(same("definition", []any{page.Definitions[def], *is.Definition}, []any{events.FoldDefinition(facts), events.FoldDefinition(facts)}, err))
	}

	for _, f := range []worlds.Filter{
		{Limit: worlds.MaxLimit}, {Limit: 7, OldestFirst: true}, {States: []task.State{task.Pending, task.Held}}, {Queue: windowedQueue}, {Node: "n1"},
		{Roots: true, Limit: 3}, {Dead: true}, {Text: "a"}, {Priorities: []int{placement.DefaultPriority}},
	} {
		q := worlds.Query{Kind: worlds.Tasks, Filter: f}
		have, err := past.List(ctx, q)
		if index != nil && f.Text != "" { // texts are searched in the present only
			if !errors.Is(err, worlds.ErrUnindexed) {
				add(fmt.Errorf("a text of the past: %w", err))
			}
			continue
		}
		want, err2 := then.List(ctx, q)
		add(same("tasks", []any{append([]task.Task{}, have.Tasks...), have.Next}, []any{append([]task.Task{}, want.Tasks...), want.Next}, err, err2))
		for i := range want.Tasks {
			is, err := worlds.GetTask(ctx, past, want.Tasks[i].ID)
			add(same("task", is, want.Tasks[i], err))
		}
		if f = (worlds.Filter{Queue: f.Queue}); f.Queue != "" || len(want.Tasks) > 0 {
			have, err := past.Count(ctx, worlds.Query{Kind: worlds.Tasks, Filter: f})
			want, err2 := then.Count(ctx, worlds.Query{Kind: worlds.Tasks, Filter: f})
			add(same("counts", have.States(), want.States(), err, err2))
		}
	}
	if index != nil {
		add(indexTells(ctx, index, plain, at.At, dice, same))
	}
	have, err := plain.List(ctx, worlds.Query{Kind: worlds.Messages})
	want, err2 := then.List(ctx, worlds.Query{Kind: worlds.Messages})
	add(same("messages", have.Messages, want.Messages, err, err2))

	add(same("sums", sumsIn(ctx, past, at.At), sumsIn(ctx, then, at.At)))
	limits, wanted := h.limitsIn(ctx, past, past, at), h.limitsIn(ctx, then, then, at)
	add(same("limits", limits, wanted))
	for range wanted {
		compared("limit")
	}
	return errors.Join(errs...)
}

// indexTells compares what an index alone says with a plain fold: sums, and page after page of any
// filter.
func indexTells(ctx context.Context, index worlds.Whole, then *worlds.Memory, now time.Time, dice *rand.Rand, same func(string, any, any, ...error) error) error {
	errs := []error{same("sums of the index", sumsIn(ctx, index, now), sumsIn(ctx, then, now))}
	all, err := then.List(ctx, worlds.Query{Kind: worlds.Tasks, Filter: worlds.Filter{Limit: worlds.MaxLimit}})
	if errs = append(errs, err); len(all.Tasks) == 0 {
		return errors.Join(errs...)
	}
	for range 8 {
		q := worlds.Query{Kind: worlds.Tasks, Filter: filterAmong(all.Tasks, dice)}
		for more := true; more; more = q.Cursor != "" {
			have, err := index.List(ctx, q)
			want, err2 := then.List(ctx, q)
			what := fmt.Sprintf("tasks of the index by %+v", q.Filter)
			errs = append(errs, same(what, []any{append([]task.Task{}, have.Tasks...), have.Next}, []any{append([]task.Task{}, want.Tasks...), want.Next}, err, err2))
			q.Cursor = want.Next
		}
		if q.Since.IsZero() && q.Until.IsZero() && q.IDPart == "" {
			have, err := index.Count(ctx, q)
			want, err2 := then.Count(ctx, q)
			errs = append(errs, same(fmt.Sprintf("counts of the index by %+v", q.Filter), have.Of, want.Of, err, err2))
		}
	}
	return errors.Join(errs...)
}

// filterAmong returns a filter by properties of some of the tasks, a few at once.
func filterAmong(tasks []task.Task, dice *rand.Rand) worlds.Filter {
	f := worlds.Filter{Limit: 1 + dice.IntN(20), OldestFirst: dice.IntN(2) == 0}
	for range 1 + dice.IntN(3) {
		t := &tasks[dice.IntN(len(tasks))]
		switch dice.IntN(12) {
		case 0:
			f.States = append(f.States, t.State)
		case 1:
			f.Dead = true
		case 2:
			f.Job = t.Job
		case 3:
			f.Node = t.Node
		case 4:
			f.Queue = t.QueueName()
		case 5:
			f.Queue = t.Route.Queue()
		case 6:
			f.Schedule = t.Schedule
		case 7:
			f.Roots = true
		case 8:
			f.IDPart = string(t.ID[len(t.ID)-1:])
		case 9:
			f.Priorities = append(f.Priorities, t.Route.Priority())
		case 10:
			f.Since = t.SubmittedAt
		case 11:
			f.Until = t.SubmittedAt
		}
	}
	return f
}

// sumsIn returns what a model adds up, with the errors.
func sumsIn(ctx context.Context, m worlds.Summed, now time.Time) []any {
	oldest, err := m.Oldest(ctx)
	for q, since := range oldest {
		oldest[q] = since.UTC().Truncate(time.Microsecond) // the precision of the read model
	}
	last, _, err2 := m.LastOfJobs(ctx)
	ticks, _, err3 := m.Schedules(ctx, now.Add(-24*time.Hour))
	return []any{oldest, last, ticks, fmt.Sprint(err, err2, err3)}
}

// limitsIn returns the state of the limits in a view.
func (h *history) limitsIn(ctx context.Context, m worlds.Model, sums worlds.Summed, at worlds.Point) []quota.CounterState {
	said, err := m.List(ctx, worlds.Query{Kind: worlds.Queues})
	known, _, err2 := quota.LoadLimiter(said.Queues, func(each quota.Each) (quota.Used, uint64, error) {
		type limited struct {
			stand    quota.Stand
			counters quota.Counters
			admitted *task.Grant
		}
		var all []limited
		used, seq, err := sums.EachLimited(ctx, func(t quota.Stand, counters quota.Counters, admitted *task.Grant) {
			all = append(all, limited{t, counters, admitted})
		})
		// Tasks say different bounds under one name here, and the last one is shown.
		slices.SortFunc(all, func(a, b limited) int { return cmp.Compare(a.stand.ID, b.stand.ID) })
		for i := range all {
			each(all[i].stand, all[i].counters, all[i].admitted)
		}
		return used, seq, err
	})
	if err := errors.Join(err, err2); err != nil {
		return []quota.CounterState{{Name: err.Error()}}
	}
	all := known.Told("", at.At, 1000)
	for i := range all {
		slices.Sort(all[i].Holders)
	}
	slices.SortFunc(all, func(a, b quota.CounterState) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// modelOf is the read model of a log that ends behind these records, folded so many at once.
func modelOf(t *testing.T, records []events.Record, atOnce int) (*projections.Store, func()) {
	t.Helper()
	store, err := projections.Open("")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- (&projections.Projector{Log: shortLog(records), Store: store, MaxBatch: atOnce}).Run(ctx)
	}()
	closed := func() {
		stop()
		<-done
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := store.Wait(ctx, records[len(records)-1].Seq); err != nil {
		closed()
		t.Fatal(err)
	}
	return store, closed
}

// shortLog is a log that ends with its records.
type shortLog []events.Record

// Follow implements [events.Follower].
func (l shortLog) Follow(_ context.Context, from uint64) (events.Feed, error) {
	for len(l) > 0 && l[0].Seq < from {
		l = l[1:]
	}
	return &shortFeed{l}, nil
}

// Last implements [events.Follower].
func (l shortLog) Last(context.Context) (uint64, error) { return l[len(l)-1].Seq, nil }

// shortFeed feeds the rest of a log.
type shortFeed struct{ rest shortLog }

// Next implements [events.Feed].
func (f *shortFeed) Next(ctx context.Context) ([]events.Record, error) {
	if len(f.rest) == 0 {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	all := slices.Clone(f.rest)
	f.rest = nil
	return all, nil
}

// Close implements [events.Feed].
func (f *shortFeed) Close() {}
