package promises

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	jetnames "millrace/events/jet/names"
	"millrace/integration/harness"
	"millrace/task"
)

// A caller with any right to write sends messages with every header that can remove others, or
// bring facts to subjects where the caller may not write. No task is lost, no task runs without a
// submission, and timers that vanish are set again in time. At the end of the test verify reads the
// log.
func TestNothingErases(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("one header removes all timers")
	p.Dev("--name", "here")
	c := p.Connect()
	js := p.JetStream()
	done := p.Submit("true")
	p.Await(c, done, task.Finished)
	delayed := p.Submit("true", "--delay", "8s")
	approval := p.Submit("true", "--delay", "1h")
	size := func() uint64 {
		t.Helper()
		s, err := js.Stream(t.Context(), jetnames.LogStream)
		if err != nil {
			t.Fatal(err)
		}
		if st := s.CachedInfo().State; st.FirstSeq != 1 || st.NumDeleted != 0 {
			t.Fatalf("the log begins at %d and lacks %d messages", st.FirstSeq, st.NumDeleted)
		}
		return s.CachedInfo().State.Msgs
	}
	before := size()
	at := "@at " + time.Now().Add(-time.Second).UTC().Format(time.RFC3339Nano)
	evil := fmt.Sprintf(`{"type":"task.submitted","v":1,"id":"01JD6Z8V3M0QK4T7W2X9Y5ABCF","at":"2026-01-01T00:00:00Z","task":"%s","spec":{"run":{"shell":"touch %s"}},"route":"default.5"}`, "%s", p.Path("pwned"))
	for _, id := range []string{string(done), string(approval), "01JD6Z8V3M0QK4T7W2X9Y5ABCD"} {
		for _, h := range []nats.Header{
			{"Nats-Schedule": {at}, "Nats-Schedule-Target": {"mr.due.default.5." + id}},
			{"Nats-Schedule": {at}, "Nats-Schedule-Target": {"mr.due.default.5." + id}, "Nats-Rollup": {"sub"}},
			{"Nats-Schedule": {at}, "Nats-Schedule-Target": {"mr.due." + id}},
			{"Nats-Schedule": {at}, "Nats-Schedule-Target": {"mr.queue.default.5." + id}},
			{"Nats-Schedule": {at}, "Nats-Schedule-Target": {"mr.task." + id}},
			{"Nats-Rollup": {"all"}},
		} {
			for _, subject := range []string{"mr.timer." + id + "x", "mr.node.here-too"} {
				_, _ = js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: h, Data: fmt.Appendf(nil, evil, id)}) // most are refused
			}
		}
	}
	for _, subject := range []string{"mr.node.nobody", "mr.task.x", "mr.probe", "mr.tasklog.x", "mr.data.x"} {
		for _, roll := range []string{"all", "sub"} {
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Rollup": {roll}}}); err == nil {
				t.Errorf("%s takes a message that removes others", subject)
			}
		}
	}
	p.Until("what was fired is in the log", func() bool { return size() > before })
	p.Await(c, delayed, task.Finished)
	if got := p.State(c, delayed); got.StartedAt.Sub(got.Due) > 5*time.Second {
		t.Errorf("the task was due at %v and started at %v", got.Due, got.StartedAt)
	}
	p.Until("the timer is set again", func() bool {
		s, err := js.Stream(t.Context(), jetnames.TimerStream)
		if err != nil {
			return false
		}
		_, err = s.GetLastMsgForSubject(t.Context(), "mr.timer."+string(approval))
		return err == nil
	})
	listed := p.Run("task", "ls", "--names")
	for _, id := range []task.ID{done, delayed, approval} {
		if !strings.Contains(listed, string(id)) {
			t.Errorf("the list has not %s:\n%s", id, listed)
		}
	}
	if p.Exists("pwned") {
		t.Error("a timer has run a command")
	}
	p.Run("task", "cancel", string(approval))
}
