package jet

import (
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

// A client that may set timers may set one that repeats. Each message that it leaves in the log names
// it, and ends with it when it is removed, or with all timers.
func TestTimerThatRepeats(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	offersOf(t, s, "timed")
	log, err := s.JS.Stream(within(t), names.LogStream)
	if err != nil {
		t.Fatal(err)
	}
	fired := func(subject string) int {
		info, err := log.Info(within(t), jetstream.WithSubjectFilter(subject))
		if err != nil {
			t.Fatal(err)
		}
		return int(info.State.Subjects[subject])
	}
	for name, remove := range map[string]func(at string) error{
		"alone":    func(at string) error { return s.purgeTimer(within(t), jetstream.WithPurgeSubject(at)) },
		"with all": func(string) error { return s.purgeTimer(within(t)) },
	} {
		id := string(newTask())
		at, subject := names.TimerPrefix+id, names.QueuePrefix+"timed.5."+names.FiredToken+"."+id
		m := &nats.Msg{Subject: at, Data: []byte("{}"), Header: nats.Header{scheduleHeader: {"@every 1s"}, scheduleTargetHeader: {names.DuePrefix + "timed.5." + id}}}
		if _, err := s.JS.PublishMsg(within(t), m); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, "it fires again", func() bool { return fired(subject) > 1 })
		last, err := log.GetLastMsgForSubject(within(t), subject)
		if err != nil || last.Header.Get("Nats-Scheduler") != at {
			t.Errorf("%s: the message has %v, %v", name, last.Header, err)
		}
		if err := remove(at); err != nil {
			t.Fatal(err)
		}
		timers, err := s.timers.Info(within(t), jetstream.WithSubjectFilter(at))
		if err != nil || len(timers.State.Subjects) > 0 {
			t.Errorf("%s: the timer is there: %v, %v", name, timers.State.Subjects, err)
		}
	}
}
