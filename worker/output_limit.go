package worker

import (
	"encoding/json"
	"fmt"

	"millrace/task"
	"millrace/task/output"
	"millrace/task/value"
)

// NoBound in a field of [Config] means: no bound.
const NoBound = -1

// boundOf returns how many bytes of output an attempt may have, given the bounds of its job (0 for
// none) and of its node: the smaller one counts. It is 0 if there is no bound.
func boundOf(job, node int64) int64 {
	switch {
	case node <= 0:
		return max(job, 0)
	case job <= 0:
		return node
	}
	return min(job, node)
}

// allowed is how much of an attempt's output is kept: the beginning as it comes, and the last
// lines, which are known only at the end. People look for how an attempt began and how it ended.
type allowed struct {
	// most is how many bytes are kept in all; 0 for no bound.
	most int64
	// why names the setting that set the bound.
	why string
}

// allows returns how much of the output of an attempt of a task is kept.
func (w *Worker) allows(t *task.Task) allowed {
	job := int64(t.Spec.Resources.Output)
	a := allowed{most: boundOf(job, w.cfg.Output), why: "resources.output"}
	if a.most != job {
		a.why = "the worker's task_output"
	}
	return a
}

// Bounds of the kept tail, which stays in the worker's memory until the attempt ends.
const (
	maxTailBytes = 256 << 10
	maxTailLines = 2000
)

// head is how many bytes are kept as they come.
func (a allowed) head() int64 { return a.most - a.tail() }

// tail is how many bytes are kept of the end.
func (a allowed) tail() int64 { return min(a.most/4, maxTailBytes) }

// cut counts what is dropped because an attempt printed more than it may.
type cut struct{ lines, bytes int64 }

// tail holds the last lines that came after the head was full.
type tail struct {
	lines []output.Line // from first on; what lies before is gone
	first int
	bytes int64
}

// add adds a line, and counts the lines that must go to stay within most bytes in total.
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
	if t.first > maxTailLines { // so that dropped lines take no room
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

// left returns the kept lines, in order.
func (t *tail) left() []output.Line { return t.lines[t.first:] }

// lineBytes is the size of a line: its text, its fields and its end.
func lineBytes(l *output.Line) int64 { return int64(len(l.Text)+len(l.Fields)) + 1 }

// full tells whether the head is full when a line comes, and then keeps the line in the tail or
// counts it. said tells whether it is the first line for which something must go. Lines by
// Millrace, and lines about progress, are always kept. The caller holds mu.
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

// beyond tells readers that follow the output at once that lines are dropped.
func (o *Output) beyond(upto int64) output.Line {
	return output.Line{
		Stream: output.System,
		Upto:   upto,
		Text:   fmt.Sprintf("%s of %v is reached: what follows is dropped, but for the last lines", o.allowed.why, value.Size(o.allowed.most)),
	}
}

// sayTail stores the kept last lines, and before them a line that says how much is missing.
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

// recordsFit counts items, or returns an error if the attempt has produced more than it may: the
// attempt then fails, for half a result is no result. The caller holds mu.
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
