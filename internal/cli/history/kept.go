package history

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"millrace/events"
	"millrace/history/replay"
	"millrace/internal/files"
)

// Bounds of the folder of kept spans. A file of less than leastKept is read as fast as a kept one.
const (
	leastKept = 64 << 10
	mostKept  = 256 << 20 // of one span
	mostShelf = 512 << 20 // of all files
)

// kept is the place for the span of one file in the user's cache, so that the same file need not be
// read and folded each time. Its name follows from every byte of the file and from this program, so it
// is never out of date. The folder is this user's alone; what cannot be read there is ignored.
type kept struct {
	name string // "" for none
	most int64  // of all files
	now  time.Time
}

// keptOf returns the place for a file; none for one that is no plain file, or small.
func keptOf(name string, now time.Time) (k kept) {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() < leastKept {
		return k
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return k
	}
	dir, err := files.PrivateDir(cache, "millrace", "replay")
	if err != nil {
		return k
	}
	sum := sha256.New()
	if program, err := os.Executable(); err != nil {
		return k
	} else if is, err := os.Stat(program); err != nil {
		return k
	} else {
		fmt.Fprintln(sum, is.Size(), is.ModTime().UnixNano())
	}
	file, err := os.Open(name)
	if err != nil {
		return k
	}
	defer file.Close()
	if _, err := io.Copy(sum, file); err != nil {
		return k
	}
	return kept{filepath.Join(dir, hex.EncodeToString(sum.Sum(nil))), mostShelf, now}
}

// restore fills a span that has no facts yet; false if nothing is kept, and the span must not be used.
func (k kept) restore(span *replay.Span, stop, inside func(*events.Record) bool) bool {
	if k.name == "" {
		return false
	}
	all, err := os.ReadFile(k.name)
	if err != nil {
		return false
	}
	text, whole := checked(all)
	if !whole || span.Restore(text, stop, inside) != nil {
		_ = os.Remove(k.name)
		return false
	}
	_ = os.Chtimes(k.name, k.now, k.now) // those that were used last stay longest
	return true
}

// keep keeps a span that has all facts of its file. If it cannot, the file is read again next time.
func (k kept) keep(span *replay.Span) {
	if k.name == "" {
		return
	}
	text := span.Keep()
	if text == nil || len(text) > mostKept {
		return
	}
	sum := sha256.Sum256(text)
	if text = append(text, sum[:]...); k.makeRoom(int64(len(text))) == nil {
		_ = files.Write(k.name, text)
	}
}

// checked returns what stands before its checksum; false if that is another one.
func checked(all []byte) ([]byte, bool) {
	at := len(all) - sha256.Size
	if at < 0 {
		return nil, false
	}
	sum := sha256.Sum256(all[:at])
	return all[:at], bytes.Equal(sum[:], all[at:])
}

// makeRoom removes the files that were not used for longest, until there is room for one more.
func (k kept) makeRoom(size int64) error {
	dir := filepath.Dir(k.name)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			files = append(files, info)
			size += info.Size()
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), cmp.Compare(a.Name(), b.Name()))
	})
	for _, f := range files {
		if size <= k.most {
			break
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return err
		}
		size -= f.Size()
	}
	return nil
}
