package jet

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"millrace/events"
	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/task"
	"millrace/task/node"
	"millrace/task/output"
)

// A task that prints without end fills only the stream of output: facts about tasks and nodes still
// have room. With both kinds of servers: one that knows how much it may hold, and one where that is
// found out by trying.
func TestAFloodOfOutputLeavesRoom(t *testing.T) {
	t.Parallel()
	const store = 40 << 20
	own := startServer(t, embed.Config{Store: store})
	other := must(newTestServer("listen: 127.0.0.1:-1\njetstream {max_file: 40MB, store_dir: " + strconv.Quote(t.TempDir()) + "}"))(t)
	other.Start()
	t.Cleanup(func() { other.Shutdown(); other.WaitForShutdown() })
	if !other.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	for _, c := range []struct {
		name, url string
		store     int64
	}{{"embedded", own.URL(), own.Store()}, {"given", other.ClientURL(), 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := openStore(t, connect(t, c.url), streams.Layout{})
			for range 2 { // the second time changes nothing
				if err := s.Size(within(t), streams.Sizes{}, c.store); err != nil {
					t.Fatal(err)
				}
			}
			running := submit(t, s, "default")
			for i := range 2 * store >> 19 {
				if err := s.Print(within(t), randomLines(t, running, i)); err != nil {
					t.Fatalf("after %d half megabytes of output: %v", i, err)
				}
			}
			var refused error
			for i := 0; i < 2*store>>19 && refused == nil; i++ {
				l := randomLines(t, running, i)
				item := must(json.Marshal(l.Lines[0].Text))(t)
				refused = s.Keep(within(t), output.Records{Task: running, Attempt: 1, Epoch: 1, First: i, Items: []json.RawMessage{item}})
			}
			if word, full := request.Full(refused); !full || !strings.Contains(refused.Error(), "raise store_records") {
				t.Errorf("records beyond the bound: %v (%q), want the server's word that there is no room, and what to do", refused, word)
			}
			if err := s.Beat(within(t), "n1", node.Heartbeat{At: time.Now()}, time.Minute); err != nil {
				t.Errorf("a heartbeat on a full store: %v", err)
			}
			submit(t, s, "default")
			if _, err := s.Append(within(t), newFact(running, note("the end")), 0); err != nil {
				t.Errorf("a result on a full store: %v", err)
			}
			if err := s.Takes(within(t), 0); err != nil {
				t.Errorf("a probe on a full store: %v", err)
			}
			for _, u := range must(s.Usages(within(t), c.store))(t) {
				if u.Limit > 0 && u.Bytes > u.Limit {
					t.Errorf("%s holds %d of %d bytes", u.Stream, u.Bytes, u.Limit)
				}
			}
		})
	}
}

// randomLines are half a megabyte that cannot be compressed.
func randomLines(t *testing.T, id task.ID, n int) output.Lines {
	t.Helper()
	b := make([]byte, 1<<18)
	_, _ = rand.Read(b) // never fails
	return output.Lines{Task: id, Attempt: 1, Epoch: 1, Lines: []output.Line{{N: n + 1, Stream: output.Stdout, At: time.Now(), Text: hex.EncodeToString(b)}}}
}

