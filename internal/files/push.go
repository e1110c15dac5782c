package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Pushed is the result of a push.
type Pushed struct {
	Version Version
	// Chunks and Bytes count what was sent.
	Chunks int
	Bytes  int64
}

// Push stores a version: first the chunks that the store lacks, then the manifest, and last the
// version itself; so an interrupted push leaves no partial version, and the next one continues it.
// root is where t was read. The error names a file that has changed since, or wraps [ErrFull].
// each, if not nil, is called after each chunk with the bytes sent so far, and the total.
func Push(ctx context.Context, s Store, root *os.Root, t *Tree, by string, at time.Time, each func(done, of int64)) (p Pushed, err error) {
	sizes := t.Manifest.Chunks()
	p.Version, err = t.push(ctx, s, by, at, func(missing []Digest) error {
		lacks := make(map[Digest]bool, len(missing))
		for _, d := range missing {
			lacks[d] = true
			p.Bytes += sizes[d]
		}
		p.Chunks = len(missing)
		return t.pushChunks(ctx, s, root, lacks, p.Bytes, each)
	})
	return p, err
}

// Edit is what becomes of one entry of a version.
type Edit struct {
	// Path is that of the entry; "" for a new file. To is its path from then on; "" if it is removed.
	Path, To string
	// Content is the new content of a file; nil leaves it as it is. Exec makes a new file a program.
	Content []byte
	Exec    bool
}

// Edited is a version that differs from m in one entry, and not stored yet. The error says why there
// can be no such version.
func Edited(m *Manifest, c Edit) (*Tree, error) {
	e := Entry{Exec: c.Exec}
	t := &Tree{Manifest: &Manifest{Entries: slices.Clone(m.Entries)}, parts: map[Digest][]byte{}}
	if c.Path != "" {
		is := t.Manifest.Find(c.Path)
		if is == nil || c.Content != nil && !is.Regular() {
			return nil, fmt.Errorf("%q is no file of the version", excerpt(c.Path))
		}
		e = *is
		t.Manifest.Entries = slices.DeleteFunc(t.Manifest.Entries, func(e Entry) bool { return e.Path == c.Path })
	}
	if c.Content != nil {
		e.Size, e.Chunks = int64(len(c.Content)), nil
		for part := range slices.Chunk(c.Content, ChunkSize) {
			d := DigestOf(part)
			e.Chunks = append(e.Chunks, d)
			t.parts[d] = part
		}
	}
	if e.Path = c.To; c.To != "" || c.Path == "" {
		if t.Manifest.Find(c.To) != nil {
			return nil, fmt.Errorf("%q is there already", excerpt(c.To))
		}
		t.Manifest.Entries = append(t.Manifest.Entries, e)
	}
	var err error
	t.text, t.Digest, err = Encode(t.Manifest)
	return t, err
}

// Store stores what [Edited] returned. The error wraps [ErrNoChunk] if the store lacks the content of
// another file, or [ErrFull].
func (t *Tree) Store(ctx context.Context, s Store, by string, at time.Time) (Version, error) {
	return t.push(ctx, s, by, at, func(missing []Digest) error {
		for _, d := range missing {
			part, new := t.parts[d]
			if !new {
				return fmt.Errorf("%w: %s", ErrNoChunk, d.Short())
			}
			if err := s.Put(ctx, d, part); err != nil {
				return err
			}
		}
		return nil
	})
}

// push stores the manifest, has rest store the chunks of files that the store lacks, and makes the
// version known.
func (t *Tree) push(ctx context.Context, s Store, by string, at time.Time, rest func(missing []Digest) error) (Version, error) {
	v := Version{Digest: t.Digest, Size: int64(len(t.text)), Files: len(t.Manifest.Entries), Bytes: t.Manifest.Size(), At: at.UTC(), By: by}
	for i := 0; i < len(t.text); i += ChunkSize {
		v.Chunks = append(v.Chunks, DigestOf(t.text[i:min(i+ChunkSize, len(t.text))]))
	}
	if err := v.Validate(); err != nil {
		return Version{}, err
	}
	// The manifest comes first, so that it can be read what is protected; and again, if gc was
	// faster than the protection.
	if err := t.pushText(ctx, s, v.Chunks); err != nil {
		return Version{}, err
	}
	if err := s.Protect(ctx, v); err != nil {
		return Version{}, err
	}
	gone, err := s.Missing(ctx, v.Chunks)
	if err == nil && len(gone) > 0 {
		err = t.pushText(ctx, s, v.Chunks)
	}
	if err != nil {
		return Version{}, err
	}
	missing, err := s.Missing(ctx, slices.Collect(maps.Keys(t.Manifest.Chunks())))
	if err == nil {
		err = rest(missing)
	}
	if err != nil {
		return v, err
	}
	return v, s.Commit(ctx, v)
}

// pushText stores the chunks of the encoded manifest.
func (t *Tree) pushText(ctx context.Context, s Store, chunks []Digest) error {
	for i, d := range chunks {
		if err := s.Put(ctx, d, t.text[i*ChunkSize:min((i+1)*ChunkSize, len(t.text))]); err != nil {
			return err
		}
	}
	return nil
}

// pushChunks reads the files that hold missing chunks and stores these chunks.
func (t *Tree) pushChunks(ctx context.Context, s Store, root *os.Root, lacks map[Digest]bool, of int64, each func(done, of int64)) error {
	asked := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	buffers := newBuffers()
	told := newTally(of, each)
	for i := range t.Manifest.Entries {
		e := &t.Manifest.Entries[i]
		var f *shared
		for n, d := range e.Chunks {
			if !lacks[d] || ctx.Err() != nil {
				continue
			}
			delete(lacks, d) // it may occur many times
			if f == nil {
				file, err := openAs(root, e.Path, t.as)
				if err != nil {
					_ = g.Wait()
					return err
				}
				f = &shared{File: file}
				f.users.Store(1)
			}
			f.users.Add(1)
			g.Go(func() error {
				defer func() { _ = f.leave() }() // it was only read
				buf := buffers.get()
				defer buffers.put(buf)
				chunk := buf[:e.ChunkBytes(n)]
				if _, err := f.ReadAt(chunk, int64(n)*ChunkSize); err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				if d.Check(chunk) != nil {
					return fmt.Errorf("%s changed while it was pushed: push again", e.Path)
				}
				if err := s.Put(ctx, d, chunk); err != nil {
					return fmt.Errorf("%s: %w", e.Path, err)
				}
				told.add(int64(len(chunk)))
				return nil
			})
		}
		if f != nil {
			_ = f.leave()
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return asked.Err()
}
