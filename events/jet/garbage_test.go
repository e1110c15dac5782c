package jet

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
	"millrace/task"
	"millrace/task/node"
)

var submittedNoop = task.Submitted{Work: testWork("default")}

func encoded(t *testing.T, f *events.Fact) []byte {
	t.Helper()
	return must(events.Encode(nil, f))(t)
}

// garbage are the messages that may lie in place of a fact of a task, or of a node.
func garbage(t *testing.T) map[string][]byte {
	t.Helper()
	other := newFact(newTask(), task.AttemptStarted{Attempt: 1, Node: "n1"})
	otherNode := &events.Fact{ID: newID(), At: time.Now(), Type: events.NodeOnline, Node: "someone-else", Event: node.WentOnline{Session: "s"}}
	return map[string][]byte{
		"empty":              {},
		"binary":             {0, 1, 2, 0xff, 0xfe, '\r', '\n', 0},
		"900 kB":             bytes.Repeat([]byte("x"), 900_000),
		"a number":           []byte("42"),
		"a list":             []byte(`[{"type":"attempt.started"}]`),
		"an object":          []byte(`{"hello":"world"}`),
		"null":               []byte("null"),
		"cut off":            encoded(t, other)[:40],
		"of another task":    encoded(t, other),
		"of another node":    encoded(t, otherNode),
		"a deep nest":        []byte(strings.Repeat("[", 100_000)),
		"protocol of NATS":   []byte("+OK\r\nPUB x 1\r\n1\r\n"),
		"a batch's answer":   []byte(`{"stream":"MR_LOG","seq":1}`),
		"spec of wrong kind": []byte(`{"type":"task.submitted","v":1,"id":"x","at":"2026-01-01T00:00:00Z","task":"t","spec":7,"route":"default.5"}`),
	}
}

// pretended are headers with a meaning where the server adds them.
var pretended = []nats.Header{
	nil,
	{"Status": {"503"}},
	{"Status": {"204"}, "Description": {"EOB"}},
	{"Status": {"409"}, "Description": {"Consumer Deleted"}},
	{"Nats-Sequence": {"7"}, "Nats-Subject": {"mr.task.x"}, "Nats-Time-Stamp": {"yesterday"}},
	{"Nats-Sequence": {"much"}},
}

// The next claim and the next reader can handle any message on a chain.
func TestGarbageOnAChain(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	r := recorder(s)
	i := 0
	for name, body := range garbage(t) {
		id := newTask()
		if _, err := r.Submit(within(t), id, submittedNoop); err != nil {
			t.Fatal(err)
		}
		header := pretended[i%len(pretended)]
		seq := raw(t, s, names.ChainPrefix+string(id), header, body)
		i++
		records := must(s.Task(within(t), id))(t)
		if len(records) != 2 || records[1].Seq != seq || records[1].Err == nil || records[1].Fact.Task != id {
			t.Errorf("%s with %v: the task has the records %+v", name, header, records)
			continue
		}
		now := must(r.Load(within(t), id))(t)
		if now.State != task.Pending || now.Head != seq {
			t.Errorf("%s: the task is %s at %d, want pending at %d", name, now.State, now.Head, seq)
		}
		if now, _, err := r.Do(within(t), now, task.Claim{Node: "n1", Offer: records[0].Seq}); err != nil || now.State != task.Running {
			t.Errorf("%s: a claim after it left the task %s: %v", name, now.State, err)
		}
		// A claim that does not know of the garbage finds out.
		if _, _, err := r.Do(within(t), task.Task{ID: id, State: task.Pending, Offered: true}, task.Claim{Node: "n2", Offer: 99}); err == nil {
			t.Errorf("%s: a second claim won", name)
		}
	}
	for _, header := range pretended { // each of them alone
		id := newTask()
		raw(t, s, names.ChainPrefix+string(id), header, nil)
		if records := must(s.Task(within(t), id))(t); len(records) != 1 || records[0].Err == nil {
			t.Errorf("an empty message with %v gave the records %+v", header, records)
		}
	}
}

