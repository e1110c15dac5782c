package view_test

import (
	"testing"

	"millrace/projections/view"
)

func TestAlike(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"exit code 1", "exit code 2", true}, // the code of the end tells those apart
		{"order 4711 has no lines", "order 4712 has no lines", true},
		{"at 0x7ffe12: nil", "at 0xC0ffee: nil", true},
		{"task 01ARZ3NDEKTSV4RRFFQ69G5FAV is gone", "task 01BX5ZZKBKACTAV9WEVGEMMVRZ is gone", true},
		{"run 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "run 6ba7b811-9dad-11d1-80b4-00c04fd430c9", true},
		{"2026-11-28T00:27:22Z: late", "2026-11-29T10:00:00Z: late", true},
		{"a\n b", "a b", true},
		{"no such host db", "no such host cache", false},
		{"disk full", "", false},
	} {
		if got := view.Alike(c.a) == view.Alike(c.b); got != c.same {
			t.Errorf("%q and %q: one cause is %v, want %v (%q, %q)", c.a, c.b, got, c.same, view.Alike(c.a), view.Alike(c.b))
		}
	}
}
