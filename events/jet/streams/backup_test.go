package streams_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/embed"
	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/request"
	"millrace/events/jet/streams"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { natstest.Main(m) }

// open makes the streams of an installation.
func open(t testing.TB, nc *nats.Conn, l streams.Layout) jetstream.JetStream {
	t.Helper()
	js := natstest.Must(jetstream.New(nc))(t)
	if err := streams.Ensure(natstest.Within(t), request.NewFormer(nc, request.Patience{For: natstest.Patience}), js, l); err != nil {
		t.Fatal(err)
	}
	return js
}

// single starts a NATS server, and returns a connection to it.
func single(t testing.TB) *nats.Conn {
	t.Helper()
	s := natstest.StartServer(t, embed.Config{})
	nc := natstest.Must(s.Connect())(t)
	t.Cleanup(nc.Close)
	return nc
}

// triple starts three.
func triple(t testing.TB) *nats.Conn {
	t.Helper()
	c := natstest.Must(embed.StartCluster(t.TempDir(), 3, ""))(t)
	t.Cleanup(c.Stop)
	return natstest.Connect(t, c.URL())
}

func quiet(streams.SavedStream) {}

// saved makes a backup in a new folder.
func saved(t testing.TB, nc *nats.Conn) (dir string, m streams.Manifest) {
	t.Helper()
	return savedHearing(t, nc, quiet)
}

// savedHearing is saved, and said hears of each stream.
func savedHearing(t testing.TB, nc *nats.Conn, said func(streams.SavedStream)) (dir string, m streams.Manifest) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "backup")
	m = natstest.Must(streams.Save(natstest.Within(t), nc, dir, "v1", time.Now, said))(t)
	if read := natstest.Must(streams.ReadBackup(dir))(t); fmt.Sprint(read.Streams) != fmt.Sprint(m.Streams) {
		t.Errorf("it reads %+v, and has written %+v", read.Streams, m.Streams)
	}
	return dir, m
}

// mention is a fact that refers to what other streams have.
type mention struct {
	Record, Output uint64
	Key            int // of a checkpoint and a file, which are replaced by others of their key
	Round          int
}

// keys is so many, and each is so large, that reading them takes a while.
const (
	keys = 100
	size = 100 << 10
)

// noise is a body that cannot be packed.
func noise() []byte {
	body := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body) // it always can
	return body
}

// fill gives a chain so many messages.
func fill(t testing.TB, js jetstream.JetStream, messages int) {
	t.Helper()
	for body := noise(); messages > 0; messages-- {
		natstest.Raw(t, js, names.ChainPrefix+"t", nil, body)
	}
}

// writeOn writes until ctx ends, each time in the order of an attempt: a record, the checkpoint that
// refers to it, a file and a line, and then the fact that refers to all of them. It says what was
// acknowledged.
func writeOn(ctx context.Context, t testing.TB, js jetstream.JetStream, said func(mention)) {
	chance, patience := rand.New(rand.NewPCG(1, 1)), natstest.Within(t)
	filler := hex.EncodeToString(noise()[:size/2])
	put := func(subject string, body any) uint64 {
		text := natstest.Must(json.Marshal(body))(t)
		ack, err := js.Publish(patience, subject, text)
		if err != nil {
			t.Errorf("%s: %v", subject, err)
			return 0
		}
		return ack.Sequence
	}
	for i := 0; ctx.Err() == nil && !t.Failed(); i++ {
		m := mention{Key: i, Round: i}
		if i >= keys { // in another order than they lie in
			m.Key = chance.IntN(keys)
		}
		m.Record = put(names.DataPrefix+"t", m)
		text := natstest.Must(json.Marshal(struct {
			mention
			Filler string
		}{m, filler}))(t)
		for _, prefix := range []string{names.CheckpointPrefix, names.ChunkPrefix} {
			if _, err := js.Publish(patience, prefix+fmt.Sprint(m.Key), text); err != nil {
				t.Error(err)
			}
		}
		m.Output = put(names.OutputPrefix+"t", m)
		put(names.ChainPrefix+"t", m)
		said(m)
	}
}

