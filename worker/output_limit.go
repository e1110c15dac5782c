package worker

import (
	"fmt"

	"millrace/task"
)

// cut counts what is dropped because an attempt has said more than
// resources.output allows.
type cut struct{ lines, bytes int64 }

// full tells whether a line is to be dropped, and counts it. mu is held.
// What Millrace says, and what says how the attempt stands, is always kept.
func (o *Output) full(l *task.Line, text int) bool {
	if o.most == 0 || l.Stream == task.System || l.Stream == task.Status {
		return false
	}
	size := int64(text+len(l.Fields)) + 1
	if o.taken+size <= o.most && o.cut == (cut{}) {
		o.taken += size
		return false
	}
	o.cut.lines++
	o.cut.bytes += size
	return true
}

// sayCut leaves a line that says how much was dropped.
func (o *Output) sayCut() {
	o.mu.Lock()
	c := o.cut
	o.mu.Unlock()
	if c != (cut{}) {
		o.Line(task.System, fmt.Sprintf("%d lines (%d bytes) were dropped here: resources.output is %v", c.lines, c.bytes, task.Size(o.most)))
	}
}
