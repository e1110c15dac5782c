package simulation

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/incident"
	"millrace/scheduler"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
)

// fails is an archive without room until it has some.
type fails struct {
	incident.Sealer
	room bool
}

var errRoom = errors.New("no space left on device")

func (s *fails) Seal(ctx context.Context, first uint64, chosen task.HorizonChosen) (task.HorizonSealed, error) {
	if !s.room {
		return task.HorizonSealed{}, errRoom
	}
	return s.Sealer.Seal(ctx, first, chosen)
}

// Segments and log together are the log that forgets nothing, message by message, however often it has
// forgotten its front; without room for a segment it forgets nothing.
func TestArchiveAndLog(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	mem := events.NewMemory(clock, time.Minute)
	rec := &events.Recorder{Log: mem, Now: clock, NewID: events.NewID}
	offers, err := mem.Offers(ctx, []string{"default"})
	if err != nil {
		t.Fatal(err)
	}
	defer offers.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := map[uint64]events.Record{} // all that ever was in the log
	note := func() {
		for _, r := range mem.All() {
			kept[r.Seq] = r
		}
	}
	born := 0
	work := func(tasks int) {
		for range tasks {
			born++
			now = now.Add(time.Second)
			e, err := birth.Of(birth.Submission{Spec: &job.Spec{Handler: "work"}}, nil, 0, smallBegin)
			must(err)
			_, err = rec.Submit(ctx, taskID(born), e)
			must(err)
			o, err := offers.Next(ctx)
			must(err)
			is, err := rec.Load(ctx, o.Fact.Task)
			must(err)
			is, _, err = rec.Do(ctx, is, task.Claim{Node: "a", Session: "s", Offer: o.Seq, After: is.Turn})
			must(err)
			_, _, err = rec.Do(ctx, is, task.Finish{Epoch: is.Epoch})
			must(errors.Join(err, o.Ack()))
		}
		note()
	}
	place := incident.Folder(t.TempDir())
	archive := &fails{Sealer: incident.Sealer{Log: mem, To: place}}
	f := &scheduler.Forget{Rec: rec, Log: mem, Keeping: scheduler.Keeping{Age: 5 * time.Second, Least: 3, Most: 60}, Sealer: archive,
		Wait: func(_ context.Context, d time.Duration) error { now = now.Add(d); return nil }}
	moved := 0
	for i := range 12 {
		work(5 + i)
		archive.room = i%3 != 1
		was := mem.All()[0].Seq
		done, err := f.Round(ctx)
		note()
		switch {
		case !archive.room && (!errors.Is(err, errRoom) || done.Done || mem.All()[0].Seq != was || !strings.Contains(done.Held.What, "archive")):
			t.Fatalf("without room the log begins at %d, and began at %d: %+v, %v", mem.All()[0].Seq, was, done, err)
		case archive.room:
			must(err)
			if done.Done {
				moved++
			}
		}
	}
	if moved < 6 {
		t.Fatalf("the horizon moved %d times", moved)
	}
	var sealed []task.HorizonSealed
	for _, r := range mem.All() {
		if is, ok := r.Fact.Event.(task.HorizonSealed); ok {
			sealed = append(sealed, is)
		}
	}
	a, err := incident.OpenArchive(ctx, place, sealed)
	must(err)
	if len(a.Faults)+len(a.Spare) > 0 || len(a.Segments) < moved {
		t.Fatalf("%d segments, faults %v, spare %v", len(a.Segments), a.Faults, a.Spare)
	}
	var got []string
	for r, err := range a.Records(ctx) {
		must(err)
		got = append(got, asExported(&r))
	}
	_, last, _ := a.Span()
	for _, s := range a.Segments {
		if !s.Recorded {
			t.Errorf("nothing has recorded %s", s.Name)
		}
	}
	for _, r := range mem.All() {
		if r.Seq > last {
			got = append(got, asExported(&r))
		}
	}
	var want []string
	for seq := uint64(1); len(want) < len(kept); seq++ {
		r, ok := kept[seq]
		if !ok {
			t.Fatalf("there was no #%d", seq)
		}
		want = append(want, asExported(&r))
	}
	if !slices.Equal(got, want) {
		t.Errorf("archive and log have %d messages, want %d", len(got), len(want))
	}
}

func asExported(r *events.Record) string { return string(events.AppendLine(nil, r)) }
