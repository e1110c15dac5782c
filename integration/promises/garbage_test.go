package promises

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
)

// rubbish are messages that should never be on a subject of Millrace.
var rubbish = [][]byte{
	nil,
	[]byte("garbage"),
	[]byte("null"),
	[]byte("[]"),
	[]byte("{}"),
	[]byte(`{"type":`),
	[]byte(`{"type":7,"v":"one","task":[],"at":"yesterday"}`),
	[]byte(`{"type":"attempt.finished"}`),
	[]byte(`{"type":"attempt.finished","v":1,"epoch":-1}`),
	[]byte(`{"type":"task.submitted","v":1,"spec":{"run":{"argv":[""]}},"route":"nowhere","priority":99}`),
	[]byte(`{"type":"task.queued","v":1,"after":18446744073709551615}`),
	[]byte(`{"type":"node.offline","v":1,"session":"nobody's"}`),
	[]byte(`{"type":"of.tomorrow","v":1000}`),
	{0xff, 0xfe, 0x00, 0x80},
	bytes.Repeat([]byte("["), 100_000),
	bytes.Repeat([]byte("x"), 1<<20),
}

// Whatever is written to the subjects of Millrace while tasks run, no process fails, the tasks end
// as they would have, and people can see them.
func TestGarbage(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.MayRepair("rubbish replaces the timers of two tasks")
	dev := p.Dev("--name", "here")
	c, js := p.Connect(), p.JetStream()
	nc := js.Conn()
	running := p.Submit(harness.StayUntilGo, "--dir", p.Dir)
	p.Await(c, running, task.Running)
	delayed := p.Submit("true", "--delay", "2s")
	retrying := p.SubmitAs(c, harness.FailsOnce(2*time.Second))
	p.Await(c, retrying, task.Retrying)
	p.Write("hello.yaml", "name: hello\nrun: echo hello\n")
	p.Run("job", "apply", "-f", "hello.yaml")

	var subjects []string
	// Every later look at the log reads a large message again, so each kind gets it once.
	spared := map[string]bool{}
	for _, x := range []string{string(running), string(delayed), string(retrying), "01JD6Z8V3M0QK4T7W2X9Y5ABCD", "nonsense"} {
		for _, format := range []string{"mr.queue.default.5.%s", "mr.hold.%s", "mr.timer.%s", "mr.task.%s", "mr.tasklog.%s", "mr.data.%s"} {
			subject := fmt.Sprintf(format, x)
			subjects = append(subjects, subject)
			spared[subject] = x != string(running)
		}
	}
	for _, x := range []string{"here", "nobody"} {
		subjects = append(subjects, "mr.node."+x, "mr.hint."+x, "$KV.MR_NODES."+x)
	}
	for _, subject := range subjects[len(subjects)-6:] {
		spared[subject] = !*harness.Long
	}
	others := []string{"$KV.MR_DEFS.job.hello", "$KV.MR_DEFS.x", "mr.def.job.hello", "mr.def.job.x", "mr.def.schedule.x", "mr.def.bundle.x", "mr.def.x", "mr.copies", "mr.queue.default.odd.x", "mr.queue.default.5.a.b", "mr.fire.x", "mr.cron.x"}
	for _, subject := range others {
		spared[subject] = !*harness.Long
	}
	subjects = append(subjects, others...)
	for _, subject := range subjects {
		for i, body := range rubbish {
			if spared[subject] && len(body) > 1000 {
				continue
			}
			m := nats.NewMsg(subject)
			m.Data = body
			if i%2 == 1 {
				m.Header.Set("Mr-Type", "attempt.finished") // the header may lie, too
			}
			if err := nc.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := nc.FlushTimeout(harness.Patience); err != nil {
		t.Fatal(err)
	}
	refuseRubbish(p, nc)

	p.Write("go", "")
	fresh := p.Submit("true")
	for _, id := range []task.ID{running, delayed, retrying, fresh} {
		p.Await(c, id, task.Finished)
	}
	for _, command := range [][]string{
		{"task", "ls", "--consistent", "--counts"}, {"task", "show", string(running)}, {"task", "why", string(running)}, {"task", "events", string(running)},
		{"task", "logs", string(running)}, {"task", "data", string(running)}, {"node", "ls"}, {"node", "show", "here"},
		{"events", "tail", "--no-follow", "-n", "5000"},
	} {
		p.Run(command...)
	}
	listed := p.Run("task", "ls", "--names", "--state", "finished")
	for _, id := range []task.ID{running, delayed, retrying, fresh} {
		if !strings.Contains(listed, string(id)) {
			t.Errorf("the list of the finished has not %s:\n%s", id, listed)
		}
	}
	if out := p.Run("job", "ls", "--names"); out != "hello" {
		t.Errorf("after rubbish on its chain and on that of no job, job ls has %q, want hello", out)
	}
	if err := nc.Publish("mr.def.job.odd", []byte(`{"type":"definition.applied","id":"01JD6Z8V3M0QK4T7W2X9Y5ABCD","at":"2026-03-01T12:00:00Z","def":"job.odd","revision":1,"definition":{"name":"even"}}`)); err != nil {
		t.Fatal(err)
	}
	p.Until("job ls names the job that cannot be read", func() bool {
		r := p.Try("job", "ls")
		return r.Code == 1 && strings.Contains(r.Errs, "job odd, revision 1")
	})
	if out := p.Run("job", "apply", "-f", "hello.yaml"); !strings.Contains(out, "unchanged (revision 1)") {
		t.Errorf("over the rubbish the job is applied: %q", out)
	}
	p.Run("job", "rm", "odd", "--yes")
	p.Until("the copies are as they were", func() bool {
		kv, err := js.KeyValue(t.Context(), "MR_DEFS")
		if err != nil {
			t.Fatal(err)
		}
		keys, err := kv.Keys(t.Context())
		return err == nil && len(keys) == 1 && keys[0] == "job.hello"
	})
	if out := p.Run("job", "ls", "--names"); out != "hello" {
		t.Errorf("job ls has %q, want hello", out)
	}
	if out := p.Run("run", "hello", "--follow"); out != "hello" {
		t.Errorf("the job prints %q", out)
	}
	dismissRubbish(p)
	dev.Stop()
}

// dismissRubbish dismisses all unreadable messages from the list of dead letters, and checks that
// the log says so and that nothing else changes.
func dismissRubbish(p *harness.Place) {
	p.Helper()
	var listed struct {
		Messages []client.Unreadable `json:"messages"`
	}
	list := func() int {
		p.Helper()
		if err := json.Unmarshal([]byte(p.Run("dlq", "ls", "-o", "json", "--limit", "1000")), &listed); err != nil {
			p.Fatal(err)
		}
		return len(listed.Messages)
	}
	before := list()
	if before < 100 {
		p.Fatalf("the list has %d unreadable messages", before)
	}
	one := strconv.FormatUint(listed.Messages[0].Seq, 10)
	if out := p.Run("dlq", "rm", one, "--dry-run"); !strings.Contains(out, "would be dismissed") || list() != before {
		p.Errorf("a dry run says %q, and %d of %d are left", out, list(), before)
	}
	p.Run("dlq", "rm", one, "--yes", "--reason", "only a test")
	if after := list(); after != before-1 {
		p.Errorf("%d of %d are left", after, before)
	}
	if out := p.Run("dlq", "show", one); !strings.Contains(out, "only a test") {
		p.Errorf("nothing says who dismissed message %s:\n%s", one, out)
	}
	if r := p.Try("verify"); r.Code != 1 {
		p.Errorf("verify ends with %d before all is dismissed:\n%s", r.Code, r.Out)
	}
	p.Run("dlq", "rm", "--messages", "--yes")
	if after := list(); after != 0 {
		p.Errorf("%d are left", after)
	}
	if out := p.Run("dlq", "rm", "--messages", "--yes", "-o", "json"); strings.TrimSpace(out) != "[]" {
		p.Errorf("removed again: %s", out)
	}
}

// refuseRubbish sends rubbish to every endpoint of the service and wants it refused.
func refuseRubbish(p *harness.Place, nc *nats.Conn) {
	p.Helper()
	for _, e := range harness.Ask[micro.Info](p, nc, "$SRV.INFO.millrace", "").Endpoints {
		subject := strings.Replace(e.Subject, "*", "ada", 1)
		for _, body := range rubbish {
			reply, err := nc.Request(subject, body, harness.Patience)
			if err != nil {
				p.Fatalf("%s: %v", subject, err)
			}
			code := reply.Header.Get(micro.ErrorCodeHeader)
			if asksForAll(subject, body) {
				if code != "" {
					p.Errorf("%s refuses the empty request %q with %s", subject, body, code)
				}
				continue
			}
			if code != "400" || reply.Header.Get(micro.ErrorHeader) == "" {
				p.Errorf("%s answers %.60q with code %q: %s", subject, body, code, reply.Header.Get(micro.ErrorHeader))
			}
		}
	}
}

// asksForAll tells whether a request has no condition at all. That is valid for lists, and for
// requests that can only ask for the current state.
func asksForAll(subject string, body []byte) bool {
	switch string(body) {
	case "", "{}", "null":
		return strings.HasSuffix(subject, ".list") || slices.Contains([]string{rights.ServerHealth.For("ada"), rights.ScheduleNext.For("ada"), rights.ScheduleGrid.For("ada"), rights.LogVerify.For("ada"), rights.LogHorizon.For("ada"), rights.LogReplay.For("ada"), rights.LogWhatIf.For("ada"), rights.NodePing.For("ada"), rights.FilesSweep.For("ada"), rights.JobSchema.For("ada")}, subject)
	}
	return false
}
