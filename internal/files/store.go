package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// Store keeps chunks and versions. Package jet has the one for NATS JetStream. It is
// safe for concurrent use.
type Store interface {
	Source
	// Missing returns those of some chunks that the store lacks.
	Missing(ctx context.Context, all []Digest) ([]Digest, error)
	// Put stores a chunk, whose digest must be d. Storing it again is harmless. The error wraps
	// [ErrFull] if a limit of the server is reached.
	Put(ctx context.Context, d Digest, chunk []byte) error
	// Protect protects a version and its chunks from gc for a day, whether they are stored yet or
	// not. What [Store.Missing] returns afterwards stays true.
	Protect(ctx context.Context, v Version) error
	// Commit makes a version known. All of its chunks must be stored, and it must pass
	// [Version.Validate].
	Commit(ctx context.Context, v Version) error
	// Version returns a committed version; else the error wraps [ErrNoVersion].
	Version(ctx context.Context, d Digest) (Version, error)
}

// Source returns chunks.
type Source interface {
	// Get returns a chunk, checked against its digest. The error wraps [ErrNoChunk] if the source
	// lacks it.
	Get(ctx context.Context, d Digest) ([]byte, error)
}

// Errors of a [Store].
var (
	ErrNoVersion = errors.New("there is no such version of a bundle")
	ErrNoChunk   = errors.New("the store does not have this content")
	ErrFull      = errors.New("the server's storage limit is reached: raise it (max_file of JetStream, or the account's limit), or free space with `millrace files gc`")
)

// Version says where the manifest of a version lies, and how large the version is.
type Version struct {
	Digest Digest `json:"digest"`
	// Size and Chunks are those of the encoded manifest.
	Size   int64    `json:"size"`
	Chunks []Digest `json:"chunks"`
	// Files and Bytes count its files and their sizes.
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// At is when it was first pushed, and By the user that pushed it.
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"`
}

// Validate refuses a version whose manifest, or whose files, cannot have the stated size. Clients
// write versions, so it is called before a version is stored and after it was read.
func (v *Version) Validate() error {
	switch {
	case v.Size < 0 || v.Size > MaxManifest:
		return fmt.Errorf("version %s: its list of files has %d bytes, more than %d", v.Digest.Short(), v.Size, MaxManifest)
	case int64(len(v.Chunks)) != (v.Size+ChunkSize-1)/ChunkSize:
		return fmt.Errorf("version %s: its list of files has %d chunks for %d bytes", v.Digest.Short(), len(v.Chunks), v.Size)
	case v.Bytes < 0 || v.Bytes > MaxVersion:
		return fmt.Errorf("version %s: its files have %d bytes together, more than %d", v.Digest.Short(), v.Bytes, int64(MaxVersion))
	}
	return nil
}

// parallel is how many chunks are sent or fetched concurrently.
const parallel = 12

// Held reads the manifest of a version. The error wraps [ErrNoVersion] or [ErrNoChunk].
func Held(ctx context.Context, s Store, d Digest) (*Manifest, error) {
	v, err := s.Version(ctx, d)
	if err != nil {
		return nil, err
	}
	return ManifestOf(ctx, s, v)
}

// ManifestOf is [Held] for a version that was read already.
func ManifestOf(ctx context.Context, s Source, v Version) (*Manifest, error) {
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
	m, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("version %s: %w", v.Digest.Short(), err)
	}
	return m, nil
}
