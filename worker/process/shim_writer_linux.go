package process

import (
	"bytes"
	"sync"
	"time"
)

const (
	// shimBuffer is how many bytes may wait to be written before the process must wait.
	shimBuffer = 256 << 10
	// shimReserve is room in the ring for a note about what was dropped.
	shimReserve = 4 << 10
	// joinTime, in nanoseconds, and joinBytes bound the lines of a frame.
	joinTime  = int64(10 * time.Millisecond)
	joinBytes = 64 << 10
)

// shimWriter writes frames into a ring: while some are written, the next are gathered. While the
// ring is full it waits, and so does the process. It drops what no worker will make room for, or
// what the disk does not take; a frame in its place counts it.
type shimWriter struct {
	ring *ring
	done chan struct{}

	mu      sync.Mutex
	cond    *sync.Cond
	waiting []frame // guarded by mu
	bodies  []byte  // guarded by mu; of the waiting frames
	written int64   // guarded by mu; everything before lies in the ring
	told    int64   // guarded by mu; everything before may be overwritten
	closed  bool    // guarded by mu
	hasty   bool    // guarded by mu; no worker makes room any more
	drops   int     // guarded by mu; how often something was dropped

	dropped, lost int64 // lines and messages, and bytes; only the writing goroutine uses them
	why           string
}

func newShimWriter(r *ring) *shimWriter {
	w := &shimWriter{ring: r, done: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	go w.write()
	return w
}

// put adds a frame and copies its body. It blocks while too much waits.
func (w *shimWriter) put(f frame) {
	f.said = monotonic()
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.bodies) > shimBuffer || len(w.waiting) > shimBuffer/headSize {
		w.cond.Wait()
	}
	if w.join(f) {
		return
	}
	from := len(w.bodies)
	w.bodies = append(w.bodies, f.body...)
	f.body = w.bodies[from:]
	if w.waiting = append(w.waiting, f); len(w.waiting) == 1 {
		w.cond.Broadcast()
	}
}

// join extends the last waiting frame by one more line of its stream, if that came just after it.
// The caller holds mu.
func (w *shimWriter) join(f frame) bool {
	if len(w.waiting) == 0 || f.partial || f.kind != frameStdout && f.kind != frameStderr {
		return false
	}
	last := &w.waiting[len(w.waiting)-1]
	if last.kind != f.kind || last.partial || f.said-last.said > joinTime || len(last.body)+len(f.body) > joinBytes {
		return false
	}
	from := len(w.bodies) - len(last.body)
	w.bodies = append(append(w.bodies, '\n'), f.body...)
	last.body = w.bodies[from:]
	return true
}

// write writes waiting frames until the writer is closed.
func (w *shimWriter) write() {
	defer close(w.done)
	for {
		w.mu.Lock()
		for len(w.waiting) == 0 && !w.closed {
			w.cond.Wait()
		}
		frames, at := w.waiting, w.written
		over := len(frames) == 0
		w.waiting, w.bodies = nil, nil
		w.cond.Broadcast()
		w.mu.Unlock()
		if over {
			w.store(w.account(nil, at), at, shimReserve)
			return
		}
		batch := w.account(nil, at)
		for _, f := range frames {
			batch = appendFrame(batch, at+int64(len(batch)), f)
		}
		if why := w.store(batch, at, 0); why != "" {
			w.why = why
			w.mu.Lock()
			w.drops++
			w.mu.Unlock()
			for _, f := range frames {
				more := 0 // lines
				if f.kind == frameStdout || f.kind == frameStderr {
					more = bytes.Count(f.body, []byte{'\n'})
				}
				w.dropped += int64(1 + more)
				w.lost += int64(len(f.body) - more)
			}
		} else {
			w.dropped, w.lost = 0, 0
		}
	}
}

// account appends a frame that counts what was dropped, if anything was.
func (w *shimWriter) account(batch []byte, at int64) []byte {
	if w.dropped == 0 {
		return batch
	}
	return appendFrame(batch, at, frame{kind: frameDropped, said: monotonic(), body: []byte(droppedWords(int(w.dropped), w.lost, w.why))})
}

// store writes a batch when there is room for it. It returns why it did not, or "".
func (w *shimWriter) store(batch []byte, at, reserve int64) (why string) {
	if len(batch) == 0 {
		return ""
	}
	w.mu.Lock()
	for at+int64(len(batch))-w.told > w.ring.size-shimReserve+reserve && !w.hasty {
		w.cond.Wait()
	}
	full := at+int64(len(batch))-w.told > w.ring.size-shimReserve+reserve
	w.mu.Unlock()
	if full {
		return "no worker came to take them, and there was no more room"
	}
	if err := w.ring.writeAt(batch, at); err != nil {
		return "they could not be written down: " + err.Error()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = at + int64(len(batch))
	w.cond.Broadcast()
	return ""
}

// free declares that everything before a place is stored.
func (w *shimWriter) free(told int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told = max(w.told, min(told, w.written))
	w.cond.Broadcast()
}

// giveUp declares that no worker will make room.
func (w *shimWriter) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hasty = true
	w.cond.Broadcast()
}

func (w *shimWriter) wake() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cond.Broadcast()
}

// waitMore waits until the ring holds more than seen, or over returns true.
func (w *shimWriter) waitMore(seen int64, over func() bool) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.written == seen && !over() {
		w.cond.Wait()
	}
	return w.written
}

// close returns when everything waiting is written or dropped.
func (w *shimWriter) close() {
	w.mu.Lock()
	w.closed = true
	w.cond.Broadcast()
	w.mu.Unlock()
	<-w.done
}
