package promises

import (
	"millrace/integration/harness"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Requests that wait for what may never come block no other request. The server refuses a request
// that waits for what cannot come, and one that is larger than any sensible one.
func TestIdleRequestsStarveNobody(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Dev("--name", "here")
	nc := p.Dial()
	pauseByHand(p)
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox + ".*")
	if err != nil {
		t.Fatal(err)
	}
	const newer = `{"newer_than":999999999}`
	for i := range 300 {
		reply := inbox + "." + strings.Repeat("x", i+1)
		if i%2 == 0 { // as if each was of another connection
			reply = nats.NewInbox() + ".x"
		}
		if err := nc.PublishRequest("mr.api.ada.task.list", reply, []byte(newer)); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		if r := p.Try("task", "ls"); r.Code != 0 {
			t.Fatalf("exit code %d: %s", r.Code, r.Errs)
		}
	}
	m, err := answers.NextMsg(harness.Patience)
	if err != nil || m.Header.Get(micro.ErrorCodeHeader) != "503" || !strings.Contains(m.Header.Get(micro.ErrorHeader), "too many of this connection") {
		t.Errorf("%v, %v: a connection waits for all that it likes", m, err)
	}

	for request, want := range map[string]string{
		`{"at_least":999999999}`:                                                 "400 at_least is 999999999, and the log ends at ",
		`{"text":"` + strings.Repeat("x", 1<<20) + `"}`:                          "413 the request has 1048587 bytes, and the service takes 1048576",
		`{"newer_than":999999999,"text":"` + strings.Repeat("x", 100<<10) + `"}`: "400 a request that waits has 65536 bytes at most",
	} {
		m, err := nc.Request("mr.api.ada.task.list", []byte(request), harness.Patience)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Header.Get(micro.ErrorCodeHeader) + " " + m.Header.Get(micro.ErrorHeader); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// pauseByHand pauses the consumer of a queue as the nats command line does, and has "task why" say
// so.
func pauseByHand(p *harness.Place) {
	p.Helper()
	js := p.JetStream()
	p.Run("run", "--wait", "--", "true") // there is a consumer from now on
	if _, err := js.PauseConsumer(p.Context(), "MR_LOG", "queue_default", time.Now().Add(time.Hour)); err != nil {
		p.Fatal(err)
	}
	id := strings.TrimSpace(p.Run("run", "--", "true"))
	if why := p.Run("task", "why", id); !strings.Contains(why, "`nats consumer resume MR_LOG queue_default`") {
		p.Errorf("of a task whose consumer is paused:\n%s", why)
	}
	if _, err := js.ResumeConsumer(p.Context(), "MR_LOG", "queue_default"); err != nil {
		p.Fatal(err)
	}
	p.Run("task", "wait", id)
}
