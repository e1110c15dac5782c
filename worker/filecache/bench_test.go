package filecache_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	tree "millrace/internal/files"
	"millrace/worker/filecache"
)

// BenchmarkCheckout measures what an attempt pays for files that are on the node already: many
// small ones, and few large ones; used in place, linked and copied; and the first use by a worker
// that has just started, which reads them all.
func BenchmarkCheckout(b *testing.B) {
	for name, c := range map[string]struct {
		files int
		size  int
	}{"10000x4kB": {10_000, 4 << 10}, "16x16MiB": {16, 16 << 20}} {
		from, dir := b.TempDir(), b.TempDir()
		for i := range c.files {
			content := fmt.Sprint(i) + strings.Repeat("x", c.size)
			if err := os.MkdirAll(fmt.Sprintf("%s/d%d", from, i%100), 0o755); err != nil {
				b.Fatal(err)
			}
			if err := os.WriteFile(fmt.Sprintf("%s/d%d/f%d", from, i%100, i), []byte(content), 0o600); err != nil {
				b.Fatal(err)
			}
		}
		root, err := os.OpenRoot(from)
		if err != nil {
			b.Fatal(err)
		}
		defer root.Close()
		store := tree.NewMemory()
		scanned, err := tree.Scan(b.Context(), root, tree.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tree.Push(b.Context(), store, root, scanned, "", tree.Stamp, nil); err != nil {
			b.Fatal(err)
		}
		open := func() *filecache.Cache {
			cache, err := filecache.New(store, filecache.Config{Dir: dir})
			if err != nil {
				b.Fatal(err)
			}
			return cache
		}
		cache := open()
		b.Cleanup(func() { // else the sealed files could not be removed
			_ = os.Chmod(dir, 0o755)
		})
		use := filecache.Use{Version: scanned.Digest}
		checkout := func(b *testing.B, cache *filecache.Cache) {
			held, err := cache.Checkout(b.Context(), use)
			if err != nil {
				b.Fatal(err)
			}
			held.Release()
		}
		checkout(b, cache)
		put := func(b *testing.B, mode filecache.Mode) {
			for b.Loop() {
				into, err := os.MkdirTemp(dir, "work")
				if err != nil {
					b.Fatal(err)
				}
				held, err := cache.Put(b.Context(), use, into, mode)
				if err != nil {
					b.Fatal(err)
				}
				held.Release()
				b.StopTimer()
				if err := os.RemoveAll(into); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		}
		b.Run(name+"/shared", func(b *testing.B) {
			for b.Loop() {
				checkout(b, cache)
			}
		})
		b.Run(name+"/first", func(b *testing.B) {
			for b.Loop() {
				checkout(b, open())
			}
		})
		b.Run(name+"/link", func(b *testing.B) { put(b, filecache.Link) })
		b.Run(name+"/copy", func(b *testing.B) { put(b, filecache.Copy) })
	}
}
