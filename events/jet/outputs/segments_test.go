package outputs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"millrace/events/jet/names"
	"millrace/events/jet/natstest"
	"millrace/events/jet/outputs"
)

// text writes what comes from a seed.
func text(seed uint64, size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return b
}

func put(t *testing.T, s *outputs.Segments, name string, content []byte, err error) error {
	t.Helper()
	return s.Put(within(t), func(to io.Writer) (string, error) {
		_, bad := to.Write(content)
		return name, errors.Join(err, bad)
	})
}

// What was stored is there whole, under its name and no other, and can be stored again and removed.
func TestSegmentsInAnObjectStore(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	s := &outputs.Segments{Link: store.Link, Bucket: "past", Replicas: 1}
	if _, err := s.List(within(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a list of nothing: %v", err)
	}
	content := map[string][]byte{"a": text(1, 1<<20), "b": text(2, 10)}
	for range 2 {
		for name, is := range content {
			if err := put(t, s, name, is, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	broken := errors.New("the log is away")
	if err := put(t, s, "c", text(3, 1<<20), broken); !errors.Is(err, broken) {
		t.Errorf("what failed was stored: %v", err)
	}
	sizes := must(s.List(within(t)))(t)
	if want := map[string]int64{"a": 1 << 20, "b": 10}; !maps.Equal(sizes, want) {
		t.Errorf("there are %v, want %v", sizes, want)
	}
	for name, want := range content {
		in := must(s.Open(within(t), name))(t)
		if got := must(io.ReadAll(in))(t); !bytes.Equal(got, want) {
			t.Errorf("%s is %d bytes, want %d", name, len(got), len(want))
		}
		_ = in.Close()
	}
	if err := s.Remove(within(t), "a"); err != nil {
		t.Error(err)
	}
	if _, err := s.Open(within(t), "a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opened what was removed: %v", err)
	}
	if sizes := must(s.List(within(t)))(t); len(sizes) != 1 {
		t.Errorf("there are %v", sizes)
	}
}

// Of several that store the same at once, each finds it there.
func TestSegmentsAtOnce(t *testing.T) {
	t.Parallel()
	s := &outputs.Segments{Link: newStore(t).Link, Bucket: "past", Replicas: 1}
	want := text(1, 3<<20)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := put(t, s, "a", want, nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	in := must(s.Open(within(t), "a"))(t)
	defer in.Close()
	if got := must(io.ReadAll(in))(t); !bytes.Equal(got, want) {
		t.Errorf("there are %d bytes, want %d", len(got), len(want))
	}
}

// A store without room says so, and nothing is there under the name. Damaged contents are not taken for
// what was stored.
func TestSegmentsThatCannotBe(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := within(t)
	s := &outputs.Segments{Link: store.Link, Bucket: "past"}
	must(store.JS.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "past", MaxBytes: 1 << 20}))(t)
	if err := put(t, s, "a", text(1, 2<<20), nil); err == nil {
		t.Error("stored more than there is room for")
	}
	if sizes := must(s.List(ctx))(t); len(sizes) > 0 {
		t.Errorf("there are %v", sizes)
	}
	if err := put(t, s, "b", text(2, 100), nil); err != nil {
		t.Fatal(err)
	}
	is := must(must(store.JS.ObjectStore(ctx, "past"))(t).GetInfo(ctx, "b"))(t)
	natstest.Raw(t, store.JS, names.ObjectSubject+"past.C."+is.NUID, nil, []byte("more"))
	in, err := s.Open(ctx, "b")
	if err == nil {
		_, err = io.ReadAll(in)
	}
	if err == nil {
		t.Error("read more than was stored")
	}
}

// What a killed server has left of an upload goes once nobody can be writing it any more.
func TestSegmentsAreSwept(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ctx := within(t)
	s := &outputs.Segments{Link: store.Link, Bucket: "past", Replicas: 1}
	want := text(1, 1<<10)
	if err := put(t, s, "a", want, nil); err != nil {
		t.Fatal(err)
	}
	orphan := names.ObjectSubject + "past.C.orphan"
	natstest.Raw(t, store.JS, orphan, nil, []byte("half"))
	if err := put(t, s, "b", want, nil); err != nil {
		t.Fatal(err)
	}
	left := func() int {
		stream := must(store.JS.Stream(ctx, names.ObjectStream+"past"))(t)
		return len(must(stream.Info(ctx, jetstream.WithSubjectFilter(names.ObjectSubject+"past.C.>")))(t).State.Subjects)
	}
	if n := left(); n != 3 {
		t.Errorf("there are %d objects, want the two and what may be being written", n)
	}
	if err := s.Sweep(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != 2 {
		t.Errorf("there are %d objects, want 2", n)
	}
	in := must(s.Open(ctx, "a"))(t)
	defer in.Close()
	if got := must(io.ReadAll(in))(t); !bytes.Equal(got, want) {
		t.Errorf("there are %d bytes, want %d", len(got), len(want))
	}
}
