package promises

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/service/client"
	"millrace/task"
)

// each makes one task of a job's tasks in the log, by the parameter that numbers its message.
func each(p *harness.Place, c *client.Client, job string) map[int]int {
	p.Helper()
	made := map[int]int{}
	for id, records := range p.ReadLog(c) {
		t := events.FoldTask(id, records)
		var is struct{ Order int }
		if t.Job == job && json.Unmarshal(t.Params, &is) == nil {
			made[is.Order]++
		}
	}
	return made
}

// Each message of a stream makes one task, while both servers are killed again and again; what can make none
// is refused once, and holds up nothing.
func TestMessagesMakeTasks(t *testing.T) {
	t.Parallel()
	n := 2000
	if *harness.Long {
		n = 10_000
	}
	p := harness.New(t, 2*time.Second)
	p.NATS()
	serve := func(data string) *harness.Process {
		server := p.Start("server", "--data", data)
		server.Until("it serves", func() bool { return strings.Contains(server.Said.String(), "Millrace serves ") })
		return server
	}
	names := []string{"one", "two"}
	servers := []*harness.Process{serve(names[0]), serve(names[1])}
	js := p.JetStream()
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	publish := func(body string) {
		if _, err := js.Publish(t.Context(), "orders.created", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("ship.yaml", "name: ship\non: {subject: orders.created}\nparams:\n  - {name: order, type: integer}\nrun: \"true\"\n")
	publish(`{"order":-1}`) // before the job
	p.Run("job", "apply", "-f", "ship.yaml")
	said := ""
	for i := range n {
		publish(fmt.Sprintf(`{"order":%d}`, i))
		switch i {
		case n / 8:
			publish("no JSON")
		case n / 4:
			publish(`{"order":"many"}`)
		case n / 3:
			publish(`{"order":1,"more":"` + strings.Repeat("x", 600_000) + `"}`) // what is not declared is no matter
		}
		if every := n / 6; i%every == every-1 {
			at := i / every % 2
			servers[at].Kill()
			said += servers[at].Said.String()
			servers[at] = serve(names[at])
		}
	}
	left := func() uint64 {
		all := uint64(0)
		listed := stream.ListConsumers(t.Context())
		for is := range listed.Info() {
			all += is.NumPending + uint64(is.NumAckPending) + 1
		}
		return all
	}
	p.Until("all messages are dealt with", func() bool { return left() == 1 })
	c := p.Connect()
	made := each(p, c, "ship")
	for i := range n {
		want := 1
		if i == 1 { // and the one with more
			want = 2
		}
		if made[i] != want {
			t.Fatalf("message %d has made %d tasks, want %d", i, made[i], want)
		}
	}
	if len(made) != n {
		t.Errorf("%d numbers have tasks, want %d: %d of before the job", len(made), n, made[-1])
	}
	said += servers[0].Said.String() + servers[1].Said.String()
	if got := strings.Count(said, "no task follows from a message"); got < 2 {
		t.Errorf("%d refusals were logged, want 2:\n%s", got, said)
	}
	if r := p.Try("verify"); r.Code > 1 {
		t.Errorf("millrace verify ends with code %d\n%s\n%s", r.Code, r.Out, r.Errs)
	}
	p.Run("job", "rm", "ship", "--yes")
	p.Until("the consumer goes with the job", func() bool { return left() == 0 })
}

// What a full queue has no room for waits in its stream. The chain of causes names the message, and a stream
// that is made anew makes new tasks.
func TestMessagesWaitForRoom(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Dev("--name", "here")
	js := p.JetStream()
	config := jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders"}}
	again := func() {
		if err := js.DeleteStream(t.Context(), "ORDERS"); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
	}
	again()
	p.Run("queue", "limit", "tight", "--max-waiting", "4")
	p.Run("queue", "pause", "tight")
	p.Write("ship.yaml", "name: ship\nqueue: tight\non: {stream: ORDERS, when: payload.order < 1000}\nparams:\n  - {name: order, type: integer}\n  - {name: nats}\nrun: {shell: 'echo \"$P_NATS\"', params_env: true}\n")
	p.Run("job", "apply", "-f", "ship.yaml")
	for i := range 12 {
		if _, err := js.Publish(t.Context(), "orders", fmt.Appendf(nil, `{"order":%d}`, i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.Publish(t.Context(), "orders", []byte(`{"order":1000}`)); err != nil { // which is for another job
		t.Fatal(err)
	}
	c := p.Connect()
	p.Until("the queue is full", func() bool { return len(each(p, c, "ship")) >= 4 })
	p.Run("queue", "resume", "tight")
	p.Worker("tight", "--queue", "tight")
	p.Until("all others have come", func() bool { return len(each(p, c, "ship")) == 12 })
	p.Until("that without a task does not come again", func() bool {
		stream, err := js.Stream(t.Context(), "ORDERS")
		if err != nil {
			t.Fatal(err)
		}
		left := 0
		listed := stream.ListConsumers(t.Context())
		for is := range listed.Info() {
			left += int(is.NumPending) + is.NumAckPending
		}
		return left == 0
	})
	again()
	if _, err := js.Publish(t.Context(), "orders", []byte(`{"order":100}`)); err != nil {
		t.Fatal(err)
	}
	p.Until("that of the new stream has come", func() bool { return each(p, c, "ship")[100] == 1 })
	for number, times := range each(p, c, "ship") {
		if times != 1 {
			t.Errorf("message %d has made %d tasks", number, times)
		}
	}
	var id task.ID
	for made, records := range p.ReadLog(c) {
		if kept := events.FoldTask(made, records); kept.Job == "ship" && strings.Contains(string(kept.Params), `"order":100`) {
			id = made
		}
	}
	p.Await(c, id, task.Finished)
	for _, line := range [][]string{{"task", "show", string(id)}, {"task", "why", string(id), "--chain"}} {
		if said := p.Run(line...); !strings.Contains(said, "message 1 of stream ORDERS") {
			t.Errorf("%s does not name the message:\n%s", strings.Join(line, " "), said)
		}
	}
	if said := p.Run("task", "logs", string(id)); !strings.Contains(said, `"subject":"orders","stream":"ORDERS","sequence":1`) {
		t.Errorf("what surrounds the message is %s", said)
	}
}

// Where no stream is a request makes a task, one for the same id, and its answer is the receipt.
func TestRequestsMakeTasks(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Dev("--name", "here")
	p.Write("page.yaml", "name: page\non: {subject: alerts.>, when: (payload.level ?? 9) > 3}\nparams: [{name: host, optional: true}]\nrun: \"true\"\n")
	p.Run("job", "apply", "-f", "page.yaml")
	nc := p.Dial()
	ask := func(id, body string) (*nats.Msg, client.Receipt) {
		m := nats.NewMsg("alerts.disk")
		m.Data = []byte(body)
		m.Header.Set("Nats-Msg-Id", id)
		var is client.Receipt
		var got *nats.Msg
		p.Until("a server listens", func() (answered bool) {
			ctx, done := context.WithTimeout(t.Context(), harness.Patience)
			defer done()
			var err error
			if got, err = nc.RequestMsgWithContext(ctx, m); err != nil {
				return false
			}
			_ = json.Unmarshal(got.Data, &is)
			return true
		})
		return got, is
	}
	_, first := ask("a", `{"host":"db"}`)
	_, again := ask("a", `{"host":"db"}`)
	_, other := ask("b", "")
	if first.ID == "" || again.ID != first.ID || other.ID == first.ID {
		t.Errorf("the same made %s and %s, another %s", first.ID, again.ID, other.ID)
	}
	if m, _ := ask("c", "down"); m.Header.Get("Nats-Service-Error-Code") != strconv.Itoa(400) {
		t.Errorf("what is no JSON is answered with %v %s", m.Header, m.Data)
	}
	if m, is := ask("d", `{"host":"db","level":1}`); string(m.Data) != "null" || is.ID != "" {
		t.Errorf("one for which the condition does not hold is answered with %v %s", m.Header, m.Data)
	}
	if m, _ := ask("e", `{"level":"high"}`); m.Header.Get("Nats-Service-Error") != "the message is refused: invalid submission: on.when: > does not go with a text and a number (character 22)" {
		t.Errorf("one for which the condition has no answer is answered with %v %s", m.Header, m.Data)
	}
	c := p.Connect()
	if is := p.Await(c, first.ID, task.Finished); is.MadeBy != "a message on alerts.disk" || string(is.Params) != `{"host":"db"}` {
		t.Errorf("it is made by %q with %s", is.MadeBy, is.Params)
	}
}

// Each version of a file that appears in a folder makes one task on its node, however often the worker is
// killed. What is not complete, lies elsewhere or is no file makes none.
func TestFilesMakeTasks(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Server()
	for _, folder := range []string{"in", "else"} {
		if err := os.MkdirAll(p.Path(folder+"/sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p.Write("load.yaml", "name: load\non: {file: '"+p.Path("in")+"/*', quiet: 100ms, when: payload.size < 100}\nparams:\n  - {name: file, type: string}\nrun: {shell: 'cat \"$P_FILE\"', params_env: true}\n"+
		"---\nname: peep\non: {file: '"+p.Path("else")+"/*', quiet: 0s}\nrun: \"true\"\n")
	p.Run("job", "apply", "-f", "load.yaml")
	p.Write("else/a", "no")
	watch := []string{"--watch", p.Path("in")}
	w := p.Worker("here", watch...)
	p.Worker("there")
	c := p.Connect()
	made := func() (all []task.Task) {
		for id, records := range p.ReadLog(c) {
			if is := events.FoldTask(id, records); is.State == task.Finished {
				all = append(all, is)
			}
		}
		return all
	}
	n := 0
	for ; n < 12; n++ {
		p.Write(fmt.Sprintf("in/%d", n), strconv.Itoa(n))
		if n%4 == 3 {
			w.Kill()
			w = p.Worker("here", watch...)
		}
	}
	for _, name := range []string{"in/.hidden", "in/9.part", "in/sub/x"} {
		p.Write(name, "no")
	}
	p.Until("all files have their tasks", func() bool { return len(made()) >= n })
	p.Write("in/large", strings.Repeat("x", 100))
	p.Write("in/0", "again")
	p.Until("another version has one, too", func() bool { return len(made()) > n })
	w.Kill()
	p.Worker("here", watch...)
	p.Write("in/last", "last")
	p.Until("the last has one", func() bool { return len(made()) > n+1 })
	times := map[string]int{}
	for _, is := range made() {
		times[string(is.Params)]++
		if is.Node != "here" || is.Job != "load" || !strings.HasPrefix(is.MadeBy, "file "+p.Path("in")) {
			t.Errorf("task %s of job %s ran on %s, made by %q", is.ID, is.Job, is.Node, is.MadeBy)
		}
	}
	for params, times := range times {
		if want := 1 + strings.Count(params, "/in/0\""); times != want {
			t.Errorf("%s made %d tasks, want %d", params, times, want)
		}
	}
	if len(times) != n+1 {
		t.Errorf("%d files made tasks, want %d", len(times), n+1)
	}
}
