package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/client"
	"millrace/node"
	"millrace/task"
)

// ask sends a request to the service as the nats command line does, and decodes
// the answer.
func ask[T any](p *place, nc *nats.Conn, subject, request string) T {
	p.Helper()
	var answer T
	reply, err := nc.Request(subject, []byte(request), patience)
	if err != nil {
		p.Fatalf("%s %s: %v", subject, request, err)
	}
	if code := reply.Header.Get(micro.ErrorCodeHeader); code != "" {
		p.Fatalf("%s %s: %s %s", subject, request, code, reply.Header.Get(micro.ErrorHeader))
	}
	if err := json.Unmarshal(reply.Data, &answer); err != nil {
		p.Fatalf("%s: %v in %s", subject, err, reply.Data)
	}
	return answer
}

// A program in any language can do with NATS alone what it needs.
func TestService(t *testing.T) {
	t.Parallel()
	p := newPlace(t, 2*time.Second)
	dev := p.dev("--name", "here")
	c, nc := p.connect(), p.dial()

	info := ask[micro.Info](p, nc, "$SRV.INFO.millrace", "")
	var endpoints []string
	for _, e := range info.Endpoints {
		endpoints = append(endpoints, e.Subject)
		if e.Metadata["description"] == "" {
			t.Errorf("endpoint %s does not say what it is for", e.Subject)
		}
	}
	want := "mr.api.task.submit mr.api.task.get mr.api.task.list mr.api.task.cancel mr.api.task.release mr.api.dead.list" +
		" mr.api.queue.list mr.api.queue.pause mr.api.queue.resume mr.api.queue.limit mr.api.limit.list mr.api.dead.dismiss mr.api.node.list" +
		" mr.api.node.get mr.api.node.wait mr.api.node.drain mr.api.node.undrain mr.api.node.cordon mr.api.node.uncordon mr.api.task.signal mr.api.node.release"
	if got := strings.Join(endpoints, " "); got != want {
		t.Errorf("endpoints %s, want %s", got, want)
	}

	p.write("hello.yaml", "name: hello\nrun: echo hello\n")
	p.run("job", "apply", "-f", "hello.yaml")
	receipt := ask[client.Receipt](p, nc, "mr.api.task.submit", `{"job":"hello","params":{"name":"World"},"labels":{"team":"a"}}`)
	p.await(c, receipt.ID, task.Finished)
	got := ask[task.Task](p, nc, "mr.api.task.get", `{"id":"`+string(receipt.ID)+`"}`)
	if got.State != task.Finished || got.Job != "hello" || got.Labels["team"] != "a" || string(got.Params) != `{"name":"World"}` {
		t.Errorf("got %+v", got)
	}
	last := p.state(c, receipt.ID).Seq
	request, err := json.Marshal(client.ListRequest{States: []task.State{task.Finished}, AtLeast: last, Counts: true})
	if err != nil {
		t.Fatal(err)
	}
	page := ask[client.ListPage](p, nc, "mr.api.task.list", string(request))
	if len(page.Tasks) != 1 || page.Tasks[0].ID != receipt.ID || page.Seq < last || page.Counts["finished"] != 1 {
		t.Errorf("page %+v, want task %s as of sequence %d", page, receipt.ID, last)
	}
	nodes := ask[client.NodePage](p, nc, "mr.api.node.list", "")
	if len(nodes.Nodes) != 1 || nodes.Nodes[0].ID != "here" || nodes.Nodes[0].LastBeat.IsZero() {
		t.Errorf("nodes %+v", nodes)
	}
	if waited := ask[struct{ Met bool }](p, nc, "mr.api.node.wait", `{"id":"here","stable":"1ms"}`); !waited.Met {
		t.Error("waited in vain for a node that is ready")
	}
	for _, subject := range []string{"get", "release"} {
		if v := ask[client.NodeView](p, nc, "mr.api.node."+subject, `{"id":"here"}`); v.State != node.Ready || !v.Takes() || v.Next.Who != "nobody" {
			t.Errorf("%s: %+v", subject, v)
		}
	}
	for _, step := range []struct {
		subject string
		state   node.State
	}{{"cordon", node.Ready}, {"drain", node.Draining}, {"undrain", node.Ready}} {
		v := ask[client.NodeView](p, nc, "mr.api.node."+step.subject, `{"id":"here","reason":"test"}`)
		if v.State != step.state || v.Takes() != (step.subject == "undrain") {
			t.Errorf("%s: %+v", step.subject, v)
		}
	}
	sleeper := ask[client.Receipt](p, nc, "mr.api.task.submit", `{"spec":{"run":{"argv":["sleep","600"]}}}`)
	p.await(c, sleeper.ID, task.Running)
	ask[task.Task](p, nc, "mr.api.task.cancel", `{"id":"`+string(sleeper.ID)+`","reason":"enough"}`)
	if ended := p.await(c, sleeper.ID, task.Cancelled); ended.Message != "enough" {
		t.Errorf("cancelled with %q", ended.Message)
	}

	for _, refused := range []struct{ subject, request, code, word string }{
		{"mr.api.task.submit", `{"job":"none"}`, "404", `no such job: "none"`},
		{"mr.api.task.submit", `{"jop":"hello"}`, "400", "jop"},
		{"mr.api.task.submit", `{"job":"hello","delay":"soon"}`, "400", "soon"},
		{"mr.api.task.get", `{"id":"01JD6Z8V3M0QK4T7W2X9Y5ABCD"}`, "404", "no such task"},
		{"mr.api.task.cancel", `{"id":"` + string(sleeper.ID) + `"}`, "", ""}, // it is what was asked for
		{"mr.api.task.cancel", `{"id":"` + string(receipt.ID) + `"}`, "409", "has ended"},
		{"mr.api.task.list", `{"limit":-1}`, "400", "limit"},
		{"mr.api.task.list", `{"cursor":"nonsense"}`, "400", "cursor"},
	} {
		reply, err := nc.Request(refused.subject, []byte(refused.request), patience)
		if err != nil {
			t.Fatal(err)
		}
		code, words := reply.Header.Get(micro.ErrorCodeHeader), reply.Header.Get(micro.ErrorHeader)
		if code != refused.code || !strings.Contains(words, refused.word) {
			t.Errorf("%s %s: %s %s, want %s with %q", refused.subject, refused.request, code, words, refused.code, refused.word)
		}
	}
	p.slowRequest(c, nc)
	dev.stop()
}

