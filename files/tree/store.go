package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"millrace/files"
)

// Store keeps chunks and versions. Package jet has the one for NATS JetStream. It is
// safe for concurrent use.
type Store interface {
	Source
	// Missing returns those of some chunks that are not there.
	Missing(ctx context.Context, all []files.Digest) ([]files.Digest, error)
	// Put stores a chunk, which must be what d names. Storing it again is harmless. The
	// error wraps [ErrFull] if a limit of the server is reached.
	Put(ctx context.Context, d files.Digest, chunk []byte) error
	// Protect keeps a version, and chunks that it consists of, from being removed by
	// gc for a day, whether they are there yet or not. What [Store.Missing] says after it stays true.
	Protect(ctx context.Context, v Version) error
	// Commit makes a version known. All of its chunks must be there, and it must pass [Version.Validate].
	Commit(ctx context.Context, v Version) error
	// Version returns a version that was committed; else the error wraps [ErrNoVersion].
	Version(ctx context.Context, d files.Digest) (Version, error)
}

// Source is where chunks can be had.
type Source interface {
	// Get returns a chunk, which was held against its digest. The error wraps [ErrNoChunk]
	// if it is not there.
	Get(ctx context.Context, d files.Digest) ([]byte, error)
}

// What a [Store] cannot do.
var (
	ErrNoVersion = errors.New("there is no such version of a bundle")
	ErrNoChunk   = errors.New("the store does not have this content")
	ErrFull      = errors.New("the server's storage limit is reached: raise it (max_file of JetStream, or the account's limit), or free space with `millrace files gc`")
)

// Version says where the manifest of a version lies, and what it amounts to.
type Version struct {
	Digest files.Digest `json:"digest"`
	// Size and Chunks are those of the encoded manifest.
	Size   int64          `json:"size"`
	Chunks []files.Digest `json:"chunks"`
	// Files and Bytes count what is in it.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// At and By say when it was first pushed, and by whom.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// Validate refuses a version whose list of files, or whose files, cannot be as large as it says. The store keeps
// what clients write, so it is asked before one is stored and after it was read.
func (v *Version) Validate() error {
	switch {
	case v.Size < 0 || v.Size > files.MaxManifest:
		return fmt.Errorf("version %s: its list of files has %d bytes, more than %d", v.Digest.Short(), v.Size, files.MaxManifest)
	case int64(len(v.Chunks)) != (v.Size+files.ChunkSize-1)/files.ChunkSize:
		return fmt.Errorf("version %s: its list of files has %d chunks for %d bytes", v.Digest.Short(), len(v.Chunks), v.Size)
	case v.Bytes < 0 || v.Bytes > files.MaxVersion:
		return fmt.Errorf("version %s: its files have %d bytes together, more than %d", v.Digest.Short(), v.Bytes, int64(files.MaxVersion))
	}
	return nil
}

// parallel is how many chunks are on their way at once.
const parallel = 12

// Manifest reads the manifest of a version. The error wraps [ErrNoVersion] or [ErrNoChunk].
func Manifest(ctx context.Context, s Store, d files.Digest) (*files.Manifest, error) {
	v, err := s.Version(ctx, d)
	if err != nil {
		return nil, err
	}
	return ManifestOf(ctx, s, v)
}

// ManifestOf is [Manifest] for a version that is at hand.
func ManifestOf(ctx context.Context, s Source, v Version) (*files.Manifest, error) {
	if err := v.Validate(); err != nil {
		return nil, err
	}
	parts := make([][]byte, len(v.Chunks))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallel)
	for i, d := range v.Chunks {
		g.Go(func() (err error) {
			parts[i], err = s.Get(ctx, d)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("version %s: its list of files: %w", v.Digest.Short(), err)
	}
	text := bytes.Join(parts, nil)
	if err := v.Digest.Check(text); err != nil {
		return nil, fmt.Errorf("version %s: its list of files: %w", v.Digest.Short(), err)
	}
	m, err := files.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("version %s: %w", v.Digest.Short(), err)
	}
	return m, nil
}
