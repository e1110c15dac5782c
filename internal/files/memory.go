package files

import (
	"bytes"
	"context"
	"fmt"
	"sync"
)

// Memory is a [Store] in memory, for tests.
type Memory struct {
	mu       sync.Mutex
	chunks   map[Digest][]byte  // guarded by mu
	versions map[Digest]Version // guarded by mu
	gets     int                // guarded by mu
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{chunks: map[Digest][]byte{}, versions: map[Digest]Version{}}
}

// Get implements [Source].
func (m *Memory) Get(_ context.Context, d Digest) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	b, ok := m.chunks[d]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrNoChunk, d.Short())
	}
	return b, d.Check(b)
}

// Gets returns how often Get was called.
func (m *Memory) Gets() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gets
}

// Replace replaces the content of a chunk; nil removes it.
func (m *Memory) Replace(d Digest, b []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b == nil {
		delete(m.chunks, d)
		return
	}
	m.chunks[d] = b
}

// Missing implements [Store].
func (m *Memory) Missing(_ context.Context, all []Digest) (missing []Digest, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range all {
		if _, ok := m.chunks[d]; !ok {
			missing = append(missing, d)
		}
	}
	return missing, nil
}

// Put implements [Store].
func (m *Memory) Put(_ context.Context, d Digest, chunk []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.chunks[d] = bytes.Clone(chunk)
	return nil
}

// Protect implements [Store]; nothing is ever removed.
func (m *Memory) Protect(context.Context, Version) error { return nil }

// Commit implements [Store].
func (m *Memory) Commit(_ context.Context, v Version) error {
	if err := v.Validate(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[v.Digest] = v
	return nil
}

// Version implements [Store].
func (m *Memory) Version(_ context.Context, d Digest) (Version, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.versions[d]
	if !ok {
		return v, fmt.Errorf("%w: %s", ErrNoVersion, d.Short())
	}
	return v, nil
}