// slowRequest checks that requests which wait for news keep nobody else waiting.
func (p *place) slowRequest(c *client.Client, nc *nats.Conn) {
	p.Helper()
	last, err := c.Store().Last(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	now := ask[client.ListPage](p, nc, "mr.api.task.list", fmt.Sprintf(`{"limit":1,"at_least":%d}`, last))
	// Nothing happens now, so they wait until something does.
	request, err := json.Marshal(client.ListRequest{NewerThan: now.Seq})
	if err != nil {
		p.Fatal(err)
	}
	inbox := nats.NewInbox()
	news, err := nc.SubscribeSync(inbox)
	if err != nil {
		p.Fatal(err)
	}
	const waiting = 10
	for range waiting {
		if err := nc.PublishRequest("mr.api.task.list", inbox, request); err != nil {
			p.Fatal(err)
		}
	}
	for range 3 {
		ask[client.ListPage](p, nc, "mr.api.task.list", `{}`)
		ask[client.NodePage](p, nc, "mr.api.node.list", `{}`)
	}
	if n, _, err := news.Pending(); err != nil || n > 0 {
		p.Errorf("%d answers (%v) to requests for news when there are none", n, err)
	}
	p.run("run", "--wait", "--", "true")
	for range waiting {
		reply, err := news.NextMsg(patience)
		if err != nil {
			p.Fatalf("no answer although there are news: %v", err)
		}
		var page client.ListPage
		if err := json.Unmarshal(reply.Data, &page); err != nil || page.Seq <= now.Seq {
			p.Errorf("news as of %d after %d: %v", page.Seq, now.Seq, err)
		}
	}
}
