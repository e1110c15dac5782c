package jet

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
	"millrace/task"
)

// The error says why a request failed, even if the time ends while it is repeated.
func TestPatienceTellsWhatHindered(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	err := s.Patiently(ctx, func(try context.Context) error {
		if tries++; tries == 1 {
			return events.ErrNoStream
		}
		cancel()
		<-try.Done()
		return try.Err()
	})
	if tries != 2 || !errors.Is(err, events.ErrNoStream) || !errors.Is(err, context.Canceled) {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// Messages are read by their sequences, also if one looks like an error of the server. Missing ones are
// left out.
func TestMessages(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	for range 30 {
		submit(t, s, "default")
	}
	for _, status := range []string{"503", "404", "204"} {
		m := &nats.Msg{Subject: names.LogProbe, Header: nats.Header{"Status": {status}, "Description": {"No Responders"}}}
		if _, err := s.JS.PublishMsg(within(t), m); err != nil {
			t.Fatal(err)
		}
	}
	last := must(s.Last(within(t)))(t)
	log := must(s.JS.Stream(within(t), names.LogStream))(t)
	if err := log.DeleteMsg(within(t), 7); err != nil {
		t.Fatal(err)
	}
	var seqs []uint64
	for seq := range last + 2 {
		seqs = append(seqs, seq+1)
	}
	found := must(s.Messages(within(t), seqs))(t)
	have := map[uint64]events.Record{}
	for _, r := range found {
		have[r.Seq] = r
	}
	if len(have) != int(last)-1 || len(found) != len(have) {
		t.Errorf("found %d messages, want %d", len(found), last-1)
	}
	for _, seq := range seqs {
		want, there, err := s.Message(within(t), seq)
		if len(want.Raw) == 0 {
			want.Raw = have[seq].Raw
		}
		if r, is := have[seq]; err != nil || is != there || !reflect.DeepEqual(r, want) {
			t.Errorf("at %d: %+v, %v; want %+v, %v, %v", seq, r, is, want, there, err)
		}
	}
}

// To read a task, however often and wherever it was offered, the server never looks for the next message of
// many subjects in the whole log, during which it would serve nobody else on that connection.
func TestReadsOfTasksSearchNoLog(t *testing.T) {
	t.Parallel()
	s := newStore(t, streams.Layout{})
	id := submit(t, s, "default")
	head := must(s.Append(within(t), newFact(id, note("moves")), 0))(t)
	offer := func(queue string) {
		must(s.Place(within(t), newFact(id, task.Queued{Work: testWork(queue), Attempt: 1, After: head})))(t)
	}
	offer("other")
	offer("default")
	head = must(s.Append(within(t), newFact(id, note("moves on")), head))(t)
	offer("other")
	var asked []*nats.Subscription
	for _, api := range []string{names.APIDirect, names.APIGet} {
		asked = append(asked, must(s.NC.SubscribeSync(api+names.LogStream))(t))
	}
	all := must(s.Task(within(t), id))(t)
	rest := must(s.Rest(within(t), id, head))(t)
	later := must(s.Later(within(t), []task.ID{id}, rest[0].Seq))(t)
	if len(all) != 6 || len(rest) != 2 || !later[id] {
		t.Errorf("%d records, %d of them from %d on, later %v", len(all), len(rest), head, later)
	}
	n := 0
	for _, sub := range asked {
		for {
			m, err := sub.NextMsg(0)
			if err != nil {
				break
			}
			var request struct {
				Batch int    `json:"batch"`
				Seq   uint64 `json:"seq"`
				Next  string `json:"next_by_subj"`
			}
			if err := json.Unmarshal(m.Data, &request); err != nil {
				t.Fatal(err)
			}
			if n++; strings.Contains(request.Next, "*") && (request.Batch > 0 || request.Seq > 1) {
				t.Errorf("the server searches: %s", m.Data)
			}
		}
	}
	if n == 0 {
		t.Error("no request was seen")
	}
}
