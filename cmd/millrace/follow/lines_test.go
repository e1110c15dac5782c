package follow

import (
	"bytes"
	"fmt"
	"testing"

	"millrace/task"
)

func TestLineWriter(t *testing.T) {
	var out, errs bytes.Buffer
	w := lineWriter{out: &out, errs: &errs}
	for _, l := range []task.Line{
		{Stream: task.Stdout, Text: "a long ", More: true},
		{Stream: task.Stderr, Text: "meanwhile"},
		{Stream: task.Stdout, Text: "line"},
		{Stream: task.Stderr, Text: "cut ", More: true},
		{Stream: task.System, Text: "stopped"},
		{Stream: task.Stdout, Text: ""},
	} {
		if complete, err := w.write(1, l); err != nil || complete == l.More {
			t.Errorf("write(%v): %v, %v", l, complete, err)
		}
	}
	if want := "a long line\n\n"; out.String() != want {
		t.Errorf("stdout is %q, want %q", out.String(), want)
	}
	if want := "meanwhile\ncut \nstopped\n"; errs.String() != want {
		t.Errorf("stderr is %q, want %q", errs.String(), want)
	}
}

func TestTail(t *testing.T) {
	for most, want := range map[int]string{0: "[]", 1: "[5]", 3: "[3 4 5]", 9: "[1 2 3 4 5]"} {
		var last tail
		for n := range 5 {
			last.add(outputLine{Line: task.Line{N: n + 1}}, most)
		}
		got := []int{}
		for _, l := range last.inOrder() {
			got = append(got, l.N)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("the last %d are %v, want %s", most, got, want)
		}
	}
}
