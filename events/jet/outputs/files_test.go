package outputs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/outputs"
	"millrace/internal/files"
	"millrace/internal/testkit"
	"millrace/task"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	big := strings.Repeat("0123456789abcdef", files.ChunkSize/16+1)
	v := natstest.Pushed(t, s, "one", big)
	m := must(files.Held(ctx, s, v.Digest))(t)
	if len(m.Entries) != 2 || m.Size() != int64(3+len(big)) {
		t.Errorf("read %+v", m)
	}
	all := slices.Concat(m.Entries[0].Chunks, m.Entries[1].Chunks)
	none := files.DigestOf([]byte("nowhere"))
	if missing := must(s.Missing(ctx, append(all, none)))(t); !slices.Equal(missing, []files.Digest{none}) {
		t.Errorf("missing: %v", missing)
	}
	many := append(make([]files.Digest, 0, 2*outputs.Few), all...)
	for i := range outputs.Few {
		many = append(many, files.DigestOf(fmt.Append(nil, i)))
	}
	if missing := must(s.Missing(ctx, many))(t); len(missing) != outputs.Few {
		t.Errorf("of a long list %d are missing, want %d", len(missing), outputs.Few)
	}
	if _, err := s.Get(ctx, none); !errors.Is(err, files.ErrNoChunk) {
		t.Error(err)
	}
	if _, err := s.Version(ctx, none); !errors.Is(err, files.ErrNoVersion) {
		t.Error(err)
	}
	// A client has written to the stream by other means.
	natstest.Raw(t, s.JS, names.ChunkPrefix+string(all[0]), nil, []byte("rubbish"))
	if _, err := s.Get(ctx, all[0]); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
	// The first user that pushed a version stays its author.
	first := must(s.Version(ctx, v.Digest))(t)
	if err := s.Commit(ctx, files.Version{Digest: v.Digest, By: "bob"}); err != nil {
		t.Error(err)
	}
	if again := must(s.Version(ctx, v.Digest))(t); again.By != "ada" || !again.At.Equal(first.At) {
		t.Errorf("it became %+v", again)
	}
}

func TestArtifactsByEpoch(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	id, other := natstest.NewTask(), natstest.NewTask()
	for _, l := range []task.Left{{Task: id, Epoch: 12, Attempt: 2}, {Task: id, Epoch: 9, Attempt: 1}, {Task: other, Epoch: 10}} {
		if err := s.KeepArtifacts(ctx, l); err != nil {
			t.Fatal(err)
		}
	}
	left := must(s.Artifacts(ctx, id))(t)
	if len(left) != 2 || left[0].Epoch != 9 || left[1].Epoch != 12 {
		t.Errorf("%+v", left)
	}
	if err := s.ForgetArtifacts(ctx, left[0]); err != nil {
		t.Fatal(err)
	}
	if left := must(s.Artifacts(ctx, ""))(t); len(left) != 2 {
		t.Errorf("%+v", left)
	}
}

// TestSweep takes away the protection that a push leaves for a day, as time does.
func TestSweep(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	common := "in both"
	kept, lost := natstest.Pushed(t, s, common, "kept"), natstest.Pushed(t, s, common, "lost", "and more")
	soon := time.Now().Add(time.Hour)
	wanted := func(context.Context) (map[files.Digest]bool, error) {
		return map[files.Digest]bool{kept.Digest: true}, nil
	}
	if done := must(s.SweepFiles(ctx, soon, false, wanted))(t); done.Chunks != 0 || len(done.Versions) != 0 || done.Kept != 2 {
		t.Errorf("a version that was just pushed: %+v", done)
	}
	for _, v := range []*files.Tree{kept, lost} {
		stream := must(s.JS.Stream(ctx, names.FilesStream))(t)
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(names.ProtectPrefix+string(v.Digest))); err != nil {
			t.Fatal(err)
		}
	}
	if done := must(s.SweepFiles(ctx, time.Now().Add(-time.Hour), false, wanted))(t); done.Chunks != 0 || len(done.Versions) != 0 {
		t.Errorf("young ones: %+v", done)
	}
	for _, dry := range []bool{true, false} {
		done := must(s.SweepFiles(ctx, soon, dry, wanted))(t)
		// lost, and more, and the list of files.
		if done.Chunks != 3 || !slices.Equal(done.Versions, []files.Digest{lost.Digest}) || done.Kept != 1 {
			t.Errorf("dry %v: %+v", dry, done)
		}
	}
	if _, err := s.Version(ctx, lost.Digest); !errors.Is(err, files.ErrNoVersion) {
		t.Error(err)
	}
	m := must(files.Held(ctx, s, kept.Digest))(t)
	for _, e := range m.Entries {
		must(s.Get(ctx, e.Chunks[0]))(t)
	}
	// A wanted version that cannot be read ends the sweep, for it is unknown which chunks it needs.
	v := must(s.Version(ctx, kept.Digest))(t)
	stream := must(s.JS.Stream(ctx, names.FilesStream))(t)
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(names.ChunkPrefix+string(v.Chunks[0]))); err != nil {
		t.Fatal(err)
	}
	if done, err := s.SweepFiles(ctx, soon, false, wanted); !errors.Is(err, files.ErrNoChunk) || done.Chunks != 0 {
		t.Errorf("%+v: %v", done, err)
	}
}

