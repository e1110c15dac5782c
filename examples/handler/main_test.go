package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out, ""); err != nil {
		t.Fatal(err)
	}
	if want := "finished after attempt 1: {\"pixels\":307200}\n"; out.String() != want {
		t.Errorf("it printed %q, want %q", out.String(), want)
	}
}
