package jet

import (
	"testing"
	"time"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
)

// The front of the log goes by one purge, which can be repeated; a bound that would take all is
// refused. What stays, and the timers, are as before, also after a restart of the server.
func TestTrim(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv := startServer(t, embed.Config{Dir: dir})
	layout := streams.Layout{AckWait: time.Minute}
	s := openStore(t, connect(t, srv.URL()), layout)
	o := offersOf(t, s, "timed")
	arm(t, s, newTask(), 1, time.Now())
	firedAll(t, o, 1)
	gone, stays := submit(t, s, "q"), submit(t, s, "q")
	end := must(s.Last(within(t)))(t)
	for _, below := range []uint64{0, end + 1} {
		if err := s.Trim(within(t), below); err == nil {
			t.Errorf("a purge of all below %d is not refused", below)
		}
	}
	late := newTask()
	arm(t, s, late, 1, time.Now().Add(3*time.Second))
	for range 2 {
		if err := s.Trim(within(t), end); err != nil {
			t.Fatal(err)
		}
	}
	check := func() {
		t.Helper()
		if first := must(s.First(within(t)))(t); first != end {
			t.Errorf("the log begins at %d, want %d", first, end)
		}
		if is := must(s.Task(within(t), gone))(t); len(is) > 0 {
			t.Errorf("what was removed is %v", is)
		}
		if is := must(s.Task(within(t), stays))(t); len(is) != 1 || is[0].Seq != end {
			t.Errorf("what stays is %v", is)
		}
	}
	check()
	o.Close()
	stopServer(t, srv)
	s = openStore(t, connect(t, startServer(t, embed.Config{Dir: dir}).URL()), layout)
	check()
	if offer := next(t, offersOf(t, s, "timed")); offer.Fact.Task != late {
		t.Errorf("after the restart came %v", offer.Fact)
	}
}

// The floor is the first offer of a task that has not ended which is undelivered or unacknowledged,
// or a fire; other consumers do not count.
func TestFloor(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	rec := recorder(s)
	floor := func(what string, want uint64, id task.ID) {
		t.Helper()
		var is events.Floor
		var err error
		if !testkit.Poll(natstest.Patience, func() bool {
			is, err = s.Floor(within(t))
			return err == nil && is.Seq == want && is.Holder == id && is.Since.IsZero() == (want == 0)
		}) {
			t.Errorf("%s: the floor is %+v, %v; want %d of %q", what, is, err, want, id)
		}
	}
	at := func(id task.ID) uint64 { return must(s.Task(within(t), id))(t)[0].Seq }
	cancel := func(id task.ID) {
		t.Helper()
		one, err := rec.Load(within(t), id)
		if err == nil {
			_, _, err = rec.Do(within(t), one, task.Cancel{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first, second := submit(t, s, "default"), submit(t, s, "default")
	floor("nobody has asked", 0, "")
	o := offersOf(t, s, "default")
	leased := next(t, o)
	floor("the first is leased", at(first), first)
	cancel(first)
	floor("the first has ended", at(second), second)
	other := next(t, o)
	if leased.Ack() != nil || other.Ack() != nil {
		t.Fatal("acknowledgements are refused")
	}
	third := submit(t, s, "default")
	next(t, o)
	follow(t, s, 1)
	floor("all others are acknowledged", at(third), third)
	cancel(third)
	floor("all have ended", 0, "")
	must(s.ensureFires(within(t)))(t)
	fire := raw(t, s, names.FirePrefix+"nightly", nil, []byte("{}"))
	floor("a schedule fired", fire, "")
}
