package filecache

import (
	"cmp"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"

	"millrace/internal/files"
)

// maxNeighbours is how many other versions are searched for chunks of a new one, the most recently
// used ones.
const maxNeighbours = 8

// neighbours are other versions here that share chunks with a new one. Chunks are copied and
// checked against their digest. A link would cost nothing, but then a task that spoils one version
// would spoil the others.
type neighbours struct {
	locks  []*flock.Flock
	chunks map[files.Digest]piece
}

type piece struct {
	path   string
	offset int64
	size   int64
}

// neighbours finds other versions with chunks of m, and holds them.
func (c *Cache) neighbours(key string, m *files.Manifest) *neighbours {
	n, wanted := &neighbours{chunks: map[files.Digest]piece{}}, m.Chunks()
	looked := 0
	for _, r := range c.residents() {
		if looked == maxNeighbours || r.key == key || strings.HasSuffix(r.key, "-setup") || r.used.IsZero() {
			continue
		}
		l := c.lock(r.key)
		if ok, err := l.TryRLock(); !ok || err != nil {
			continue // it is being made or removed right now
		}
		other, err := r.readManifest()
		if err != nil {
			_ = l.Close()
			continue
		}
		looked++
		n.locks = append(n.locks, l)
		for i := range other.Entries {
			e := &other.Entries[i]
			at := filepath.Join(r.tree(), filepath.FromSlash(e.Path))
			for j, d := range e.Chunks {
				if _, ok := wanted[d]; ok {
					n.chunks[d] = piece{at, int64(j) * files.ChunkSize, e.ChunkBytes(j)}
				}
			}
		}
	}
	return n
}

func (n *neighbours) close() {
	for _, l := range n.locks {
		_ = l.Close()
	}
}

// chunks come from other versions here, or else from the store.
type chunks struct {
	near  *neighbours
	store files.Source
	// count and bytes are what came from the store.
	count, bytes atomic.Int64
}

func (c *chunks) Get(ctx context.Context, d files.Digest) ([]byte, error) {
	if p, ok := c.near.chunks[d]; ok {
		if b, err := p.read(); err == nil && d.Check(b) == nil {
			return b, nil
		}
	}
	b, err := c.store.Get(ctx, d)
	if err == nil {
		c.count.Add(1)
		c.bytes.Add(int64(len(b)))
	}
	return b, err
}

func (p piece) read() ([]byte, error) {
	f, err := openPlain(p.path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, p.size)
	_, err = io.ReadFull(io.NewSectionReader(f, p.offset, p.size), b)
	return b, err
}

// resident is a directory of the cache.
type resident struct {
	slot
	used time.Time // zero if it is incomplete
}

// residents lists the directories, the most recently used first.
func (c *Cache) residents() []resident {
	entries, err := os.ReadDir(filepath.Join(c.cfg.Dir, "trees"))
	if err != nil {
		return nil // it was there when the cache was made; the next user of it will report that
	}
	var all []resident
	for _, e := range entries {
		r := resident{slot: c.slot(e.Name())}
		if info, err := os.Stat(r.markFile()); err == nil {
			r.used = info.ModTime()
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b resident) int { return cmp.Or(b.used.Compare(a.used), strings.Compare(a.key, b.key)) })
	return all
}
