package worker

import (
	"encoding/json"
	"fmt"

	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// NoBound is a bound of [Config] without one.
const NoBound = -1

// boundOf is how many bytes of output an attempt may have whose job says job (0 for nothing) on a node
// that says node: neither goes beyond the other. It is 0 if there is no bound.
func boundOf(job, node int64) int64 {
	switch {
	case node <= 0:
		return max(job, 0)
	case job <= 0:
		return node
	}
	return min(job, node)
}

// allowed is how much of what an attempt prints is kept: the first of it, as it comes, and the last,
// which is known at the end. For how it began and how it ended is what people look for.
type allowed struct {
	// most is how many bytes all that is kept may have; 0 for no bound.
	most int64
	// why says whose bound that is.
	why string
}

// allows is how much of what an attempt of a task prints is kept.
func (w *Worker) allows(t *task.Task) allowed {
	job := int64(t.Spec.Resources.Output)
	a := allowed{most: boundOf(job, w.cfg.Output), why: "resources.output"}
	if a.most != job {
		a.why = "the worker's task_output"
	}
	return a
}

// Bounds of the end that is kept, which lies in the memory of the worker until then.
const (
	maxTailBytes = 256 << 10
	maxTailLines = 2000
)

// head is how many bytes are kept as they come.
func (a allowed) head() int64 { return a.most - a.tail() }

// tail is how many bytes are kept of the end.
func (a allowed) tail() int64 { return min(a.most/4, maxTailBytes) }

// cut counts what is dropped because an attempt has said more than it may.
type cut struct{ lines, bytes int64 }

// tail holds the last lines of those that came when the head was full.
type tail struct {
	lines []output.Line // from first on, and then from the beginning
	first int
	bytes int64
}

// add adds a line, and counts what has to go for it in a total of most bytes.
func (t *tail) add(l output.Line, most int64) (gone cut) {
	size := lineBytes(&l)
	for len(t.lines) > t.first && (t.bytes+size > most || len(t.lines)-t.first >= maxTailLines) {
		old := lineBytes(&t.lines[t.first])
		t.lines[t.first] = output.Line{}
		t.first++
		t.bytes -= old
		gone.lines++
		gone.bytes += old
	}
	if t.first > maxTailLines { // so that what is gone takes no room
		t.lines, t.first = append(t.lines[:0], t.lines[t.first:]...), 0
	}
	if size > most {
		gone.lines++
		gone.bytes += size
		return gone
	}
	t.lines = append(t.lines, l)
	t.bytes += size
	return gone
}

// left is what is there, in order.
func (t *tail) left() []output.Line { return t.lines[t.first:] }

// lineBytes is what a line counts: its text, its fields and its end.
func lineBytes(l *output.Line) int64 { return int64(len(l.Text)+len(l.Fields)) + 1 }

// full tells whether a line comes when the head is full, and keeps or counts it then; said is whether
// it is the first for which something has to go. mu is held.
// What Millrace says, and what says how the attempt stands, is always kept.
func (o *Output) full(l *output.Line, text []byte) (held, said bool) {
	if o.allowed.most == 0 || l.Stream == output.System || l.Stream == output.Status {
		return false, false
	}
	size := int64(len(l.Text)+len(text)+len(l.Fields)) + 1
	if o.cut == (cut{}) && len(o.tail.left()) == 0 && o.taken+size <= o.allowed.head() {
		o.taken += size
		return false, false
	}
	line := *l
	if text != nil {
		line.Text = string(text)
	}
	if line.At.IsZero() {
		line.At = o.worker.cfg.Now()
	}
	first := o.cut == (cut{})
	gone := o.tail.add(line, o.allowed.tail())
	o.cut.lines += gone.lines
	o.cut.bytes += gone.bytes
	return true, first && gone != (cut{})
}

// beyond says at once that something is dropped, for those who watch.
func (o *Output) beyond(upto int64) output.Line {
	return output.Line{Stream: output.System, Upto: upto, Text: fmt.Sprintf("%s of %v is reached: what follows is dropped, but for the last lines", o.allowed.why, value.Size(o.allowed.most))}
}

// sayTail leaves the last lines, and before them one that says how much is missing.
func (o *Output) sayTail() {
	o.mu.Lock()
	c, last := o.cut, o.tail.left()
	o.tail = tail{}
	o.mu.Unlock()
	if c != (cut{}) {
		o.Line(output.System, fmt.Sprintf("%d lines (%d bytes) were dropped here: %s is %v", c.lines, c.bytes, o.allowed.why, value.Size(o.allowed.most)))
	}
	for _, l := range last {
		o.mu.Lock()
		o.put(l, nil)
	}
}

// recordsFit counts items, or says that an attempt has produced more than it may: it fails then, for
// half of a result is none. mu is held.
func (o *Output) recordsFit(items []json.RawMessage) error {
	size := int64(0)
	for _, item := range items {
		size += int64(len(item))
	}
	if most := o.worker.cfg.Records; most > 0 && o.records+size > most {
		if o.err == nil {
			o.err = fmt.Errorf("the records of this attempt are more than %v: the worker's task_records allows no more", value.Size(most))
		}
		return o.err
	}
	o.records += size
	return nil
}
