package projections

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"millrace/task"
)

// Bounds of a specCache: entries before it is emptied, and the largest text kept.
const (
	maxSpecs    = 512
	maxSpecText = 8 << 10
)

// specCache spares writing and reading the same spec for each task of a job.
type specCache struct {
	mu     sync.RWMutex
	byText map[string]*task.Spec // guarded by mu
	bySpec map[*task.Spec][]byte // guarded by mu
}

func newSpecCache() *specCache {
	return &specCache{byText: map[string]*task.Spec{}, bySpec: map[*task.Spec][]byte{}}
}

func (c *specCache) text(spec *task.Spec) ([]byte, error) {
	c.mu.RLock()
	text, ok := c.bySpec[spec]
	c.mu.RUnlock()
	if ok {
		return text, nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a search looks for what was typed
	if err := enc.Encode(spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	text = bytes.TrimSpace(b.Bytes())
	c.keep(spec, text)
	return text, nil
}

func (c *specCache) spec(text []byte) (*task.Spec, error) {
	c.mu.RLock()
	spec, ok := c.byText[string(text)]
	c.mu.RUnlock()
	if ok {
		return spec, nil
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("spec: %w", err)
	}
	c.keep(spec, bytes.Clone(text))
	return spec, nil
}

func (c *specCache) keep(spec *task.Spec, text []byte) {
	if len(text) > maxSpecText {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.bySpec) >= maxSpecs {
		clear(c.byText)
		clear(c.bySpec)
	}
	c.byText[string(text)], c.bySpec[spec] = spec, text
}
