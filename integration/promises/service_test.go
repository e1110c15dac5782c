package promises

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/queue"
	"millrace/task/schedule"
	"millrace/task/value"
)

// A program in any language can do all that it needs with NATS alone.
func TestService(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	dev := p.Dev("--name", "here")
	c, nc := p.Connect(), p.Dial()

	var pages []byte // those that name verbs
	for _, page := range []string{"http.md", "wire.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", page))
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, text...)
	}
	info := harness.Ask[micro.Info](p, nc, "$SRV.INFO.millrace", "")
	served := map[rights.Access][]rights.Verb{}
	for _, e := range info.Endpoints {
		if e.Metadata["description"] == "" {
			t.Errorf("endpoint %s does not say what it is for", e.Subject)
		}
		verb := rights.Verb(strings.TrimPrefix(e.Subject, "mr.api.*."))
		served[verb.Access()] = append(served[verb.Access()], verb)
		if e.Metadata["access"] != string(verb.Access()) {
			t.Errorf("endpoint %s says that it is for %s", e.Subject, e.Metadata["access"])
		}
	}
	for _, a := range []rights.Access{"", rights.Reading, rights.Owning, rights.Answering, rights.Submitting, rights.Operating} {
		want := rights.Verbs(a)
		var told []rights.Verb // on the pages, some of them by several paths
		for _, m := range regexp.MustCompile(`(?m)^[A-Z]+ +/\S* +([a-z]+\.[a-z]+) +`+string(a)+` `).FindAllSubmatch(pages, -1) {
			if verb := rights.Verb(m[1]); a != "" && !slices.Contains(told, verb) {
				told = append(told, verb)
			}
		}
		if row := regexp.MustCompile(`(?m)^\| ` + string(a) + ` \|.*$`).Find(pages); a != "" {
			for _, m := range regexp.MustCompile("`([a-z]+\\.[a-z]+)`").FindAllSubmatch(row, -1) {
				told = append(told, rights.Verb(m[1]))
			}
		}
		for _, verbs := range [][]rights.Verb{want, told, served[a]} {
			slices.Sort(verbs)
		}
		if !slices.Equal(served[a], want) || !slices.Equal(told, want) {
			t.Errorf("%s: served %s, docs/http.md and docs/wire.md name %s, want %s", a, served[a], told, want)
		}
	}

	p.Write("hello.yaml", "name: hello\nrun: echo hello\n")
	p.Run("job", "apply", "-f", "hello.yaml")
	receipt := harness.Ask[client.Receipt](p, nc, "mr.api.ada.task.submit", `{"job":"hello","params":{"name":"World"},"labels":{"team":"a"}}`)
	p.Await(c, receipt.ID, task.Finished)
	got := harness.Ask[task.Task](p, nc, "mr.api.ada.task.get", `{"id":"`+string(receipt.ID)+`"}`)
	if got.State != task.Finished || got.Job != "hello" || got.Labels["team"] != "a" || string(got.Params) != `{"name":"World"}` {
		t.Errorf("got %+v", got)
	}
	last := p.State(c, receipt.ID).Seq
	request, err := json.Marshal(client.ListRequest{Filter: view.Filter{States: []task.State{task.Finished}}, AtLeast: last, Counts: true})
	if err != nil {
		t.Fatal(err)
	}
	page := harness.Ask[client.ListPage](p, nc, "mr.api.ada.task.list", string(request))
	if len(page.Tasks) != 1 || page.Tasks[0].ID != receipt.ID || page.Seq < last || page.Counts["finished"] != 1 {
		t.Errorf("page %+v, want task %s as of sequence %d", page, receipt.ID, last)
	}
	nodes := harness.Ask[client.NodePage](p, nc, "mr.api.ada.node.list", "")
	if len(nodes.Nodes) != 1 || nodes.Nodes[0].ID != "here" || nodes.Nodes[0].LastBeat.IsZero() {
		t.Errorf("nodes %+v", nodes)
	}
	if waited := harness.Ask[struct{ Met bool }](p, nc, "mr.api.ada.node.wait", `{"id":"here","stable":"1ms"}`); !waited.Met {
		t.Error("waited in vain for a node that is ready")
	}
	for _, subject := range []string{"get", "release"} {
		if v := harness.Ask[client.NodeView](p, nc, "mr.api.ada.node."+subject, `{"id":"here"}`); v.State != node.Ready || !v.Takes() || v.Next.Who != "nobody" {
			t.Errorf("%s: %+v", subject, v)
		}
	}
	for _, step := range []struct {
		subject string
		state   node.State
	}{{"cordon", node.Ready}, {"drain", node.Draining}, {"undrain", node.Ready}} {
		v := harness.Ask[client.NodeView](p, nc, "mr.api.ada.node."+step.subject, `{"id":"here","reason":"test"}`)
		if v.State != step.state || v.Takes() != (step.subject == "undrain") {
			t.Errorf("%s: %+v", step.subject, v)
		}
	}
	sleeper := harness.Ask[client.Receipt](p, nc, "mr.api.ada.task.submit", `{"spec":{"run":{"argv":["sleep","600"]}}}`)
	p.Await(c, sleeper.ID, task.Running)
	harness.Ask[task.Task](p, nc, "mr.api.ada.task.cancel", `{"id":"`+string(sleeper.ID)+`","reason":"enough"}`)
	if ended := p.Await(c, sleeper.ID, task.Cancelled); ended.Message != "enough" {
		t.Errorf("cancelled with %q", ended.Message)
	}

	otherRequests(p, c, nc, receipt.ID)

	for _, refused := range []struct{ subject, request, code, word string }{
		{"mr.api.ada.task.submit", `{"job":"none"}`, "404", `no such job: "none"`},
		{"mr.api.ada.task.submit", `{"jop":"hello"}`, "400", "jop"},
		{"mr.api.ada.task.submit", `{"job":"hello","delay":"soon"}`, "400", "soon"},
		{"mr.api.task.submit", `{"job":"hello"}`, "400", "mr.api.task.submit does not say who asks"},
		{"mr.api.health", "", "400", "does not say who asks"},
		{"mr.api.ada.b.task.submit", `{"job":"hello"}`, "400", "does not say who asks"},
		{"mr.api.ada@b.task.submit", `{"job":"hello"}`, "400", `user name "ada@b": want 1 to 64 letters`},
		{"mr.api.scheduler.task.submit", `{"job":"hello"}`, "400", "no user has it"},
		{"mr.api.ada.task.submit", `{"job":"hello","actor":"bob"}`, "400", "actor"},
		{"mr.api.ada.task.get", `{"id":"01JD6Z8V3M0QK4T7W2X9Y5ABCD"}`, "404", "no such task"},
		// It was asked for.
		{"mr.api.ada.task.cancel", `{"id":"` + string(sleeper.ID) + `"}`, "", ""},
		{"mr.api.ada.task.cancel", `{"id":"` + string(receipt.ID) + `"}`, "409", "has ended"},
		{"mr.api.ada.task.list", `{"limit":-1}`, "400", "limit"},
		{"mr.api.ada.task.retry", `{"id":"01JD6Z8V3M0QK4T7W2X9Y5ABCD"}`, "404", "no such task"},
		{"mr.api.ada.task.copy", `{"id":"` + string(receipt.ID) + `","task":{"id":"` + string(receipt.ID) + `"}}`, "400", "task.id"},
		{"mr.api.ada.task.copy", `{"id":"` + string(receipt.ID) + `","task":{"priority":11}}`, "400", "priority"},
		{"mr.api.ada.task.plan", `{}`, "400", "want id"},
		{"mr.api.ada.task.plan", `{"job":"none"}`, "404", "no such job"},
		{"mr.api.ada.task.plan", `{"spec":{"handler":"h","place":{"mode":"some"}}}`, "400", "place.mode"},
		{"mr.api.ada.node.label", `{"id":"here","labels":{"node":"x"}}`, "400", "node"},
		{"mr.api.ada.node.label", `{"id":"here","labels":{"a b":"x"}}`, "400", "label"},
		{"mr.api.ada.node.label", `{"id":"nowhere","labels":{"a":"x"}}`, "404", "nowhere"},
		{"mr.api.ada.schedule.get", `{"name":"none"}`, "404", "none"},
		{"mr.api.ada.schedule.get", `{"name":"*"}`, "400", "name"},
		{"mr.api.ada.schedule.get", `{"name":"hourly","limit":2000}`, "400", "limit"},
		{"mr.api.ada.schedule.pause", `{"name":"none"}`, "404", "none"},
		{"mr.api.ada.schedule.run", `{"name":"hourly","task":{"job":"hello"}}`, "400", "task.job"},
		{"mr.api.ada.schedule.run", `{"name":"none"}`, "404", "none"},
		{"mr.api.ada.task.list", `{"cursor":"nonsense"}`, "400", "cursor"},
	} {
		reply, err := nc.Request(refused.subject, []byte(refused.request), harness.Patience)
		if err != nil {
			t.Fatal(err)
		}
		code, words := reply.Header.Get(micro.ErrorCodeHeader), reply.Header.Get(micro.ErrorHeader)
		if code != refused.code || !strings.Contains(words, refused.word) {
			t.Errorf("%s %s: %s %s, want %s with %q", refused.subject, refused.request, code, words, refused.code, refused.word)
		}
	}
	slowRequest(p, c, nc)
	dev.Stop()
}

