package simulation

import (
	"context"
	"fmt"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/placement"
)

// disturb writes on an existing task what no program of ours would write now.
func (h *history) disturb() {
	if len(h.records) == 0 {
		return
	}
	r := h.records[h.rng.IntN(len(h.records))]
	if r.Fact.Task == "" {
		return
	}
	if h.weather.watched && h.rng.IntN(4) == 0 {
		h.remark(stranger, "removes all timers")
		h.mem.LoseTimers()
		return
	}
	if h.rng.IntN(4) == 0 {
		h.forge(r.Fact.Task)
		return
	}
	if r.Kind == events.KindOffer && h.rng.IntN(2) == 0 {
		h.offerAgain(r)
		return
	}
	h.remark(stranger, "writes garbage on "+short(r.Fact.Task))
	h.mem.AppendRaw(events.Fact{Task: r.Fact.Task}, h.garbage(r.Fact.Task))
}

// offerAgain places an offer again that was there before, as a writer does whose write was stored
// twice.
func (h *history) offerAgain(r events.Record) {
	h.remark(stranger, "places an offer of "+short(r.Fact.Task)+" again")
	if _, err := h.mem.Place(context.Background(), &r.Fact); err != nil {
		panic(err) // it was placed before
	}
}

// forge fires a timer that no program of ours has set: for a turn that does not exist, or on a
// route where the task does not wait.
func (h *history) forge(id task.ID) {
	f := &events.Fact{ID: h.newID(time.Now()), At: time.Now(), Type: events.TaskDue, Task: id, Actor: stranger}
	t := h.fold.tasks[id]
	due := task.Due{After: t.Turn, Route: placement.QueueRoute(h.queue(), 5), Due: time.Now()}
	if due.Route == t.Route || h.rng.IntN(2) == 0 {
		due.After = 1<<40 + uint64(h.rng.IntN(100))
	}
	f.Event = due
	h.remark(stranger, fmt.Sprintf("has a timer of %s fire on %s, for the turn of %d", short(id), due.Route, due.After))
	if _, err := h.mem.Place(context.Background(), f); err != nil {
		panic(err) // the simulation wrote it
	}
}

// garbage is a message that is no fact, or none that may count.
func (h *history) garbage(id task.ID) []byte {
	switch h.rng.IntN(5) {
	case 0:
		return nil
	case 1:
		return []byte(`{"type":"attempt.finished","task":`)
	case 2:
		return []byte("\x00\xff no text at all")
	case 3:
		return h.forged(id, nil, "attempt.paused") // a type of a version to come
	}
	// The result of an attempt that there never was.
	return h.forged(id, task.AttemptFinished{Attempt: 1, Epoch: 1 << 40}, "")
}

func (h *history) forged(id task.ID, e task.Event, typ events.Type) []byte {
	f := &events.Fact{ID: h.newID(time.Now()), At: time.Now(), Type: typ, Task: id, Actor: stranger}
	if e != nil {
		f.Event, f.Type = e, events.TypeOf(e)
	}
	raw, err := events.Encode(nil, f)
	if err != nil {
		panic(err) // the simulation wrote it
	}
	return raw
}
