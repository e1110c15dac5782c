package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/output"
)

// plainPage is a page without its own form.
type plainPage ListPage

func somePage(n int) ListPage {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	spec := &job.Spec{Handler: "work"}
	p := ListPage{Next: "x", Seq: 7, Counts: map[string]int{"finished": n}}
	for i := range n {
		p.Tasks = append(p.Tasks, task.Task{
			ID: task.ID(fmt.Sprintf("01JNAT%020d", i)), State: task.Finished, Seq: uint64(3*i + 3), Head: uint64(3*i + 3), Turn: uint64(3*i + 1), Epoch: uint64(3*i + 2), Offer: uint64(3*i + 1), Attempt: 1,
			Node: "crawler-7", Session: "01JNAS00000000000000000000", SubmittedAt: at, Since: at, StartedAt: at.Add(time.Millisecond), EndedAt: at.Add(time.Second),
			Message: "<done> & gone", Result: json.RawMessage(`{"pages":12}`),
			Work: task.Work{Job: "crawl", Revision: 3, Spec: spec, Route: "default.5", Labels: map[string]string{"env": "prod"}, Params: json.RawMessage(`{"url":"https://example.org/"}`)},
		})
	}
	return p
}

// A page is written as encoding/json writes it without escaping signs of HTML, and read as it reads
// it.
func TestPagesByForm(t *testing.T) {
	t.Parallel()
	full := somePage(3)
	full.Suspects = map[task.ID]*node.Doubt{full.Tasks[0].ID: {Reason: "silent"}}
	full.Live = map[task.ID]*output.Live{full.Tasks[1].ID: {}}
	full.Wholes = map[task.ID]*Whole{full.Tasks[2].ID: {Ended: 1, Total: 2, Running: []string{"a"}}}
	for name, page := range map[string]ListPage{"full": full, "empty": {Tasks: []task.Task{}}} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(plainPage(page)); err != nil {
			t.Fatal(err)
		}
		want := bytes.TrimSpace(b.Bytes())
		got, err := page.AppendJSON(nil)
		if err != nil || string(got) != string(want) {
			t.Errorf("%s: a page is (%v)\n%s\nwant\n%s", name, err, got, want)
		}
		var back ListPage
		if err := back.ReadJSON(got); err != nil {
			t.Fatal(err)
		}
		var plain plainPage
		if err := json.Unmarshal(want, &plain); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, ListPage(plain)) {
			t.Errorf("%s: read back is %+v, want %+v", name, back, plain)
		}
	}
	if err := new(ListPage).ReadJSON([]byte(`{"tasks":[{"id":7}]}`)); err == nil {
		t.Error("a page with an id that is a number is read")
	}
}

func BenchmarkPage(b *testing.B) {
	page := somePage(500)
	b.Run("form", func(b *testing.B) {
		for b.Loop() {
			text, err := page.AppendJSON(nil)
			if err != nil {
				b.Fatal(err)
			}
			if err := new(ListPage).ReadJSON(text); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding-json", func(b *testing.B) {
		for b.Loop() {
			text, err := json.Marshal(plainPage(page))
			if err != nil {
				b.Fatal(err)
			}
			if err := json.Unmarshal(text, &plainPage{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
func TestWholeText(t *testing.T) {
	p := task.Task{ID: "01JD6Z8V3M0QK4T7W2X9Y5ABCD", Work: task.Work{Spec: &job.Spec{Steps: []job.Step{{Name: "a"}}}}, Children: &task.Children{Names: []string{"a", "b", "c", "d"}}}
	ends := map[task.ID]task.End{
		birth.ChildID(p.ID, "a"): {State: task.Finished}, birth.ChildID(p.ID, "b"): {State: task.Error},
		birth.ChildID(p.ID, "c"): {State: task.Running},
	}
	w := WholeOf(&p, ends)
	if got, want := w.Text(), "2/4, 1 failed: c"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w = WholeOf(&p, nil)
	if got, want := w.Text(), "0/4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
