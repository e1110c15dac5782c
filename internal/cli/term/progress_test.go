package term

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/task"
)

// The progress line stays in sight: it is drawn again behind each line, and soon after a burst of
// lines.
func TestProgressStays(t *testing.T) {
	var screen bytes.Buffer
	p := &Progress{w: &screen, columns: 80, done: make(chan struct{})}
	inSight := func() bool { return strings.HasSuffix(screen.String(), "running on vm · 0s\x1b[0m") }
	p.Say("running on vm", task.Task{State: task.Running, Since: time.Now()})
	p.drew = time.Now().Add(-redrawEvery)
	line := func(complete bool) {
		if err := p.Around(func() (bool, error) { fmt.Fprint(&screen, "line\n"); return complete, nil }); err != nil {
			t.Fatal(err)
		}
	}
	if line(true); !inSight() {
		t.Errorf("after a line there is %q", screen.String())
	}
	for range 100 {
		line(true)
	}
	if n := strings.Count(screen.String(), "running on vm"); n > 50 {
		t.Errorf("it flickers: drawn %d times for 101 lines", n)
	}
	p.drew = time.Now().Add(-redrawEvery)
	if line(false); inSight() {
		t.Error("it stands behind a line that goes on")
	}
	line(true)
	if p.redraw(); !inSight() {
		t.Errorf("after a burst there is %q", screen.String())
	}
	before := screen.Len()
	if p.redraw(); screen.Len() != before {
		t.Error("it is drawn again though nothing has changed")
	}
}
