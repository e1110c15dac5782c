package simulation

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"millrace/events"
	"millrace/internal/testkit"
	"millrace/projections"
	views "millrace/projections/view"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// In a year of simulated time a log that keeps thirty days of what has ended takes no more room after a
// year than after half of one: messages, rows, file, memory. The past that it keeps is answered as it was;
// what lies before is refused. A task that waits all the time is what it was. With -long a task is born
// each minute, otherwise each hour.
func TestYear(t *testing.T) {
	const keep, day = 30 * 24 * time.Hour, 24 * time.Hour
	ctx := t.Context()
	var clock atomic.Int64
	clock.Store(smallBegin.UnixNano())
	now := func() time.Time { return time.Unix(0, clock.Load()).UTC() }
	pass := func(d time.Duration) { clock.Add(int64(d)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	mem := events.NewMemory(now, time.Minute)
	rec := &events.Recorder{Log: mem, Now: now, NewID: events.NewID}
	offers, err := mem.Offers(ctx, []string{"default"})
	must(err)
	defer offers.Close()
	dir := t.TempDir()
	rows, err := projections.Open(filepath.Join(dir, "view.db"))
	must(err)
	running, stop := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- (&projections.Projector{Log: mem, Store: rows}).Run(running) }()
	defer func() {
		stop()
		<-over
		must(rows.Close())
	}()
	submit := func(s birth.Submission) task.ID {
		t.Helper()
		id := task.ID(events.NewID(now()))
		e, err := birth.Of(s, nil, 0, now())
		must(err)
		_, err = rec.Submit(ctx, id, e)
		must(err)
		return id
	}
	waits := submit(birth.Submission{Spec: &job.Spec{Handler: "work", Signal: &job.Signal{}}})
	was, err := rec.Load(ctx, waits)
	must(err)

	f := &scheduler.Forget{Rec: rec, Log: mem, Model: rows, Keeping: scheduler.Keeping{Age: keep, Least: 200},
		Wait: func(_ context.Context, d time.Duration) error { pass(d); return nil }}
	step := testkit.Size(time.Hour, time.Minute)
	perDay := int(day / step)
	type evening struct {
		seq  uint64
		born int
	}
	var evenings []evening
	born, moved, forgotten := 0, 0, 0
	sizes := func() (messages int, bytes, heap int64) {
		must(filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
			if is, gone := e.Info(); err == nil && gone == nil && !is.IsDir() {
				bytes += is.Size()
			}
			return err
		}))
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return len(mem.All()), bytes, int64(m.HeapAlloc)
	}
	var messages, bytes, heap []int64
	for today := range 365 {
		for range perDay {
			pass(step)
			submit(birth.Submission{Spec: &job.Spec{Handler: "work"}})
			o, err := offers.Next(ctx)
			must(err)
			is, err := rec.Load(ctx, o.Fact.Task)
			must(err)
			is, _, err = rec.Do(ctx, is, task.Claim{Node: "a", Session: "s", Offer: o.Seq, After: is.Turn})
			must(err)
			_, _, err = rec.Do(ctx, is, task.Finish{Epoch: is.Epoch})
			must(errors.Join(err, o.Ack()))
			born++
		}
		last, err := mem.Last(ctx)
		must(err)
		must(rows.Wait(ctx, last))
		evenings = append(evenings, evening{last, born})
		for {
			done, err := f.Round(ctx)
			must(err)
			last, err := mem.Last(ctx)
			must(err)
			must(rows.Wait(ctx, last))
			if !done.Done {
				break
			}
			moved++
			forgotten += done.Tasks
		}
		if today < 180 || today%30 != 4 {
			continue
		}
		n, b, h := sizes()
		messages, bytes, heap = append(messages, int64(n)), append(bytes, b), append(heap, h)
		var counts views.Counts
		if !testkit.Poll(time.Minute, func() bool { // rows go a moment after their events
			counts, err = rows.Count(ctx, views.Query{Kind: views.Tasks})
			must(err)
			return counts.States()[task.Finished] == born-forgotten
		}) || born-forgotten > 31*perDay+200 {
			t.Errorf("day %d: %v, and %d were forgotten of %d", today, counts.States(), forgotten, born)
		}
		at := func(then evening) (views.Counts, error) {
			return rows.At(views.Point{Seq: then.seq}, views.Slice(mem.All())).Count(ctx, views.Query{Kind: views.Tasks})
		}
		then := evenings[today-15]
		if counts, err = at(then); err != nil || counts.States()[task.Finished] != then.born-forgotten {
			t.Errorf("day %d, fifteen days ago: %v (%v), want %d", today, counts.States(), err, then.born-forgotten)
		}
		if _, err = at(evenings[today-40]); !errors.Is(err, views.ErrForgotten) {
			t.Errorf("day %d, forty days ago: %v", today, err)
		}
	}
	for what, sizes := range map[string][]int64{"messages": messages, "bytes of the read model": bytes, "bytes of memory": heap} {
		if first, most := sizes[0], slices.Max(sizes); most > first+first/4 {
			t.Errorf("%s: %v", what, sizes)
		}
		t.Logf("%s: %v", what, sizes)
	}
	is, err := rec.Load(ctx, waits)
	must(err)
	if field := differsFrom(&is, &was); field != "" {
		t.Errorf("%s of the task that waits is not what it was: %+v, and was %+v", field, is, was)
	}
	t.Logf("%d tasks, %d horizons, %d tasks forgotten", born, moved, forgotten)
}
