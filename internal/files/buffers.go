package files

import (
	"sync"
)

// buffers are reusable buffers, each for one chunk.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any {
		b := make([]byte, ChunkSize)
		return &b
	}}}
}

func (b *buffers) get() []byte { return *b.pool.Get().(*[]byte) }

func (b *buffers) put(buf []byte) { b.pool.Put(&buf) }
