package incident

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// The time to open a file is proportional to its size, and its memory to what it may hold: parts that
// lie within each other, many blocks, notes or missing blocks, and short lines cost no more.
func TestHostileFiles(t *testing.T) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	block := func(s Section, number int, lines []byte) []byte {
		return appendBlock(nil, enc, Block{Section: s, Number: uint32(number), Lines: 1}, lines)
	}
	const n, most, soon = 200_000, 64 << 20, 10 * time.Second
	var nested, empty, notes, listed []byte
	for i := range n {
		h := block(SectionFacts, i, nil)[:headSize]
		binary.LittleEndian.PutUint32(h[40:], uint32((n-i-1)*headSize))
		fixSum(h)
		nested = append(nested, h...)
		empty = append(empty, block(SectionFacts, i, nil)...)
		notes = fmt.Appendf(notes, "{\"name\":\"%x\"}\n", i)
		if i < n/4 {
			listed = fmt.Appendf(listed, "{\"section\":2,\"number\":%d,\"lines\":1},", i)
		}
	}
	ending := func(listed []byte) []byte {
		return block(SectionEnd, 0, fmt.Appendf(nil, `{"blocks":[%s]}`, bytes.TrimRight(listed, ",")))
	}
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"blocks within each other":       {nested, ErrRuined},
		"empty blocks":                   {empty, nil},
		"notes":                          {block(SectionNotes, 0, notes), nil},
		"missing blocks":                 {ending(listed), nil},
		"more notes than there is room":  {block(SectionNotes, 0, bytes.Repeat([]byte("{}\n"), 4*n)), ErrLarge},
		"more listed than there is room": {ending(bytes.Repeat([]byte("{},"), 3*n)), ErrLarge},
		"an end that is too large":       {ending(bytes.Repeat([]byte("{},"), 4*n)), ErrRuined},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, err := OpenUpTo(c.file, most)
		took := time.Since(began)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, c.want) || took > soon {
			t.Errorf("%s: %v after %v, want %v within %v", name, err, took, c.want, soon)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*most {
			t.Errorf("%s: %d MiB were taken", name, got>>20)
		}
	}
}