// storeAgain replaces values again and again until ctx ends, as a push stores chunks that are there
// already, and a task its progress. begun is closed when each has a value; then each replacement takes one
// of more: a backup that reads more slowly than others write does not end.
func storeAgain(ctx context.Context, t testing.TB, js jetstream.JetStream, begun chan struct{}, more <-chan struct{}) {
	chance, text, patience := rand.New(rand.NewPCG(2, 2)), noise(), natstest.Within(t)
	for i := 0; ctx.Err() == nil && !t.Failed(); i++ {
		if i == keys {
			close(begun)
		}
		key := i
		if i >= keys {
			select {
			case <-more:
			case <-ctx.Done():
				return
			}
			key = chance.IntN(keys)
		}
		for _, subject := range stored(key) {
			if _, err := js.Publish(patience, subject, text); err != nil {
				t.Error(err)
			}
		}
	}
}

// stored are the subjects of a value that is stored again and again.
func stored(key int) [2]string {
	return [2]string{names.ChunkPrefix + fmt.Sprint("again", key), names.LivePrefix + fmt.Sprint("again", key)}
}

// What a fact refers to is in the backup of a log that goes on, and so is all that was acknowledged
// before the backup began: on one server or three.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	from := single(t)
	js := open(t, from, streams.Layout{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var mu sync.Mutex
	acked := map[int]mention{} // the last one of each key
	full, begun := make(chan struct{}), make(chan struct{})
	var over sync.WaitGroup
	more := make(chan struct{}, 100*keys)
	replaced := func(streams.SavedStream) {
		for range keys / 4 {
			more <- struct{}{}
		}
	}
	over.Go(func() { storeAgain(ctx, t, js, begun, more) })
	over.Go(func() {
		writeOn(ctx, t, js, func(m mention) {
			mu.Lock()
			defer mu.Unlock()
			if acked[m.Key] = m; m.Round == 2*keys {
				close(full)
			}
		})
	})
	<-begun
	<-full
	mu.Lock()
	before := maps.Clone(acked)
	mu.Unlock()
	replaced(streams.SavedStream{})
	dir, m := savedHearing(t, from, replaced)
	mu.Lock()
	after := maps.Clone(acked)
	mu.Unlock()
	stop()
	over.Wait()
	if n := newest(after) - newest(before); n < 5 {
		t.Fatalf("only %d facts came meanwhile", n)
	}
	for name, to := range map[string]*nats.Conn{"one": single(t), "three": triple(t)} {
		t.Run(name, func(t *testing.T) {
			is := natstest.Must(streams.Restore(natstest.Within(t), to, dir, m, streams.Layout{Replicas: map[string]int{"one": 1, "three": 3}[name]}, quiet))(t)
			if is.Again || is.Ungapped {
				t.Errorf("it says %+v", is)
			}
			whole(t, open(t, to, streams.Layout{}), before, is.From)
		})
	}
}

// newest is the last round.
func newest(acked map[int]mention) (round int) {
	for _, m := range acked {
		round = max(round, m.Round)
	}
	return round
}

// whole looks whether an installation has what was acknowledged, and what its facts refer to.
func whole(t *testing.T, js jetstream.JetStream, acked map[int]mention, from uint64) {
	ctx := natstest.Within(t)
	stream := func(name string) jetstream.Stream { return natstest.Must(js.Stream(ctx, name))(t) }
	log, data, state, kept, output := stream(names.LogStream), stream(names.DataStream), stream(names.StateStream), stream(names.FilesStream), stream(names.OutputStream)
	read := func(s jetstream.Stream, seq uint64) (m mention) {
		t.Helper()
		msg, err := s.GetMsg(ctx, seq)
		if err == nil {
			err = json.Unmarshal(msg.Data, &m)
		}
		if err != nil {
			t.Fatalf("%s #%d: %v", s.CachedInfo().Config.Name, seq, err)
		}
		return m
	}
	last := natstest.Must(log.GetLastMsgForSubject(ctx, names.ChainPrefix+"t"))(t)
	if end := read(log, last.Sequence).Round; end < newest(acked) {
		t.Errorf("the log ends with round %d, and round %d was acknowledged", end, newest(acked))
	}
	for seq := uint64(1); seq <= last.Sequence; seq++ {
		m := read(log, seq)
		if of := read(data, m.Record); of.Round != m.Round {
			t.Errorf("#%d: its record is %+v", seq, of)
		}
		if of := read(output, m.Output); of.Round != m.Round {
			t.Errorf("#%d: its line is %+v", seq, of)
		}
	}
	for key := range keys {
		for i, s := range []jetstream.Stream{kept, state} {
			if _, err := s.GetLastMsgForSubject(ctx, stored(key)[i]); err != nil {
				t.Errorf("%s: %v", stored(key)[i], err)
			}
		}
	}
	for key, least := range acked {
		for s, prefix := range map[jetstream.Stream]string{state: names.CheckpointPrefix, kept: names.ChunkPrefix} {
			msg, err := s.GetLastMsgForSubject(ctx, prefix+fmt.Sprint(key))
			if err != nil {
				t.Errorf("%s%d: %v", prefix, key, err)
				continue
			}
			var m mention
			if err := json.Unmarshal(msg.Data, &m); err != nil || m.Round < least.Round {
				t.Errorf("%s%d is of round %d (%v), and round %d was acknowledged", prefix, key, m.Round, err, least.Round)
			}
			if s == state {
				if of := read(data, m.Record); of.Round != m.Round {
					t.Errorf("%s%d: its record is %+v", prefix, key, of)
				}
			}
		}
	}
	if next := natstest.Raw(t, js, names.ChainPrefix+"t", nil, []byte("{}")); next != from || from <= last.Sequence+1<<20 {
		t.Errorf("the next fact is #%d, said was #%d, and the log ended at #%d", next, from, last.Sequence)
	}
}

// A consumer goes on where everything was done when the backup began, and hands the rest out again.
func TestRestoredConsumers(t *testing.T) {
	t.Parallel()
	from := single(t)
	js := open(t, from, streams.Layout{})
	ctx := natstest.Within(t)
	durable := func(name string, policy jetstream.DeliverPolicy, start uint64) jetstream.Consumer {
		return natstest.Must(js.CreateConsumer(ctx, names.LogStream, jetstream.ConsumerConfig{Durable: name, FilterSubject: names.QueuePrefix + "q.>",
			AckPolicy: jetstream.AckExplicitPolicy, DeliverPolicy: policy, OptStartSeq: start, AckWait: time.Minute, Metadata: map[string]string{"millrace": "1"}}))(t)
	}
	all, late := durable("queue_q", jetstream.DeliverAllPolicy, 0), durable("late", jetstream.DeliverByStartSequencePolicy, 3)
	durable("fresh", jetstream.DeliverAllPolicy, 0)
	durable("foreign", jetstream.DeliverNewPolicy, 0)
	for i := range 6 {
		natstest.Raw(t, js, names.QueuePrefix+fmt.Sprint("q.5.t", i+1), nil, []byte("{}"))
	}
	for _, c := range []jetstream.Consumer{all, late} {
		batch := natstest.Must(c.Fetch(4, jetstream.FetchMaxWait(natstest.Patience)))(t)
		for m := range batch.Messages() {
			if seq := natstest.Must(m.Metadata())(t).Sequence.Stream; seq != 3 && seq != 5 {
				if err := m.DoubleAck(ctx); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	dir, m := saved(t, from)
	to := triple(t)
	natstest.Must(streams.Restore(ctx, to, dir, m, streams.Layout{Replicas: 3}, quiet))(t)
	js = open(t, to, streams.Layout{})
	for name, want := range map[string][]uint64{"queue_q": {3, 4, 5, 6}, "late": {3, 4, 5, 6}, "fresh": {1, 2, 3, 4, 5, 6}, "foreign": {1, 2, 3, 4, 5, 6}} {
		c := natstest.Must(js.Consumer(ctx, names.LogStream, name))(t)
		var got []uint64
		batch := natstest.Must(c.Fetch(len(want), jetstream.FetchMaxWait(natstest.Patience)))(t)
		for m := range batch.Messages() {
			got = append(got, natstest.Must(m.Metadata())(t).Sequence.Stream)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s hands out %v, want %v", name, got, want)
		}
	}
}

// A backup that is not whole is refused, whatever is wrong with it, and says what.
func TestDamagedBackups(t *testing.T) {
	t.Parallel()
	nc := single(t)
	js := open(t, nc, streams.Layout{})
	for i := range 20 {
		natstest.Raw(t, js, names.ChainPrefix+"t", nil, fmt.Append(nil, i))
	}
	dir, _ := saved(t, nc)
	natstest.Raw(t, js, names.ChainPrefix+"t", nil, []byte("later"))
	other, _ := saved(t, nc)
	var all []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil || len(all) != 21 {
		t.Fatalf("it has the files %v, %v", all, err)
	}
	log, output := names.LogStream+"/stream.tar.s2", names.OutputStream+"/stream.tar.s2"
	type damage struct {
		what string
		do   func(at func(name string) string) error
	}
	list := []damage{
		{"two files have each other's names", func(at func(string) string) error {
			return errors.Join(os.Rename(at(log), at("x")), os.Rename(at(output), at(log)), os.Rename(at("x"), at(output)))
		}},
		{"a stream is another backup's", func(at func(string) string) error { return copyFile(filepath.Join(other, log), at(log)) }},
		{"the manifest is another backup's", func(at func(string) string) error {
			return copyFile(filepath.Join(other, "manifest.json"), at("manifest.json"))
		}},
		{"the digests are another backup's", func(at func(string) string) error {
			return copyFile(filepath.Join(other, "SHA256SUMS"), at("SHA256SUMS"))
		}},
	}
	for _, name := range all {
		list = append(list,
			damage{name + " is missing", func(at func(string) string) error { return os.Remove(at(name)) }},
			damage{name + " is longer", func(at func(string) string) error {
				text, err := os.ReadFile(at(name))
				return errors.Join(err, os.WriteFile(at(name), append(text, 'x'), 0o600))
			}},
		)
		text := natstest.Must(os.ReadFile(filepath.Join(dir, name)))(t)
		for i := 0; i < len(text); i += max(1, len(text)/16) {
			list = append(list,
				damage{fmt.Sprintf("%s has another byte %d", name, i), func(at func(string) string) error {
					changed := bytes.Clone(text)
					changed[i] ^= 0x10
					return os.WriteFile(at(name), changed, 0o600)
				}},
				damage{fmt.Sprintf("%s is cut at %d", name, i), func(at func(string) string) error { return os.Truncate(at(name), int64(i)) }})
		}
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.CopyFS(bad, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		var touched []string
		if err := d.do(func(name string) string {
			touched = append(touched, name)
			return filepath.Join(bad, name)
		}); err != nil {
			t.Fatalf("%s: %v", d.what, err)
		}
		if _, err := streams.ReadBackup(bad); !errors.Is(err, streams.ErrDamaged) {
			t.Errorf("%s: %v", d.what, err)
		}
		for _, name := range touched {
			if !slices.Contains(all, name) {
				continue // it was moved away
			}
			if err := copyFile(filepath.Join(dir, name), filepath.Join(bad, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := streams.ReadBackup(bad); err != nil {
		t.Errorf("mended: %v", err)
	}
	if _, err := streams.ReadBackup(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no folder it says %v", err)
	}
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	return errors.Join(err, os.WriteFile(to, text, 0o600))
}

// A folder that has something in it is left alone, and one that a failed backup has made goes.
func TestBackupFolder(t *testing.T) {
	t.Parallel()
	nc := single(t)
	dir := t.TempDir()
	at := filepath.Join(dir, "backup")
	// A stream is missing: it fails when some are written.
	js := open(t, nc, streams.Layout{})
	if err := js.DeleteStream(natstest.Within(t), names.DataStream); err != nil {
		t.Fatal(err)
	}
	for _, made := range []bool{true, false} {
		if !made {
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := streams.Save(natstest.Within(t), nc, at, "v1", time.Now, quiet); !request.Says(err, request.CodeNoSuchStream) {
			t.Errorf("without a stream: %v", err)
		}
		if there, err := os.ReadDir(at); len(there) > 0 || made != errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it has left %v, %v", there, err)
		}
	}
	if err := os.WriteFile(filepath.Join(at, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := streams.Save(natstest.Within(t), nc, at, "v1", time.Now, quiet); !errors.Is(err, streams.ErrOccupied) {
		t.Errorf("into a folder with something in it: %v", err)
	}
}

// A restore that is cut off at any step leaves a log that nothing opens, and the next one begins anew.
// Streams that are somebody's stay.
func TestRestoreIsCutOff(t *testing.T) {
	t.Parallel()
	from := single(t)
	js := open(t, from, streams.Layout{})
	for i := range 200 {
		natstest.Raw(t, js, names.ChainPrefix+"t", nil, fmt.Append(nil, i))
	}
	natstest.Must(js.CreateConsumer(natstest.Within(t), names.LogStream, jetstream.ConsumerConfig{Durable: "queue_q", AckPolicy: jetstream.AckExplicitPolicy}))(t)
	dir, m := saved(t, from)
	if _, err := streams.Restore(natstest.Within(t), from, dir, m, streams.Layout{}, quiet); !errors.Is(err, streams.ErrThere) {
		t.Errorf("into the server that has it: %v", err)
	}
	for name, to := range map[string]*nats.Conn{"one": single(t), "three": triple(t)} {
		t.Run(name, func(t *testing.T) {
			layout := streams.Layout{Replicas: map[string]int{"one": 1, "three": 3}[name]}
			begun := false
			for step := 1; step <= len(m.Streams); step++ {
				if layout.Replicas == 3 && step > 1 && step < len(m.Streams) {
					continue // it takes long there
				}
				ctx, cut := context.WithCancel(natstest.Within(t))
				n := 0
				is, err := streams.Restore(ctx, to, dir, m, layout, func(streams.SavedStream) {
					if n++; n == step {
						cut()
					}
				})
				if !errors.Is(err, context.Canceled) {
					t.Fatalf("cut off after %d streams it says %v", step, err)
				}
				if is.Again != begun {
					t.Errorf("before step %d it begins anew: %v", step, is.Again)
				}
				begun = true
				js := natstest.Must(jetstream.New(to))(t)
				if err := streams.Ensure(natstest.Within(t), request.NewFormer(to, request.Patience{}), js, streams.Layout{}); !errors.Is(err, streams.ErrRestoring) {
					t.Errorf("after %d streams the log opens: %v", step, err)
				}
			}
			is := natstest.Must(streams.Restore(natstest.Within(t), to, dir, m, layout, quiet))(t)
			js := open(t, to, streams.Layout{})
			log := natstest.Must(js.Stream(natstest.Within(t), names.LogStream))(t)
			if s := log.CachedInfo().State; !is.Again || s.Msgs != 200 || s.LastSeq != is.From-1 {
				t.Errorf("in the end it has %+v, %+v", s, is)
			}
			if _, err := streams.Restore(natstest.Within(t), to, dir, m, layout, quiet); !errors.Is(err, streams.ErrThere) {
				t.Errorf("once more: %v", err)
			}
		})
	}
}

// The front of a log goes while it is saved. What lived there may have been written again beyond the
// saved end, so the backup has the log as it is afterwards, or as it was before.
func TestBackupOfShrinkingLog(t *testing.T) {
	t.Parallel()
	nc := single(t)
	js := open(t, nc, streams.Layout{})
	const messages = 400
	fill(t, js, messages)
	log := natstest.Must(js.Stream(natstest.Within(t), names.LogStream))(t)
	dir := filepath.Join(t.TempDir(), "backup")
	var over sync.WaitGroup
	over.Go(func() {
		testkit.Eventually(t, "the log is being saved", func() bool {
			_, err := os.Stat(filepath.Join(dir, names.LogStream))
			return err == nil
		})
		// In the middle: what lies there is read after the beginning.
		if err := log.Purge(natstest.Within(t), jetstream.WithPurgeSequence(messages*3/4)); err != nil {
			t.Error(err)
		}
	})
	m := natstest.Must(streams.Save(natstest.Within(t), nc, dir, "v1", time.Now, quiet))(t)
	over.Wait()
	is := m.Streams[slices.IndexFunc(m.Streams, func(is streams.SavedStream) bool { return is.Name == names.LogStream })]
	if is.Messages != int64(is.Last-is.First)+1 {
		t.Errorf("it has %d messages from #%d to #%d", is.Messages, is.First, is.Last)
	}
	to := single(t)
	natstest.Must(streams.Restore(natstest.Within(t), to, dir, m, streams.Layout{}, quiet))(t)
	log = natstest.Must(open(t, to, streams.Layout{}).Stream(natstest.Within(t), names.LogStream))(t)
	if s := log.CachedInfo().State; s.FirstSeq != is.First || s.Msgs != uint64(is.Messages) {
		t.Errorf("restored it has %+v", s)
	}
}

// A restore was killed in the middle of the log. In a cluster its name stays, and nothing else.
func TestRestoreIsKilled(t *testing.T) {
	t.Parallel()
	from := single(t)
	js := open(t, from, streams.Layout{})
	fill(t, js, 20)
	dir, m := saved(t, from)
	for name, to := range map[string]*nats.Conn{"one": single(t), "three": triple(t)} {
		t.Run(name, func(t *testing.T) {
			layout := streams.Layout{Replicas: map[string]int{"one": 1, "three": 3}[name]}
			text := natstest.Must(os.ReadFile(filepath.Join(dir, names.LogStream, "backup.json")))(t)
			var of struct {
				Config map[string]any `json:"config"`
				State  map[string]any `json:"state"`
			}
			if err := json.Unmarshal(text, &of); err != nil {
				t.Fatal(err)
			}
			delete(of.Config, "sources")
			of.Config["num_replicas"] = layout.Replicas
			of.Config["metadata"].(map[string]any)["millrace.restoring"] = "x"
			var into struct {
				Deliver string `json:"deliver_subject"`
			}
			testkit.Eventually(t, "the restore begins", func() bool {
				said, err := to.Request(names.APIRestore+names.LogStream, natstest.Must(json.Marshal(of))(t), natstest.Patience)
				return err == nil && json.Unmarshal(said.Data, &into) == nil && into.Deliver != ""
			})
			packed := natstest.Must(os.ReadFile(filepath.Join(dir, names.LogStream, "stream.tar.s2")))(t)
			testkit.Eventually(t, "it takes a part", func() bool {
				_, err := to.Request(into.Deliver, packed[:len(packed)/2], natstest.Patience)
				return err == nil
			})
			testkit.Eventually(t, "the NATS server has given it up", func() bool {
				_, err := to.Request(into.Deliver, nil, time.Second)
				return errors.Is(err, nats.ErrNoResponders)
			})
			is := natstest.Must(streams.Restore(natstest.Within(t), to, dir, m, layout, quiet))(t)
			log := natstest.Must(open(t, to, streams.Layout{}).Stream(natstest.Within(t), names.LogStream))(t)
			if s := log.CachedInfo().State; !is.Again && layout.Replicas > 1 || s.Msgs != 20 || s.LastSeq != is.From-1 {
				t.Errorf("in the end it has %+v, %+v", s, is)
			}
		})
	}
}

// The question to restore a stream is taken, and nobody answers it: the name of the stream is taken
// from then on, and the restore goes on all the same.
func TestRestoreIsUnanswered(t *testing.T) {
	t.Parallel()
	from := single(t)
	js := open(t, from, streams.Layout{})
	fill(t, js, 20)
	dir, m := saved(t, from)
	taken := 0
	to := natstest.Connect(t, triple(t).ConnectedUrl(), nats.SetCustomDialer(&natstest.Sieve{Lose: func(_, _ string, body []byte) bool {
		if !bytes.Contains(body, []byte("deliver_subject")) {
			return false
		}
		taken++
		return taken == 1 || taken == 3 // of the log, and of the stream after it
	}}))
	is := natstest.Must(streams.Restore(natstest.Within(t), to, dir, m, streams.Layout{Replicas: 3}, quiet))(t)
	log := natstest.Must(open(t, to, streams.Layout{}).Stream(natstest.Within(t), names.LogStream))(t)
	if s := log.CachedInfo().State; is.Again || s.Msgs != 20 || s.LastSeq != is.From-1 || taken < len(m.Streams)+2 {
		t.Errorf("in the end it has %+v, %+v, of %d answers", s, is, taken)
	}
}
