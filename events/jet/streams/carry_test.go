package streams_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/streams"
)

// A stream comes to another server as it was, with gaps, sequences and times, unless that has one.
func TestCarry(t *testing.T) {
	config, err := streams.Layout{}.Config(names.LogStream)
	if err != nil {
		t.Fatal(err)
	}
	const messages = 5000
	at := func(i uint64) time.Time { return time.Unix(1_700_000_000+int64(i), 5).UTC() }
	dirs := [2]string{t.TempDir() + "/from", t.TempDir() + "/to"}
	err = embed.Fill(dirs[0], embed.Stream{Config: config, Created: at(0), Messages: func(yield func(embed.Message, error) bool) {
		for i := uint64(1); i <= messages; i++ {
			if !yield(embed.Message{Seq: 3 * i, At: at(i), Subject: names.ChainPrefix + "x", Body: fmt.Appendf(nil, "%0200d", i)}, nil) {
				return
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	var js [2]jetstream.JetStream
	for i := range dirs {
		server, err := embed.Start(embed.Config{Dir: dirs[i]})
		if err != nil {
			t.Fatal(err)
		}
		defer server.Stop()
		nc, err := server.Connect()
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if js[i], err = jetstream.New(nc); err != nil {
			t.Fatal(err)
		}
	}
	if err := streams.Carry(t.Context(), js[0].Conn(), js[1].Conn(), names.LogStream); err != nil {
		t.Fatal(err)
	}
	s, err := js[1].Stream(t.Context(), names.LogStream)
	if err != nil {
		t.Fatal(err)
	}
	if is := s.CachedInfo().State; is.Msgs != messages || is.FirstSeq != 3 || is.LastSeq != 3*messages {
		t.Errorf("it has %+v", is)
	}
	for _, i := range []uint64{1, 2, messages} {
		if m, err := s.GetMsg(t.Context(), 3*i); err != nil || !m.Time.Equal(at(i)) || string(m.Data) != fmt.Sprintf("%0200d", i) {
			t.Errorf("#%d: %+v, %v", 3*i, m, err)
		}
	}
	if err := streams.Carry(t.Context(), js[0].Conn(), js[1].Conn(), names.LogStream); !errors.Is(err, streams.ErrThere) {
		t.Errorf("once more: %v", err)
	}
}
