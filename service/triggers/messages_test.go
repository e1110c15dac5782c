package triggers

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/events/jet/pubsub"
	"millrace/task/job"
	"millrace/task/param"
)

// A message of a stream makes one task for each job, however often it comes; another one of the same number
// comes from a stream that was made anew.
func TestHeard(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	of := job.Job{Name: "ship"}
	for _, name := range []string{"order", "nats"} {
		of.Params.Declared = append(of.Params.Declared, param.Param{Name: name})
	}
	stored := pubsub.Message{Stream: "ORDERS", Made: noon, Seq: 7, At: noon.Add(time.Minute), Subject: "orders.created", Header: map[string][]string{"From": {"shop"}}, Data: []byte(`{"order":12,"nats":"forged","else":1}`)}
	s, err := heard(&of, &stored, noon)
	got, _ := json.Marshal(s.Params)
	if want := `{"nats":{"subject":"orders.created","stream":"ORDERS","sequence":7,"stored":"2026-03-01T12:01:00Z","headers":{"From":["shop"]}},"order":12}`; err != nil || string(got) != want {
		t.Errorf("the parameters are %s (%v), want %s", got, err, want)
	}
	if want := "message 7 of stream ORDERS, made 2026-03-01T12:00:00Z"; s.Origin.MadeBy != want || !s.ID.Derived() {
		t.Errorf("%s is made by %q, want %q", s.ID, s.Origin.MadeBy, want)
	}
	for name, c := range map[string]struct {
		job    string
		change func(*pubsub.Message)
		same   bool
	}{
		"again, later":     {"ship", func(*pubsub.Message) {}, true},
		"another job":      {"bill", func(*pubsub.Message) {}, false},
		"the next":         {"ship", func(m *pubsub.Message) { m.Seq++ }, false},
		"another stream":   {"ship", func(m *pubsub.Message) { m.Stream = "BACK" }, false},
		"a stream remade":  {"ship", func(m *pubsub.Message) { m.Made = m.Made.Add(time.Hour) }, false},
		"no stream":        {"ship", func(m *pubsub.Message) { m.Stream = "" }, false},
		"no stream, known": {"ship", func(m *pubsub.Message) { m.Stream, m.ID = "", "x" }, false},
	} {
		m := stored
		c.change(&m)
		other, err := heard(&job.Job{Name: c.job}, &m, noon.Add(time.Hour))
		if err != nil || (other.ID == s.ID) != c.same {
			t.Errorf("%s: task %s (%v), beside %s", name, other.ID, err, s.ID)
		}
		if (other.ID == "") != (m.Stream == "") || (other.Unique != nil) != (m.ID != "") {
			t.Errorf("%s: the task is known again by %q and %+v", name, other.ID, other.Unique)
		}
	}
	if _, err := heard(&of, &pubsub.Message{Data: []byte("order=12")}, noon); err == nil {
		t.Error("a message that is no JSON makes a task")
	}
}
