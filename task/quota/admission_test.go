package quota

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
)

var bookNoon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// held returns a task that waits for the only place of its job.
func held(n uint64, name string) *task.Task {
	return &task.Task{ID: task.ID(fmt.Sprint("T", n)), State: task.Held, Reason: task.HoldLimit, Seq: n, SubmittedAt: bookNoon.Add(time.Duration(n)), Work: task.Work{
		Job: name, Spec: &job.Spec{Handler: "h", Concurrency: limit.Concurrencies{{Max: 1}}}, Route: placement.QueueRoute("q", 5), Holds: []string{task.HoldLimit},
	}}
}

func granted(parts []*Sent) string {
	var ids []string
	for _, p := range parts {
		for _, g := range p.Grants {
			ids = append(ids, string(g.Task))
		}
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

func here(limit.Scope) bool { return true }

func loaded(tasks ...*task.Task) *Book {
	b := NewBook()
	for _, t := range tasks {
		b.Defer(t.Seq, false, func() { b.Put(t, time.Time{}, Shift{}) })
	}
	b.Load(NewLimiter(), 0)
	return b
}

// A scope in which another scheduler goes first is left to it: nothing is decided there until it
// has admitted or is overdue.
func TestLeftToOthers(t *testing.T) {
	b := loaded(held(1, "a"), held(2, "b"))
	scope := held(1, "a")
	mine := func(of limit.Scope) bool { return !strings.Contains(string(of), "a") }
	parts, left, _ := b.Decide(bookNoon, 2, mine)
	if got := granted(parts); got != "T2" || len(left) != 1 || len(left[0]) != 1 {
		t.Fatalf("of %s it admits %q, and leaves %v", scope.ID, got, left)
	}
	if again, left, _ := b.Decide(bookNoon, 2, mine); len(again)+len(left) != 0 {
		t.Errorf("meanwhile it admits %q, and leaves %v", granted(again), left)
	}
	b.Overdue(left[0][0])
	if again, left, _ := b.Decide(bookNoon, 2, mine); granted(again) != "T1" || len(left) != 0 {
		t.Errorf("what is overdue it admits as %q, and leaves %v", granted(again), left)
	}
}

// A part on its way is decided once, again if it could not be recorded, and never by a forgotten
// limiter.
func TestOnItsWay(t *testing.T) {
	b := loaded(held(1, "a"), held(2, "a"))
	parts, _, _ := b.Decide(bookNoon, 2, here)
	if got := granted(parts); got != "T1" || parts[0].Known.Seen != 2 || !parts[0].At.Equal(bookNoon) {
		t.Fatalf("it admits %q, knowing %+v", got, parts[0].Known)
	}
	if again, _, _ := b.Decide(bookNoon, 2, here); len(again) != 0 {
		t.Errorf("while that is on its way it admits %q", granted(again))
	}
	b.Undo(parts[0])
	b.Settle(parts[0])
	parts, _, _ = b.Decide(bookNoon, 2, here)
	if got := granted(parts); got != "T1" {
		t.Fatalf("after that was in vain it admits %q", got)
	}
	b.Recorded(parts[0], 7)
	b.Settle(parts[0])
	if again, _, _ := b.Decide(bookNoon, 7, here); len(again) != 0 {
		t.Errorf("with its place taken it admits %q", granted(again))
	}
	b.Load(NewLimiter(), 7)
	if b.Holds(parts[0]) {
		t.Error("what was decided before the book was loaded anew holds")
	}
}

// Changes that came before the book was loaded count if they are newer than the load. Changes of
// queues always count.
func TestEarly(t *testing.T) {
	b := NewBook()
	var applied []uint64
	tell := func(seq uint64, ofQueue bool) {
		b.Defer(seq, ofQueue, func() { applied = append(applied, seq) })
	}
	tell(1, false)
	b.Await()
	tell(2, false)
	tell(3, true)
	tell(6, false)
	b.Load(NewLimiter(), 5)
	if !slices.Equal(applied, []uint64{3, 6}) || !b.Loaded() || b.Reflects() != 5 {
		t.Errorf("loaded up to %d it takes over %v", b.Reflects(), applied)
	}
}

func TestBundled(t *testing.T) {
	for _, c := range []struct {
		grants []int
		want   string
	}{
		{nil, ""},
		{[]int{1}, "1"},
		{[]int{1, 2, 3}, "1+2+3"},
		{[]int{1, 20, 2}, "20 1+2"},
		{[]int{10, 6, 1}, "10+6 1"},
		{[]int{16, 0, 15}, "16 0+15"},
	} {
		var parts []*Sent
		for _, n := range c.grants {
			parts = append(parts, &Sent{Decision: Decision{Grants: make([]task.Grant, n)}})
		}
		var all []string
		for _, bundle := range Bundled(parts) {
			var sizes []string
			for _, p := range bundle {
				sizes = append(sizes, fmt.Sprint(len(p.Grants)))
			}
			all = append(all, strings.Join(sizes, "+"))
		}
		if got := strings.Join(all, " "); got != c.want {
			t.Errorf("parts of %v are bundled as %q, want %q", c.grants, got, c.want)
		}
	}
}