// slowRequest checks that requests that wait for news hold up no other request.
func slowRequest(p *harness.Place, c *client.Client, nc *nats.Conn) {
	p.Helper()
	last, err := c.Store().Last(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	now := harness.Ask[client.ListPage](p, nc, "mr.api.ada.task.list", fmt.Sprintf(`{"limit":1,"at_least":%d}`, last))
	// Nothing happens now, so the requests wait.
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
		if err := nc.PublishRequest("mr.api.ada.task.list", inbox, request); err != nil {
			p.Fatal(err)
		}
	}
	for range 3 {
		harness.Ask[client.ListPage](p, nc, "mr.api.ada.task.list", `{}`)
		harness.Ask[client.NodePage](p, nc, "mr.api.ada.node.list", `{}`)
	}
	if n, _, err := news.Pending(); err != nil || n > 0 {
		p.Errorf("%d answers (%v) to requests for news when there are none", n, err)
	}
	p.Run("run", "--wait", "--", "true")
	for range waiting {
		reply, err := news.NextMsg(harness.Patience)
		if err != nil {
			p.Fatalf("no answer although there are news: %v", err)
		}
		var page client.ListPage
		if err := json.Unmarshal(reply.Data, &page); err != nil || page.Seq <= now.Seq {
			p.Errorf("news as of %d after %d: %v", page.Seq, now.Seq, err)
		}
	}
}