// TestSweepsAndPushesWaitForEachOther has the mark of a sweep.
func TestSweepsAndPushesWaitForEachOther(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	unmark := must(s.Mark(ctx))(t)
	_, err := s.SweepFiles(ctx, time.Now(), false, func(context.Context) (map[files.Digest]bool, error) { return map[files.Digest]bool{}, nil })
	if !errors.Is(err, outputs.ErrSweeping) {
		t.Error(err)
	}
	waited := make(chan error)
	v := files.Version{Digest: files.DigestOf([]byte("v"))}
	go func() { waited <- s.Protect(ctx, v) }()
	testkit.Eventually(t, "protection", func() bool { p, err := s.Protected(ctx); return err == nil && len(p) == 1 })
	select {
	case err := <-waited:
		t.Error("a push did not wait for a sweep", err)
	default:
	}
	unmark()
	if err := <-waited; err != nil {
		t.Error(err)
	}
	again := must(s.Mark(ctx))(t)
	again()
}

func TestHoldsUp(t *testing.T) {
	for _, c := range []struct {
		what             string
		mark, protection uint64
		age              time.Duration
		want             bool
	}{
		{"no sweep", 0, 7, 0, false},
		{"a sweep that may not know of the version", 5, 7, time.Second, true},
		{"one that began later", 9, 7, time.Second, false},
		{"a mark that nobody takes away", 5, 7, outputs.MarkTTL, false},
		{"stored by a clock that was set back since", 5, 7, -time.Hour, true},
	} {
		if got := outputs.HoldsUp(c.mark, c.protection, c.age); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// A mark without a TTL does not delay pushes that were there before it, and once it is too old, no
// others either; and the next sweep replaces it.
func TestAMarkThatStays(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	v := files.Version{Digest: files.DigestOf([]byte("v"))}
	// As if the mark came right after the protection, before the look for it.
	body := must(json.Marshal(v))(t)
	protection := natstest.Raw(t, s.JS, names.ProtectPrefix+string(v.Digest), nil, body)
	mark := natstest.Raw(t, s.JS, names.SweepSubject, nil, nil)
	seq, age, err := s.SweepMark(ctx)
	if err != nil || seq != mark || age < 0 || age > 20*time.Second {
		t.Errorf("the mark is at %d, %v old: %v", seq, age, err)
	}
	if outputs.HoldsUp(seq, protection, age) {
		t.Error("a push waits for a sweep that knows of it")
	}
	if _, err := s.Mark(ctx); !errors.Is(err, outputs.ErrSweeping) {
		t.Errorf("two sweeps at once: %v", err)
	}
}

// Readers detect contents that were replaced, and the next push stores them again.
func TestReplacedContents(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	natstest.Pushed(t, s, "one", "two")
	d := files.DigestOf([]byte("one"))
	natstest.Raw(t, s.JS, names.ChunkPrefix+string(d), nil, []byte("eno"))
	if missing := must(s.Missing(ctx, []files.Digest{d}))(t); len(missing) > 0 {
		t.Error("it is missing before anybody has looked")
	}
	if _, err := s.Get(ctx, d); err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "push the folder again") {
		t.Fatalf("what was replaced is read: %v", err)
	}
	if missing := must(s.Missing(ctx, []files.Digest{d, files.DigestOf([]byte("two"))}))(t); !slices.Equal(missing, []files.Digest{d}) {
		t.Errorf("missing: %v", missing)
	}
	natstest.Pushed(t, s, "one", "two")
	if got, err := s.Get(ctx, d); err != nil || string(got) != "one" {
		t.Errorf("after the next push: %q, %v", got, err)
	}
	if missing := must(s.Missing(ctx, []files.Digest{d}))(t); len(missing) > 0 {
		t.Error("it is missing although it was stored anew")
	}
}

// TestSweepBesidePushes removes what it can while versions with common contents are pushed, and no
// pushed version may lack any.
func TestSweepBesidePushes(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 10 {
			_, err := s.SweepFiles(ctx, time.Now().Add(time.Hour), false, func(context.Context) (map[files.Digest]bool, error) { return map[files.Digest]bool{}, nil })
			if err != nil && !errors.Is(err, files.ErrNoChunk) { // a push that has only just begun
				t.Error(err)
			}
		}
	}()
	stream := must(s.JS.Stream(ctx, names.FilesStream))(t)
	for i := 0; ; i++ {
		select {
		case <-ended:
			return
		default:
		}
		v := natstest.Pushed(t, s, "the same", fmt.Sprint("another", i%3))
		m := must(files.Held(ctx, s, v.Digest))(t)
		for _, e := range m.Entries {
			must(s.Get(ctx, e.Chunks[0]))(t)
		}
		// A day later the version is no longer protected.
		if err := stream.Purge(ctx, jetstream.WithPurgeSubject(names.ProtectPrefix+string(v.Digest))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStorageLimit(t *testing.T) {
	t.Parallel()
	s := newStore(t)
	ctx := within(t)
	cfg := must(s.JS.Stream(ctx, names.FilesStream))(t).CachedInfo().Config
	cfg.MaxBytes = files.ChunkSize
	must(s.JS.UpdateStream(ctx, cfg))(t)
	one, two := bytes.Repeat([]byte{1}, files.ChunkSize/2), bytes.Repeat([]byte{2}, files.ChunkSize/2)
	if err := s.Put(ctx, files.DigestOf(one), one); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(ctx, files.DigestOf(two), two); !errors.Is(err, files.ErrFull) || !strings.Contains(err.Error(), "files gc") {
		t.Error(err)
	}
	must(s.Get(ctx, files.DigestOf(one)))(t)
}

// BenchmarkObjects stores and reads small contents as chunks and, to compare, as objects of an
// object store.
func BenchmarkObjects(b *testing.B) {
	const n = 1000
	contents := make([][]byte, n)
	digests := make([]files.Digest, n)
	r := rand.NewChaCha8([32]byte{})
	for i := range contents {
		contents[i] = make([]byte, 4096)
		_, _ = r.Read(contents[i])
		digests[i] = files.DigestOf(contents[i])
	}
	each := func(b *testing.B, do func(int) error) {
		for range b.N {
			next := make(chan int)
			done := make(chan error)
			for range 12 {
				go func() {
					var first error
					for i := range next {
						if err := do(i); err != nil && first == nil {
							first = err
						}
					}
					done <- first
				}()
			}
			for i := range n {
				next <- i
			}
			close(next)
			for range 12 {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/file")
	}
	s := newStore(b)
	ctx := context.WithoutCancel(b.Context())
	objects := must(s.JS.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "compared"}))(b)
	b.Run("put/chunk", func(b *testing.B) { each(b, func(i int) error { return s.Put(ctx, digests[i], contents[i]) }) })
	b.Run("put/object", func(b *testing.B) {
		each(b, func(i int) error { _, err := objects.PutBytes(ctx, string(digests[i]), contents[i]); return err })
	})
	b.Run("get/chunk", func(b *testing.B) { each(b, func(i int) error { _, err := s.Get(ctx, digests[i]); return err }) })
	b.Run("get/object", func(b *testing.B) {
		each(b, func(i int) error { _, err := objects.GetBytes(ctx, string(digests[i])); return err })
	})
}
