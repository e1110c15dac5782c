package connect

import (
	"bytes"
	"io"
	"testing"
)

// A part of a command that prints elsewhere leaves the output of the rest in its place.
func TestPrintingElsewhere(t *testing.T) {
	var here, elsewhere bytes.Buffer
	a := New(nil, &here, io.Discard, nil)
	if err := a.Printing(&elsewhere, io.Discard).WriteLine(1); err != nil {
		t.Fatal(err)
	}
	if err := a.WriteLine(2); err != nil {
		t.Fatal(err)
	}
	if here.String() != "2\n" || elsewhere.String() != "1\n" {
		t.Errorf("here stands %q and elsewhere %q, want 2 and 1", here.String(), elsewhere.String())
	}
}
