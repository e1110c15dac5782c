package jet

import (
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
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
