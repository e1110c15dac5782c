package task

import (
	"bytes"
	"fmt"
	"testing"

	"millrace/task/output"
)

func TestLineWriter(t *testing.T) {
	var out, errs bytes.Buffer
	w := lineWriter{out: &out, errs: &errs}
	for _, l := range []output.Line{
		{Stream: output.Stdout, Text: "a long ", More: true},
		{Stream: output.Stderr, Text: "meanwhile"},
		{Stream: output.Stdout, Text: "line"},
		{Stream: output.Stderr, Text: "cut ", More: true},
		{Stream: output.System, Text: "stopped"},
		{Stream: output.Stdout, Text: ""},
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

// TestBriefLines: a terminal shows what is behind the last CR, and files and pipes get all of it.
func TestBriefLines(t *testing.T) {
	var out, errs bytes.Buffer
	w := lineWriter{out: &out, errs: &errs, errsBrief: true}
	for _, to := range []string{output.Stdout, output.Stderr} {
		for _, l := range []output.Line{{Text: "\r1%\r2%\rdisk full"}, {Text: "windows\r"}, {Text: "\r1%\r2%", More: true}, {Text: "\r3%\r4"}, {Text: "a ", More: true}, {Text: "line\r"}} {
			l.Stream = to
			if _, err := w.write(1, l); err != nil {
				t.Error(err)
			}
		}
	}
	if want := "\r1%\r2%\rdisk full\nwindows\r\n\r1%\r2%\r3%\r4\na line\r\n"; out.String() != want {
		t.Errorf("a file gets %q, want %q", out.String(), want)
	}
	if want := "disk full\nwindows\n2%\n4\na line\n"; errs.String() != want {
		t.Errorf("a terminal gets %q, want %q", errs.String(), want)
	}
}

func TestTail(t *testing.T) {
	for most, want := range map[int]string{0: "[]", 1: "[5]", 3: "[3 4 5]", 9: "[1 2 3 4 5]"} {
		var last tail
		for n := range 5 {
			last.add(outputLine{Line: output.Line{N: n + 1}}, most)
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