// otherRequests tries the rarer requests; done is a task that has finished.
func otherRequests(p *harness.Place, c *client.Client, nc *nats.Conn, done task.ID) {
	p.Helper()
	v := harness.Ask[client.NodeView](p, nc, "mr.api.ada.node.label", `{"id":"here","labels":{"zone":"eu","gone":null}}`)
	if v.Labels["zone"] != "eu" {
		p.Errorf("labelled: %v", v.Labels)
	}
	harness.Ask[client.NodePage](p, nc, "mr.api.ada.node.list", fmt.Sprintf(`{"at_least":%d}`, v.Head))
	plan := harness.Ask[view.Plan](p, nc, "mr.api.ada.task.plan", `{"job":"hello","place":{"labels":["zone=us"]}}`)
	if len(plan.Nodes) != 1 || plan.Nodes[0].Rule != node.RuleLabel || plan.Job != "hello" {
		p.Errorf("the plan for another zone is %+v", plan)
	}
	plan = harness.Ask[view.Plan](p, nc, "mr.api.ada.task.plan", `{"spec":{"run":{"argv":["true"]},"place":{"sticky":"job","prefer":[{"labels":["zone=eu"],"weight":7}]}}}`)
	if len(plan.Nodes) != 1 || plan.Nodes[0].Rule != "" || plan.Nodes[0].Score != 7 || plan.Prefers == "" {
		p.Errorf("the plan with preferences is %+v", plan)
	}
	copied := harness.Ask[client.Receipt](p, nc, "mr.api.ada.task.copy", `{"id":"`+string(done)+`","task":{"params":{"name":"Moon"},"place":{"labels":["zone=eu"]},"priority":8}}`)
	got := p.Await(c, copied.ID, task.Finished)
	if got.RetryOf != done || string(got.Params) != `{"name":"Moon"}` || !got.Route.Selected() {
		p.Errorf("the copy is %+v", got)
	}
	// One of a task that waits for labels is a task like that.
	again := harness.Ask[client.Receipt](p, nc, "mr.api.ada.task.copy", `{"id":"`+string(copied.ID)+`"}`)
	p.Await(c, again.ID, task.Finished)
	page := harness.Ask[client.ListPage](p, nc, "mr.api.ada.task.list", fmt.Sprintf(`{"priorities":[8,9],"at_least":%d}`, p.State(c, again.ID).Seq))
	if len(page.Tasks) != 2 || page.Tasks[0].ID != again.ID || page.Tasks[1].ID != copied.ID {
		p.Errorf("of priority 8 are %+v", page.Tasks)
	}
	if retried := harness.Ask[task.Task](p, nc, "mr.api.ada.task.retry", `{"id":"`+string(again.ID)+`","reason":"once more"}`); retried.ID != again.ID || retried.State.Terminal() {
		p.Errorf("retried: %+v", retried)
	}
	if ended := p.Await(c, again.ID, task.Finished); ended.Attempt != 2 {
		p.Errorf("it was tried %d times", ended.Attempt)
	}

	if q := harness.Ask[queue.Queue](p, nc, "mr.api.ada.queue.limit", `{"queue":"crawl","rate":{"limit":100,"per":"1m"}}`); q.Rate != (limit.Rate{Limit: 100, Per: value.Duration(time.Minute)}) || q.RateSince == 0 {
		p.Errorf("the queue is %+v", q)
	}
	if q := harness.Ask[queue.Queue](p, nc, "mr.api.ada.queue.limit", `{"queue":"crawl","running":2,"rate":{}}`); q.Rate != (limit.Rate{}) || q.Limit != 2 {
		p.Errorf("the queue is %+v", q)
	}

	p.Run("schedule", "add", "hourly", "hello", "--every", "1h", "-p", "name=Sun")
	var list struct{ Schedules []schedule.Stored }
	if list = harness.Ask[struct{ Schedules []schedule.Stored }](p, nc, "mr.api.ada.schedule.list", ""); len(list.Schedules) != 1 || list.Schedules[0].Name != "hourly" {
		p.Errorf("schedules: %+v", list)
	}
	if paused := harness.Ask[schedule.Stored](p, nc, "mr.api.ada.schedule.pause", `{"name":"hourly","reason":"enough"}`); paused.Paused == nil || paused.Paused.Reason != "enough" {
		p.Errorf("paused: %+v", paused)
	}
	run := harness.Ask[client.Receipt](p, nc, "mr.api.ada.schedule.run", `{"name":"hourly","task":{"params":{"extra":1}}}`)
	if made := p.Await(c, run.ID, task.Finished); made.Schedule != "hourly" || made.Trigger != task.TriggerManual || string(made.Params) != `{"extra":1,"name":"Sun"}` {
		p.Errorf("run: %+v", made)
	}
	if resumed := harness.Ask[schedule.Stored](p, nc, "mr.api.ada.schedule.resume", `{"name":"hourly"}`); resumed.Paused != nil {
		p.Errorf("resumed: %+v", resumed)
	}
	if is := harness.Ask[client.Backfilled](p, nc, "mr.api.ada.schedule.backfill", `{"name":"hourly","from":"2026-03-01","to":"2026-03-02","dry_run":true}`); is.Ticks == 0 || is.Missing != is.Ticks {
		p.Errorf("a backfill would be %+v", is)
	}
	if v := harness.Ask[client.ScheduleView](p, nc, "mr.api.ada.schedule.get", `{"name":"hourly"}`); v.Name != "hourly" || len(v.Next) != 3 || v.Ticks == nil {
		p.Errorf("the schedule is %+v", v)
	}
}