// A fact in the wrong place is as good as garbage.
func TestFactsInTheWrongPlace(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := newTask()
	started := newFact(id, task.AttemptStarted{Attempt: 1, Node: "n1"})
	born := newFact(id, submittedNoop)
	queued := newFact(id, task.Queued{Work: testWork("default"), Attempt: 1})
	online := &events.Fact{ID: newID(), At: time.Now(), Type: events.NodeOnline, Node: "n1", Event: node.WentOnline{Session: "s"}}
	for _, c := range []struct {
		place string
		fact  *events.Fact
	}{
		{names.ChainPrefix + string(id), queued},
		{names.ChainPrefix + "n1", online},
		{names.HoldPrefix + string(id), queued},
		{names.HoldPrefix + string(id), started},
		{names.QueuePrefix + "default.5." + string(id), started},
		{names.NodePrefix + "n1", started},
		{names.NodePrefix + string(id), born},
		{names.NodePrefix + "n2", online},
		{names.QueuePrefix + "default.5.n1", online},
		{names.AdmitPrefix + "job.b", &events.Fact{ID: newID(), At: time.Now(), Type: events.LimitGranted, Scope: "job.a", Event: task.Granted{}}},
		{names.AdmitPrefix + "job.a", started},
	} {
		r := request.Record(c.place, 1, time.Now(), nil, 0, encoded(t, c.fact))
		if r.Err == nil || r.Fact.Event != nil {
			t.Errorf("%s on %s: %+v, want an error", c.fact.Type, c.place, r)
		}
		raw(t, s, c.place, nil, encoded(t, c.fact))
	}
	for _, r := range must(s.Task(within(t), id))(t) {
		if r.Err == nil || r.Fact.Task != id {
			t.Errorf("a fact in the wrong place was read as %+v", r)
		}
	}
	unknown := []byte(fmt.Sprintf(`{"type":"task.yet_to_come","v":1,"id":"x","at":"2026-01-01T00:00:00Z","task":%q}`, id))
	for _, place := range []string{names.ChainPrefix, names.HoldPrefix, names.QueuePrefix + "default.5."} {
		if r := request.Record(place+string(id), 1, time.Now(), nil, 0, unknown); r.Err != nil || r.Fact.Event != nil {
			t.Errorf("a type of a later version on %s: %v", place, r.Err)
		}
	}
}

func TestGarbageIsOfferedAndAcknowledged(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{AckWait: time.Minute})
	o := offersOf(t, s, "default")
	i := 0
	for name, body := range garbage(t) {
		var seq uint64
		offer := awaited(t, o, func() {
			seq = raw(t, s, names.QueuePrefix+"default.5."+string(newTask()), pretended[i%len(pretended)], body)
		})
		i++
		if offer.Seq != seq || offer.Err == nil || offer.Fact.Event != nil || offer.Deliveries != 1 {
			t.Errorf("%s was offered as %+v", name, offer)
		}
		if err := offer.Ack(); err != nil {
			t.Error(err)
		}
	}
	for _, header := range pretended {
		var seq uint64
		offer := awaited(t, o, func() { seq = raw(t, s, names.QueuePrefix+"default.5.x", header, nil) })
		if offer.Seq != seq || offer.Err == nil || offer.Deliveries != 1 || offer.Ack() != nil {
			t.Errorf("an empty message with %v was offered as %+v", header, offer)
		}
	}
	var id task.ID
	if offer := awaited(t, o, func() { id = submit(t, s, "default") }); offer.Fact.Task != id || offer.Err != nil || offer.Deliveries != 1 {
		t.Errorf("after garbage came %+v, want the offer of task %s", offer, id)
	}
	testkit.Eventually(t, "the garbage is acknowledged", func() bool { return ackPending(t, s, "default") == 1 })
}

// awaited returns the offer of what is stored while somebody waits. What comes between two waits goes back
// unseen, and is delivered twice: requests are renewed after a bare message, so that one more than wanted is open.
func awaited(t *testing.T, o *offers, store func()) *events.Offer {
	t.Helper()
	ctx, got := within(t), make(chan *events.Offer, 1)
	go func() {
		offer, err := o.Next(ctx)
		if err != nil {
			t.Error(err)
			offer = &events.Offer{}
		}
		got <- offer
	}()
	testkit.Eventually(t, "somebody waits", func() bool {
		o.mu.Lock()
		defer o.mu.Unlock()
		return len(o.waiting) == 1
	})
	store()
	return <-got
}

// A feed shows all of it, with an error each, and goes on.
func TestGarbageInAFeed(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	f := follow(t, s, 1)
	places := []string{
		names.ChainPrefix + "x", names.ChainPrefix + "x.y.z", names.ChainPrefix + "Größe", names.ChainPrefix + string(newTask()),
		names.QueuePrefix + "default.5.x", names.QueuePrefix + "x", names.QueuePrefix + "a.b.c.d.e", names.QueuePrefix + "default.zwölf.x",
		names.HoldPrefix + "x", names.HoldPrefix + "a.b", names.NodePrefix + "x", names.NodePrefix + "a.b",
	}
	var last uint64
	errs := map[uint64]bool{}
	for _, place := range places {
		i := 0
		for name, body := range garbage(t) {
			if name == "900 kB" && place != names.ChainPrefix+"x" {
				continue // once is enough
			}
			last = raw(t, s, place, pretended[i%len(pretended)], body)
			errs[last] = true
			i++
		}
	}
	good := newFact(newTask(), note("the end"))
	end := must(s.Append(within(t), good, 0))(t)
	for seq := uint64(1); seq <= end; {
		for _, r := range must(f.Next(within(t)))(t) {
			if r.Seq != seq {
				t.Fatalf("got record %d, want %d", r.Seq, seq)
			}
			if (r.Err != nil) != errs[seq] {
				t.Errorf("record %d on %s: error %v", seq, r.Place, r.Err)
			}
			seq++
		}
	}
	for _, id := range []node.ID{"x"} {
		for _, r := range must(s.Node(within(t), id, 0))(t) {
			if r.Err == nil || r.Kind != events.KindNode || r.Fact.Node != id {
				t.Errorf("garbage of a node was read as %+v", r)
			}
		}
	}
}
