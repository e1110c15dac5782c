package events_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"millrace/events"
	"millrace/events/logtest"
	"millrace/task"
)

// book is the history of one task. It counts the records that are read.
type book struct {
	events.Log
	records []events.Record
	read    int
}

func bookOf(history []task.Event) *book {
	b := &book{}
	for _, r := range logtest.History(history...) {
		is := events.Record{Seq: r.Seq, Kind: events.KindOffer, Fact: events.Fact{ID: fmt.Sprint("fact", r.Seq), At: r.At, Actor: r.Actor, Event: r.Event}}
		if r.Chain {
			is.Kind = events.KindChain
		}
		b.records = append(b.records, is)
	}
	return b
}

func (b *book) Task(context.Context, task.ID) ([]events.Record, error) {
	b.read += len(b.records)
	return b.records, nil
}

func (b *book) Rest(_ context.Context, _ task.ID, from uint64) ([]events.Record, error) {
	at := slices.IndexFunc(b.records, func(r events.Record) bool { return r.Seq == from && r.Kind == events.KindChain })
	if at < 0 || events.CarriedIn(b.records[at:]) {
		return nil, nil
	}
	b.read += len(b.records) - at
	return b.records[at:], nil
}

// A task that is read again after each message is what the whole history says, also if messages of other
// places were missed at first, or the log has lost its end and goes on otherwise.
func TestUpdateTask(t *testing.T) {
	t.Parallel()
	for name, of := range logtest.Histories {
		whole := bookOf(of.Events)
		for missed := range len(whole.records) + 1 { // none if it is the number of all
			var known events.KnownTask
			for n := range len(whole.records) + 1 {
				b := &book{records: slices.Clone(whole.records[:n])}
				if missed < n && b.records[missed].Kind == events.KindOffer && n < len(whole.records) && !onChain(b.records[missed:]) {
					b.records = slices.Delete(b.records, missed, missed+1)
				}
				compare(t, fmt.Sprintf("%s, %d messages without %d", name, n, missed), b, &known)
			}
			for i := range whole.records {
				other := &book{records: slices.Clone(whole.records)}
				other.records[i].Fact.ID = "another"
				again := known
				compare(t, fmt.Sprintf("%s, with another message %d", name, i), &book{records: other.records[:i+1]}, &again)
			}
		}
	}
}

func onChain(records []events.Record) bool {
	return slices.ContainsFunc(records, func(r events.Record) bool { return r.Kind == events.KindChain })
}

func compare(t *testing.T, what string, b *book, known *events.KnownTask) {
	t.Helper()
	rec := &events.Recorder{Log: b}
	got, err := rec.UpdateTask(t.Context(), "t", known)
	want, wrong := rec.Load(t.Context(), "t")
	if (err == nil) != (wrong == nil) || err != nil && !errors.Is(err, task.ErrUnknown) {
		t.Fatalf("%s: %v, want %v", what, err, wrong)
	}
	if err == nil && !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: it is\n%+v\nwant\n%+v", what, got, want)
	}
}

// Whoever reads a function of many steps again after each of them reads each step a few times, not all
// steps each time.
func TestUpdateTaskReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	const n = 500
	history := slices.Clone(logtest.Running)
	for i := range n {
		history = append(history, task.AttemptStepped{Attempt: 1, Epoch: 2, First: i, Steps: []task.Step{{Name: fmt.Sprint(i), Kind: task.StepDo}}})
	}
	whole := bookOf(history)
	b, rec := &book{}, &events.Recorder{}
	rec.Log = b
	var known events.KnownTask
	for i := range whole.records {
		b.records = whole.records[:i+1]
		is, err := rec.UpdateTask(t.Context(), "t", &known)
		if err != nil || is.Durable.Done() != max(i-1, 0) {
			t.Fatalf("behind message %d it has %d steps, error %v", i+1, is.Durable.Done(), err)
		}
	}
	if most := 3 * len(whole.records); b.read > most {
		t.Errorf("%d messages were read, want at most %d", b.read, most)
	}
}
