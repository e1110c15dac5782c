package millracetest

import (
	"reflect"
	"testing"
	"testing/synctest"
)

// CrashEverywhere plays a test again and again, and loses the node at another moment each time: before and after each
// thing that a worker stores about a task, such as its start, a checkpoint or its end. What play returns must always
// be the same as without a crash: results, what lies in a database, how often a customer was charged. The test fails at
// the first difference, and says where.
//
// Each run has a world of its own, so play makes all that it uses. The lost node's tasks start again elsewhere, so what
// a function does before the moment it does again.
func CrashEverywhere[T any](t *testing.T, play func(t *testing.T, w *World) T) {
	t.Helper()
	run := func(at crash) (is T, crashed crash) {
		synctest.Test(t, func(t *testing.T) {
			w := New(t)
			w.house.crash = at
			is = play(t, w)
			w.house.aside.Lock()
			defer w.house.aside.Unlock()
			crashed = w.house.crash
		})
		return is, crashed
	}
	want, all := run(crash{})
	for n := 1; n <= all.seen && !t.Failed(); n++ {
		for _, after := range []bool{false, true} {
			is, at := run(crash{at: n, after: after})
			if !reflect.DeepEqual(is, want) {
				t.Errorf("millracetest: with the node lost %s what it stores as number %d (%s) the outcome is\n%+v\nwithout that it is\n%+v",
					map[bool]string{false: "before", true: "after"}[after], n, at.what, is, want)
				break
			}
		}
	}
}
