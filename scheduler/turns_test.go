package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// All schedulers compute the same order, each goes first with its share, and the share of one that
// leaves is spread over the rest.
func TestPlaces(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	order := func(names []string, key string) []string {
		at := make([]string, len(names))
		for i, name := range names {
			others := slices.Delete(slices.Clone(names), i, i+1)
			at[place(name, slices.Values(others), key)] = name
		}
		return at
	}
	const keys = 4000
	firsts, seconds := map[string]int{}, map[string]int{}
	for n := range keys {
		key := fmt.Sprintf("01JNA%021d", n)
		all := order(names, key)
		if slices.Contains(all, "") {
			t.Fatalf("two have the same place: %q", all)
		}
		firsts[all[0]]++
		if all[0] == "a" {
			seconds[all[1]]++
		}
		if without := order(names[1:], key); !slices.Equal(without, slices.DeleteFunc(all, func(name string) bool { return name == "a" })) {
			t.Fatalf("without the first of %q the order is %q", all, without)
		}
	}
	for _, name := range names {
		if n := firsts[name]; n < keys/5 || n > keys*3/10 {
			t.Errorf("%s goes first %d times of %d", name, n, keys)
		}
		if n := seconds[name]; name != "a" && (n < firsts["a"]/4 || n > firsts["a"]*5/12) {
			t.Errorf("%s goes second to a %d times of %d", name, n, firsts["a"])
		}
	}
}

// A subject left to another scheduler falls to this one after a while, unless it is done by then.
func TestLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := NewPrecedence("one")
		l := one.Left()
		if !l.Mine("x") || l.some.Load() || l.Again(nil) != nil {
			t.Error("one that is alone waits for somebody")
		}
		one.Join(true)
		one.Hear("two", true)
		one.Hear("one", true)
		keys := map[bool][]string{}
		for n := range 100 {
			key := fmt.Sprint(n)
			keys[one.First(key)] = append(keys[one.First(key)], key)
		}
		mine, others := keys[true][0], keys[false]
		if !l.Mine(mine) || l.Mine(others[0]) || l.Mine(others[1]) || l.Mine(others[2]) {
			t.Error("it does not leave what goes to another one first")
		}
		<-l.wake
		l.Drop(others[1])
		time.Sleep(Patience / 2)
		one.Hear("two", true)
		if l.Mine(others[0]) || len(l.Late()) > 0 {
			t.Error("it waits for less than it should")
		}
		time.Sleep(Patience / 2)
		if got := l.Late(); !slices.Equal(got, slices.Sorted(slices.Values([]string{others[0], others[2]}))) {
			t.Errorf("late are %q", got)
		}
		if !l.Mine(others[0]) || l.Mine(others[1]) {
			t.Error("what is late is not its own, or what is done is")
		}
		time.Sleep(Patience)
		if !l.Mine(others[1]) || !l.Mine(others[2]) || l.some.Load() || !one.alone.Load() {
			t.Error("it waits for one that is gone")
		}
	})
}

// A scheduler that has not announced itself goes last: no other waits for it. Many dead ones do not
// delay work for long.
func TestWhoGoesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := NewPrecedence("one")
		one.Hear("two", true)
		if one.First("x") || one.First("y") || one.First("z") {
			t.Error("it goes first, and the others do not know of it")
		}
		one.Join(true)
		for n := range 10 {
			one.Hear(fmt.Sprint(n), true)
		}
		for n := range 100 {
			if w := one.Wait(fmt.Sprint(n)); w > GoesLast*Patience {
				t.Fatalf("it waits for %v", w)
			}
		}
		for n := range 10 {
			one.Hear(fmt.Sprint(n), false)
		}
		one.Hear("two", false)
		if !one.First("x") {
			t.Error("it waits although it is alone")
		}
	})
}

func TestOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewPrecedence("b")
		for _, name := range []string{"a", "b", "c", "d"} {
			turns.Hear(name, true)
		}
		turns.Hear("d", false)
		if others := slices.Sorted(slices.Values(turns.Others())); !slices.Equal(others, []string{"a", "c"}) {
			t.Errorf("there are %s, want a and c", others)
		}
		time.Sleep(goneAfter + 1)
		if others := turns.Others(); len(others) > 0 {
			t.Errorf("%s are there, and silent", others)
		}
	})
}
