package history

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/replay"
	"millrace/projections/view"
)

// A file is read and folded once. What is kept of it follows from each of its bytes, lies where nobody
// else can write, and is ignored if it is damaged; those that were not used for longest make room.
func TestKept(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", home)
	t.Setenv("HOME", home)
	export := func(note string) string {
		var text bytes.Buffer
		text.WriteString("{\"export\":1,\"from\":1}\n")
		for seq := 1; text.Len() < leastKept; seq++ {
			id := fmt.Sprintf("01JNAT%020d", seq)
			fmt.Fprintf(&text, `{"seq":%d,"stored":"2026-03-01T12:00:00Z","kind":"offer","subject":"mr.queue.default.5.%s","body":{"type":"task.submitted","id":"01JNAF%020d","at":"2026-03-01T12:00:00Z","task":"%s","spec":{"handler":"%s"},"route":"default.5"}}`+"\n", seq, id, seq, id, note)
		}
		name := filepath.Join(t.TempDir(), "log.jsonl")
		if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	read := func(name string, between ...view.Moment) (k kept, last uint64) {
		t.Helper()
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		k = keptOf(name, time.Now())
		span, err := exportSpan(&text{Reader: bufio.NewReader(file), name: name}, k, [2]view.Moment(append(between, make([]view.Moment, 2-len(between))...)))
		if err != nil {
			t.Fatal(err)
		}
		return k, span.Last()
	}
	there := func(k kept) bool { _, err := os.Stat(k.name); return err == nil }

	one := export("one")
	if k, _ := read(one, view.Moment{}, view.Moment{Seq: 3}); there(k) {
		t.Error("a part of a file is kept as the whole")
	}
	k, last := read(one)
	if info, err := os.Stat(filepath.Dir(k.name)); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("the folder is %v, %v", info, err)
	}
	if !there(k) || last < 100 {
		t.Fatalf("nothing is kept of %d facts", last)
	}
	never := func(*events.Record) bool { return false }
	if span := replay.NewSpan(1); !k.restore(span, never, never) || span.Last() != last {
		t.Errorf("what is kept ends at %d, want %d", span.Last(), last)
	}
	if _, again := read(one, view.Moment{Seq: 2}, view.Moment{Seq: 3}); again != 3 {
		t.Errorf("up to 3 the kept span ends at %d", again)
	}
	other, _ := read(export("two"))
	if other.name == k.name {
		t.Error("another file has the same name")
	}

	all, err := os.ReadFile(k.name)
	if err != nil {
		t.Fatal(err)
	}
	for at := 0; at < len(all); at += 1 + len(all)/100 {
		damaged := bytes.Clone(all)
		damaged[at] ^= 0x10
		for _, is := range [][]byte{damaged, all[:at]} {
			if err := os.WriteFile(k.name, is, 0o600); err != nil {
				t.Fatal(err)
			}
			if span := replay.NewSpan(1); k.restore(span, never, never) && span.Last() != last {
				t.Fatalf("damaged at %d it is a span up to %d", at, span.Last())
			}
		}
	}
	if _, again := read(one); again != last || !there(k) {
		t.Errorf("after damage the file ends at %d, and is kept: %v", again, there(k))
	}

	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(other.name, old, old); err != nil {
		t.Fatal(err)
	}
	k.most = int64(len(all)) + 100
	if k.makeRoom(100) != nil || there(other) || !there(k) {
		t.Errorf("after making room the older one is there: %v, the newer: %v", there(other), there(k))
	}
}
