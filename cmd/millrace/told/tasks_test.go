package told

import "testing"

// A message of a graph names the failed task by its path, and says once what it said.
func TestFlat(t *testing.T) {
	for message, want := range map[string]string{
		"main exited with code 2": "main exited with code 2",
		"transform failed (error/exit: main exited with code 2: panic: x); 2 of 2 have ended: 1 finished, 1 error":                                                                             "transform failed (error/exit: main exited with code 2: panic: x); 2 of 2 have ended: 1 finished, 1 error",
		"transform failed (error/task: 5 failed (error/exit: main exited with code 2: panic: x); 6 of 6 have ended: 5 finished, 1 error); 11 of 11 have ended: 10 finished, 1 error":           "transform/5 failed (error/exit: main exited with code 2: panic: x)",
		"etl failed (error/task: load failed (error/task: eu failed (error/exit: no), us failed (error); 2 of 2 have ended: 2 error); 1 of 1 have ended: 1 error); 1 of 1 have ended: 1 error": "etl/load/eu failed (error/exit: no), us failed (error)",
		"a failed (error/task: b failed (error/task: it said so)); 1 of 1 have ended: 1 error":                                                                                                 "a/b failed (error/task: it said so)",
		"the parser failed (error/task: no": "the parser failed (error/task: no", "": "",
	} {
		if got := Flat(message); got != want {
			t.Errorf("%q becomes %q, want %q", message, got, want)
		}
	}
}
