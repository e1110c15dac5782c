//go:build linux

package process

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// readFrames returns all lines that are in a ring from a place on, and the place after them.
func readFrames(r *ring, at int64) (all []string, end int64) {
	reader := &ringReader{ring: r, at: at}
	for {
		f, err := reader.next()
		if err != nil {
			return all, reader.at
		}
		all = append(all, strings.Split(string(f.body), "\n")...)
	}
}

// A full ring blocks the writer; room lets it go on, and nothing is missing.
func TestFullRingWaits(t *testing.T) {
	r := newRing(t, 600<<10)
	w := newShimWriter(r)
	const lines = 20_000
	written := make(chan struct{})
	go func() {
		defer close(written)
		for i := range lines {
			w.put(frame{kind: frameStdout, body: fmt.Appendf(nil, "%0100d", i)})
			if i%10 == 0 {
				w.waitMore(-1, func() bool { return true }) // lets the writer have its turn
			}
		}
		w.close()
	}()
	var got []string
	at := int64(0)
	for len(got) < lines {
		more, end := readFrames(r, at)
		if got, at = append(got, more...), end; len(more) == 0 {
			w.waitMore(at, func() bool { return false })
			continue
		}
		w.free(at)
	}
	<-written
	for i, line := range got {
		if line != fmt.Sprintf("%0100d", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
}

// If no worker makes room, frames are dropped, and counted where they are missing.
func TestWhatIsDroppedIsCounted(t *testing.T) {
	r := newRing(t, 8<<10) // half of it is reserved for the note about what is dropped
	w := newShimWriter(r)
	put := func(n, size int) {
		for range n {
			w.put(frame{kind: frameStdout, body: []byte(strings.Repeat("x", size))})
		}
	}
	put(1, 3000)
	w.waitMore(0, func() bool { return false })
	w.giveUp()
	put(5, 2000)
	w.close()
	got, at := readFrames(r, 0)
	if len(got) != 2 || len(got[0]) != 3000 || !strings.HasPrefix(got[1], "5 lines and messages (10000 bytes) were dropped here: no worker") {
		t.Errorf("%d frames of %d bytes: %.200q", len(got), at, got)
	}
}

// A disk that takes nothing costs lines, and the loss is counted when it takes something again.
func TestDiskThatTakesNothing(t *testing.T) {
	r := newRing(t, ringSize)
	good := r.file
	bad := newRing(t, ringSize).file
	bad.Close()
	w := newShimWriter(r)
	wait := func(holds func() bool) {
		t.Helper()
		for until := time.Now().Add(10 * time.Second); !holds(); {
			if time.Now().After(until) {
				t.Fatal("it does not come to that")
			}
			w.waitMore(-1, func() bool { return true })
		}
	}
	r.file = bad
	w.put(frame{kind: frameStderr, body: []byte("lost")})
	wait(func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.drops > 0
	})
	w.mu.Lock()
	r.file = good
	w.mu.Unlock()
	w.put(frame{kind: frameStderr, body: []byte("kept")})
	w.close()
	got, _ := readFrames(r, 0)
	if len(got) != 2 || !strings.HasPrefix(got[0], "1 lines and messages (4 bytes) were dropped here: they could not be written down") || got[1] != "kept" {
		t.Errorf("%q", got)
	}
}
