//go:build linux

package process

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

func newRing(t *testing.T, size int64) *ring {
	t.Helper()
	r, err := openRing(filepath.Join(t.TempDir(), "ring"), size, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.close() })
	return r
}

// Many rounds of frames of all lengths come out as they went in, each once.
func TestRingGoesRound(t *testing.T) {
	r := newRing(t, 10_007)
	rnd := rand.New(rand.NewPCG(1, 2))
	reader := &ringReader{ring: r}
	at, n := int64(0), 0
	for range 2_000 {
		if _, err := reader.next(); !errors.Is(err, errNoFrame) {
			t.Fatalf("frame %d is there before it was written: %v", n, err)
		}
		var batch []byte
		from := n
		for range 1 + rnd.IntN(3) {
			body := bytes.Repeat([]byte{byte(n)}, rnd.IntN(3_000))
			batch = appendFrame(batch, at+int64(len(batch)), frame{kind: frameStdout, partial: n%2 == 0, said: int64(n), body: body})
			n++
		}
		if err := r.writeAt(batch, at); err != nil {
			t.Fatal(err)
		}
		at += int64(len(batch))
		for i := from; i < n; i++ {
			f, err := reader.next()
			if err != nil || f.said != int64(i) || f.partial != (i%2 == 0) || len(f.body) > 0 && f.body[0] != byte(i) {
				t.Fatalf("frame %d: %+v, %v", i, f, err)
			}
		}
		if reader.at != at {
			t.Fatalf("the reader is at %d, want %d", reader.at, at)
		}
	}
}

// A torn frame, or one of an earlier round, does not count.
func TestRingTellsWhatIsNoFrame(t *testing.T) {
	whole := appendFrame(nil, 100, frame{kind: frameStderr, said: 7, body: []byte("hello")})
	for name, c := range map[string]struct {
		b  []byte
		at int64
	}{
		"of another place": {whole, 200},
		"short":            {whole[:len(whole)-1], 100},
		"no head":          {whole[:10], 100},
		"nothing":          {nil, 100},
		"zeroes":           {make([]byte, 100), 100},
	} {
		if _, _, _, err := parseFrame(c.b, c.at); !errors.Is(err, errNoFrame) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range whole {
		torn := bytes.Clone(whole)
		torn[i] ^= 0x20
		if f, n, _, err := parseFrame(torn, 100); err == nil {
			t.Errorf("with byte %d changed it is a frame: %+v, %d", i, f, n)
		}
	}
	if f, n, _, err := parseFrame(whole, 100); err != nil || n != len(whole) || string(f.body) != "hello" {
		t.Errorf("%+v, %d, %v", f, n, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, 0, frame{kind: frameStdout, body: []byte("x")}), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		if fr, n, _, err := parseFrame(b, max(at, 0)); err == nil && (n > len(b) || len(fr.body) != n-headSize) {
			t.Errorf("%d of %d bytes", n, len(b))
		}
	})
}
