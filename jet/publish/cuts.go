package publish

import (
	"context"
	"sync"
)

// cuts tells callers that wait for an answer that the connection was lost and is back: the request
// or its answer went with it, and the caller must ask again.
type cuts struct {
	mu  sync.Mutex
	ctx context.Context // guarded by mu; ends with the next cut
	end context.CancelFunc
}

// next returns a context that ends with the next cut.
func (c *cuts) next() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.ctx, c.end = context.WithCancel(context.Background())
	}
	return c.ctx
}

func (c *cuts) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		c.end()
		c.ctx = nil
	}
}
