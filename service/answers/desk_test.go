package answers

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestAdmits(t *testing.T) {
	for _, c := range []struct {
		what                  string
		taken, mine, n, limit int
		want                  bool
	}{
		{"the first", 0, 0, 1, 64, true},
		{"one alone, up to half", 31, 31, 1, 64, true},
		{"one alone, no more than half", 32, 32, 1, 64, false},
		{"another one beside him", 32, 0, 1, 64, true},
		{"up to a quarter", 47, 15, 1, 64, true},
		{"no more than a quarter", 48, 16, 1, 64, false},
		{"the last place", 63, 0, 1, 64, true},
		{"none is left", 64, 0, 1, 64, false},
		{"much at once, if there is room", 0, 0, 32, 64, true},
		{"too much at once", 0, 0, 33, 64, false},
		{"a quarter of what is left", 40, 0, 16, 64, true},
	} {
		if got := admits(c.taken, c.mine, c.n, c.limit); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// Waiting requests do not delay requests for what is there, and no connection takes all the places.
func TestDesk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk(&Service{})
		var working sync.WaitGroup
		over := make(chan struct{})
		refused := make(chan error, 1000)
		wait := func(caller string, size int) {
			s := &seat{desk: d, caller: caller, size: size}
			if err := d.enter(s); err != nil {
				refused <- err
				return
			}
			working.Go(func() {
				defer d.leave(s)
				err := waits(context.WithValue(t.Context(), seatKey{}, s), func(context.Context) error { <-over; return nil })
				if err != nil {
					refused <- err
				}
			})
			synctest.Wait()
		}
		for range 300 {
			wait("greedy", 10)
		}
		if n := len(refused); n != 300-idle/2 {
			t.Errorf("%d of 300 were refused, want %d: one connection has half of the places at most", n, 300-idle/2)
		}
		if err := <-refused; codeOf(err) != "503" {
			t.Error(err)
		}
		before := len(refused)
		for range idle / 4 {
			wait("other", 10)
		}
		if n := len(refused); n != before {
			t.Error("another connection may not wait")
		}
		quick := &seat{desk: d, caller: "third", size: 10}
		if err := d.enter(quick); err != nil {
			t.Errorf("one that waits for nothing: %v", err)
		} else {
			d.leave(quick)
		}
		close(over) // all come back, more than there are places
		working.Wait()
		if d.answered.taken != 0 || d.waiting.taken != 0 || d.bytes.taken != 0 || len(d.bytes.by) != 0 {
			t.Errorf("places are left: %+v", d)
		}

		large := &seat{desk: d, caller: "large", size: patientRequest + 1}
		if err := d.enter(large); err != nil {
			t.Fatal(err)
		}
		err := waits(context.WithValue(t.Context(), seatKey{}, large), func(context.Context) error { return nil })
		if !errors.As(err, new(badRequest)) {
			t.Errorf("a large one waits: %v", err)
		}
		d.leave(large)
		n := 0
		for d.enter(&seat{desk: d, caller: "large", size: LargestRequest}) == nil {
			n++
		}
		if n != requestBytes/LargestRequest/2 {
			t.Errorf("one caller had %d of the largest requests answered at once", n)
		}
		if err := d.enter(&seat{desk: d, caller: "other", size: LargestRequest}); err != nil {
			t.Errorf("and nobody else: %v", err)
		}
	})
}

// One caller's pages wait for each other, and not for long; those of another one are drawn beside them.
func TestDraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := NewDesk(&Service{})
		d.drawn.limit = 8
		var drawing sync.WaitGroup
		over := make(chan struct{})
		drawn := make(chan error, 100)
		page := func(ctx context.Context, caller string) {
			drawing.Go(func() { drawn <- d.Draw(ctx, caller, func() error { <-over; return nil }) })
			synctest.Wait()
		}
		for range 6 {
			page(t.Context(), "greedy")
		}
		for range 2 {
			page(t.Context(), "other")
		}
		if d.drawn.by["greedy"] != 4 || d.drawn.by["other"] != 2 || d.waiting.by["greedy"] != 2 {
			t.Errorf("drawn are %v, and %v wait", d.drawn.by, d.waiting.by)
		}
		gone, leave := context.WithCancel(t.Context())
		page(gone, "greedy")
		leave()
		if err := <-drawn; !errors.Is(err, context.Canceled) {
			t.Errorf("who has hung up waits on: %v", err)
		}
		time.Sleep(heldFor)
		synctest.Wait()
		for range 2 {
			if err := <-drawn; codeOf(err) != "503" {
				t.Errorf("they wait for longer than a second: %v", err)
			}
		}
		page(t.Context(), "greedy") // waits, and is drawn when the others are
		close(over)
		drawing.Wait()
		for range 7 {
			if err := <-drawn; err != nil {
				t.Error(err)
			}
		}
		if d.drawn.taken != 0 || d.waiting.taken != 0 {
			t.Errorf("places are left: %+v, %+v", d.drawn.by, d.waiting.by)
		}
	})
}

// A caller is given one answer at a time that takes the processors; others are given theirs meanwhile.
func TestAlone(t *testing.T) {
	d := NewDesk(&Service{})
	refused := errors.New("computed")
	err := d.alone(t.Context(), "viewer", func() error {
		if err := d.alone(t.Context(), "viewer", func() error { return nil }); !as[busy](err) {
			t.Errorf("a second answer for the same caller: %v", err)
		}
		return d.alone(t.Context(), "other", func() error { return refused })
	})
	if !errors.Is(err, refused) {
		t.Errorf("the answer of another caller: %v", err)
	}
	if err := d.alone(t.Context(), "viewer", func() error { return nil }); err != nil {
		t.Errorf("after the answer: %v", err)
	}
}

// A text that any viewer may have checked has bounds.
func TestTextsToCheck(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "there is none",
		"name: a\nrun: b\n":            "",
		strings.Repeat("#", maxText+1): "want at most 65536",
		"name: a\nrun: b\n" + strings.Repeat("---\n", maxDocuments): "want at most 100",
	} {
		err := (&textRequest{Text: text}).check()
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q is refused with %v, want %q", text, err, want)
		}
	}
}
