package jet

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
)

// firedAll waits until the timers of so many tasks have come, each once, and returns when the last
// was stored.
func firedAll(t *testing.T, o events.Offers, n int) (last time.Time) {
	t.Helper()
	came := map[task.ID]bool{}
	for len(came) < n {
		offer := next(t, o)
		if came[offer.Fact.Task] {
			t.Errorf("the timer of task %s came twice", offer.Fact.Task)
		}
		came[offer.Fact.Task] = true
		last = offer.Stored
		if err := offer.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	return last
}

// Timers that were due while the server was away are in the log as soon as it is back: the log
// finds the consumer from which it sources, and does not wait until the old one is forgotten.
func TestOverdueTimersAfterARestart(t *testing.T) {
	t.Parallel()
	const timers = 300
	starved := testkit.Starvation(t)
	dir := t.TempDir()
	srv := startServer(t, embed.Config{Dir: dir})
	s := openStore(t, connect(t, srv.URL()), streams.Layout{AckWait: time.Minute})
	due := time.Now().Add(1500 * time.Millisecond)
	for range timers {
		arm(t, s, newTask(), 1, due)
	}
	stopServer(t, srv)
	testkit.Eventually(t, "they are due while it is down", func() bool { return !time.Now().Before(due) })
	began := time.Now()
	s = openStore(t, connect(t, startServer(t, embed.Config{Dir: dir}).URL()), streams.Layout{AckWait: time.Minute})
	took := firedAll(t, offersOf(t, s, "timed"), timers).Sub(began)
	t.Logf("the last of %d overdue timers was in the log %v after the start", timers, took.Round(time.Millisecond))
	// The server that starts, its streams and the reader wait for the processors in turn. With a consumer
	// that the log makes for itself it takes more than 10 s.
	const hands = 4
	if most := 5*time.Second + hands*starved(); took > most {
		t.Errorf("it took %v, want less than 5s, %v with what this machine withheld", took, most)
	}
}

// The stream of timers, or the consumer by which the log sources it, is made again and used again.
func TestTimerStreamIsMadeAgain(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "timed")
	var made []string
	k := streams.NewRestorer(s.JS, s.timers, func(name string) { made = append(made, name) })
	look := func() {
		t.Helper()
		if err := k.Look(within(t), streams.Layout{AckWait: time.Minute}); err != nil {
			t.Fatal(err)
		}
	}
	arm(t, s, newTask(), 1, time.Now())
	firedAll(t, o, 1)
	look()
	lost := newTask()
	for name, remove := range map[string]func() error{
		names.TimerStream: func() error { return s.JS.DeleteStream(within(t), names.TimerStream) },
		names.TimerStream + " " + names.FiredConsumer: func() error { return s.timers.DeleteConsumer(within(t), names.FiredConsumer) },
	} {
		made = nil
		arm(t, s, lost, 1, time.Now().Add(time.Hour))
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		look()
		if len(made) != 1 || made[0] != name {
			t.Errorf("%v were made again, want %s", made, name)
		}
		began := time.Now()
		arm(t, s, newTask(), 1, time.Now())
		firedAll(t, o, 1)
		t.Logf("%s: after it was made again a timer took %v", name, time.Since(began).Round(time.Millisecond))
		armed := must(s.Armed(within(t), []task.ID{lost}))(t)
		if _, is := armed[lost]; is == (name == names.TimerStream) {
			t.Errorf("%s: the timer of before is there: %t", name, is)
		}
		if err := s.Disarm(within(t), lost, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	look()
}

// A log of a form that one message can erase is refused.
func TestOldLog(t *testing.T) {
	t.Parallel()
	nc := connect(t, startServer(t, embed.Config{}).URL())
	js := must(jetstream.New(nc))(t)
	if _, err := js.CreateStream(within(t), jetstream.StreamConfig{
		Name: names.LogStream, Subjects: []string{names.ChainPrefix + ">", "mr.timer.>"}, AllowRollup: true, AllowMsgTTL: true, AllowMsgSchedules: true, Metadata: map[string]string{"millrace": "1"},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(within(t), nc, streams.Layout{}); !errors.Is(err, streams.ErrOldLog) {
		t.Errorf("such a log is opened: %v", err)
	}
}
