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

// A message of a graph names the failed task by its path, and says once what it said.
func TestFlat(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"main exited with code 2": "main exited with code 2",
		"transform failed (error/exit: main exited with code 2: panic: x); 2 of 2 have ended: 1 finished, 1 error":                                                                             "transform failed: main exited with code 2: panic: x",
		"t failed (error/exit: no :)); 1 of 1 have ended: 1 error":                                                                                                                             "t failed: no :)",
		"t failed (abnormal/lost); 1 of 1 have ended: 1 abnormal":                                                                                                                              "t failed (abnormal/lost)",
		"transform failed (error/task: 5 failed (error/exit: main exited with code 2: panic: x); 6 of 6 have ended: 5 finished, 1 error); 11 of 11 have ended: 10 finished, 1 error":           "transform/5 failed: main exited with code 2: panic: x",
		"etl failed (error/task: load failed (error/task: eu failed (error/exit: no), us failed (error); 2 of 2 have ended: 2 error); 1 of 1 have ended: 1 error); 1 of 1 have ended: 1 error": "etl/load/eu failed (error/exit: no), us failed (error)",
		"a failed (error/task: b failed (error/task: it said so)); 1 of 1 have ended: 1 error":                                                                                                 "a/b failed: it said so",
		"the mount failed (error: 5); 3 of 4 have ended":                                                                                                                                       "the mount failed (error: 5)",
		"the parser failed (error/task: no": "the parser failed (error/task: no", "": "",
	} {
		if got := view.Flat(message); got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
}