// A bound drops nothing that cannot be had again.
func TestASmallBoundKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	s := openStore(t, connect(t, startServer(t, embed.Config{}).URL()), streams.Layout{})
	id := submit(t, s, "default")
	keep := func(i int) error {
		return s.Keep(within(t), output.Records{Task: id, Attempt: 1, Epoch: 1, First: i, Items: []json.RawMessage{[]byte(strconv.Itoa(i))}})
	}
	for i := range 10 {
		if err := keep(i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Size(within(t), streams.Sizes{Records: 100, Output: 1 << 20, Files: 1 << 20, State: 1 << 20}, 0); err != nil {
		t.Fatal(err)
	}
	n := 0
	if err := s.Kept(within(t), id, false, func(r output.Records) error { n += len(r.Items); return nil }); err != nil || n != 10 {
		t.Errorf("of 10 records %d are left (%v)", n, err)
	}
	if _, full := request.Full(keep(10)); !full {
		t.Error("a record beyond the bound was taken")
	}
	if err := s.Size(within(t), streams.Sizes{Records: streams.NoBound, Output: streams.NoBound, Files: streams.NoBound, State: streams.NoBound}, 0); err != nil {
		t.Fatal(err)
	}
	if err := keep(10); err != nil {
		t.Errorf("a record without a bound: %v", err)
	}
}

// A proof writes only if nothing was written lately, and a server removes what it writes.
func TestTakes(t *testing.T) {
	t.Parallel()
	s := openStore(t, connect(t, startServer(t, embed.Config{}).URL()), streams.Layout{})
	submit(t, s, "default")
	last := func() uint64 { return must(s.Last(within(t)))(t) }
	before := last()
	if err := s.Takes(within(t), time.Minute); err != nil || last() != before {
		t.Errorf("a proof beside other messages: %v, and the log has grown by %d", err, last()-before)
	}
	own := offersOf(t, s, "@n1")
	for range ProbesKept + 1 {
		if err := errors.Join(s.Takes(within(t), 0), own.Prove(within(t))); err != nil {
			t.Fatal(err)
		}
	}
	if info := must(s.log.Info(within(t)))(t); last() < before+2*ProbesKept+2 || info.State.Msgs < before+2*ProbesKept+2 {
		t.Errorf("after %d proofs of two kinds the log ends at %d with %d messages: they wrote nothing", ProbesKept+1, last(), info.State.Msgs)
	}
	for range 2 { // the second time there is nothing to do
		if err := s.TidyProbes(within(t)); err != nil {
			t.Fatal(err)
		}
		if info := must(s.log.Info(within(t)))(t); info.State.Msgs != before+2 {
			t.Errorf("tidied up, the log has %d messages, want %d: one probe of each kind", info.State.Msgs, before+2)
		}
	}
	r, found, err := s.LeaderGet(within(t), map[string]any{"last_by_subj": names.LogProbe})
	if err != nil || !found || r.Kind != events.KindProbe || r.IsFact() || r.Err != nil || r.Unreadable() != "" {
		t.Errorf("a reader takes a probe for %+v (%v)", r, err)
	}
}

// A log on one server that stores nothing is mute. On several it has no leader: that passes, or
// servers have to be started, and to make room is no advice.
func TestMuteReason(t *testing.T) {
	t.Parallel()
	const (
		limit = `the log takes no messages: its storage limit is reached (the NATS server says "insufficient resources"): raise the limit, or remove something`
		disk  = "the log takes no messages: the NATS server does not answer to a write, as if its disk had been full: " +
			"make room there; `millrace server` and `dev` then start their own server again, any other nats-server has to be restarted"
		gone     = "the log takes no messages: no stream answers: it does not exist, or its leader is changing"
		electing = "the log cannot be written: the NATS cluster has no leader: it elects one, or too few of its servers are up ("
	)
	full := &request.ServerError{ErrCode: request.CodeResources, Description: "insufficient resources"}
	unknown := errors.Join(events.ErrUnknown, errors.New("waited for 8s"))
	for _, c := range []struct {
		err    error
		shared bool
		want   string
		is     error
	}{
		{full, false, limit, events.ErrMute},
		{full, true, limit, events.ErrMute},
		{unknown, false, disk, events.ErrMute},
		{unknown, true, electing + unknown.Error() + ")", request.ErrElecting},
		{events.ErrNoStream, false, gone, events.ErrMute},
		{events.ErrNoStream, true, electing + "no stream answers: it does not exist, or its leader is changing)", request.ErrElecting},
	} {
		got := muteReason(c.err, c.shared)
		if got.Error() != c.want || !errors.Is(got, c.is) || errors.Is(got, events.ErrMute) != errors.Is(c.is, events.ErrMute) {
			t.Errorf("of %v, shared %v, it says %q", c.err, c.shared, got)
		}
		if muteReason(nil, c.shared) != nil {
			t.Error("no error has a reason")
		}
	}
}

// The answer to a request for a size is lost, as in an election: the request is made again, long
// before the time for all sizes is over.
func TestALostAnswerDelaysNoSize(t *testing.T) {
	t.Parallel()
	srv := startServer(t, embed.Config{})
	var lose atomic.Bool
	s := openStore(t, connect(t, srv.URL(), nats.SetCustomDialer(&natstest.Sieve{Lose: func(subject, _ string, _ []byte) bool {
		return strings.HasPrefix(subject, nats.InboxPrefix) && lose.CompareAndSwap(true, false)
	}})), streams.Layout{})
	for _, store := range []int64{srv.Store(), 0} {
		lose.Store(true)
		began := time.Now()
		if err := s.Size(within(t), streams.Sizes{}, store); err != nil || lose.Load() {
			t.Errorf("of %d bytes: %v, and an answer is still to be lost: %v", store, err, lose.Load())
		}
		if took := time.Since(began); took > 20*time.Second { // all sizes have 30 s
			t.Errorf("of %d bytes it took %v", store, took)
		}
	}
}
