package promises

import (
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/integration/harness"
	"millrace/projections/view"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
)

// The present that the service, the log and the heartbeats show is what the records of the log add
// up to.
func TestViewsAgree(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.Dev("--name", "here")
	c := p.Connect()
	p.Write("hello.yaml", "name: hello\nrun: {argv: [\"true\"]}\n")
	p.Run("job", "apply", "-f", "hello.yaml")
	p.Run("run", "hello", "--wait")
	p.Run("queue", "pause", "bulk", "--reason", "too loud")
	waiting := p.SubmitAs(c, birth.Submission{Queue: "bulk", Spec: &job.Spec{Handler: "x"}})
	p.SubmitAs(c, birth.Submission{Nodes: []string{"nobody"}, Spec: &job.Spec{Handler: "x"}})
	nc := p.Dial()
	if _, err := nc.Request("mr.task."+string(waiting), []byte("no fact"), harness.Patience); err != nil {
		t.Fatal(err)
	}

	past := readWorld(t, p.Run("events", "export"))
	present := c.View()
	point, err := past.Point(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []view.Query{
		{Kind: view.Tasks}, {Kind: view.Tasks, Filter: view.Filter{Queue: "bulk"}}, {Kind: view.Tasks, Filter: view.Filter{States: []task.State{task.Finished}, Job: "hello"}},
		{Kind: view.Nodes}, {Kind: view.Queues}, {Kind: view.Definitions}, {Kind: view.Messages},
	} {
		q.AtLeast = point.Seq
		have, err := present.List(t.Context(), q)
		want, err2 := past.List(t.Context(), q)
		if err != nil || err2 != nil {
			t.Fatal(q.Kind, err, err2)
		}
		if have, want := heads(&have), heads(&want); len(want) == 0 || !reflect.DeepEqual(have, want) {
			t.Errorf("%s %+v:\nhave %v\nwant %v", q.Kind, q.Filter, have, want)
		}
		if q.Kind != view.Tasks {
			continue
		}
		counts, err := present.Count(t.Context(), q)
		plain, err2 := past.Count(t.Context(), q)
		if err != nil || err2 != nil || !reflect.DeepEqual(counts.Of, plain.Of) {
			t.Errorf("%+v: %v, %v; want %v, %v", q.Filter, counts.Of, err, plain.Of, err2)
		}
	}
	for _, ref := range []view.Ref{view.Task(waiting), view.Node("here"), view.Queue("bulk"), view.Definition("job.hello")} {
		was, err := past.Get(t.Context(), ref)
		is, err2 := present.Get(t.Context(), ref)
		changes, err3 := view.DiffItems(was, is)
		if err := errors.Join(err, err2, err3); err != nil || len(changes) > 0 {
			t.Errorf("%s: %v, %v", ref, changes, err)
		}
	}
	e, err := view.Why(t.Context(), present, waiting, view.Rules{Now: c.Now(), Node: node.Settings{TTL: time.Minute}})
	then, err2 := view.Why(t.Context(), past, waiting, view.Rules{})
	if err != nil || err2 != nil || e.What != then.What || !strings.Contains(e.What, "bulk") {
		t.Errorf("%+v, %v; then %+v, %v", e, err, then, err2)
	}
}

// readWorld returns the world that the facts of an export add up to.
func readWorld(t *testing.T, export string) *view.World {
	t.Helper()
	reader, err := events.NewExportReader(strings.NewReader(export))
	if err != nil {
		t.Fatal(err)
	}
	var records []events.Record
	for {
		r, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return view.Past(records, view.Moment{})
		}
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
}

// heads are the things of a page, each with the last that is known of it.
func heads(p *view.Page) map[string]uint64 {
	all := map[string]uint64{}
	for i := range p.Tasks {
		all[string(p.Tasks[i].ID)] = p.Tasks[i].Seq
	}
	for i := range p.Nodes {
		all[string(p.Nodes[i].ID)] = p.Nodes[i].Head
	}
	for i := range p.Queues {
		all[p.Queues[i].Name] = p.Queues[i].Head
	}
	for def, d := range p.Definitions {
		all[string(def)] = d.Head
	}
	for i := range p.Messages {
		all["message"] = p.Messages[i].Seq
	}
	return all
}
