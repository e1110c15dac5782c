package settings

import (
	"strings"
	"testing"
)

func TestWrapped(t *testing.T) {
	text := "One line of some words.\nShort.\n\n  a table of more columns than fit\n\nEnd."
	if got, want := Wrapped(text, 10), "One line\nof some\nwords.\nShort.\n\n  a table of more columns than fit\n\nEnd."; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, width := range []int{0, 80} {
		if got := Wrapped(text, width); got != text {
			t.Errorf("at %d columns: %q", width, got)
		}
	}
	if got := Wrapped("a "+strings.Repeat("x", 20), 10); got != "a\n"+strings.Repeat("x", 20) {
		t.Errorf("a long word: %q", got)
	}
}
