package value

import (
	"errors"
	"testing"
	"time"
)

// An author that names a revision changes only that one. An author that names none changes any.
func TestUnseen(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		seen []uint64
		is   Overtaken
		want string
	}{
		{nil, Overtaken{Is: 3}, ""},
		{[]uint64{3}, Overtaken{Is: 3}, ""},
		{[]uint64{0}, Overtaken{}, ""},
		{[]uint64{2}, Overtaken{Is: 3, By: "bob", At: at}, "it has changed since it was looked at: you have seen revision 2, and it is at revision 3 by bob since " + at.Format(time.RFC3339)},
		{[]uint64{2}, Overtaken{}, "it has changed since it was looked at: you have seen revision 2, and there is none now"},
		{[]uint64{0}, Overtaken{Is: 1}, "it has changed since it was looked at: you have seen none, and it is at revision 1"},
	} {
		err := Unseen(c.seen, c.is)
		if (err != nil) != (c.want != "") || err != nil && (err.Error() != c.want || !errors.Is(err, ErrOvertaken)) {
			t.Errorf("%v of %+v: %v, want %q", c.seen, c.is, err, c.want)
		}
	}
}
