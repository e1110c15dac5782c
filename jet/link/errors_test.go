package link

import (
	"errors"
	"fmt"
	"testing"

	"millrace/events"
)

// What the server answers has the log's own words where there are some, and what passes by itself is asked for again.
func TestWordsForTheServersCodes(t *testing.T) {
	for _, c := range []struct {
		code   int
		is     error // nil for none
		passes bool
	}{
		{codeWrongSequence, events.ErrConflict, false},
		{CodeWriteInFlight, events.ErrConflict, false},
		{CodeNoSuchStream, events.ErrNoStream, true}, // a new leader of a cluster says that of any stream
		{CodeNoLeader, nil, true},
		{CodeNoMessage, nil, false},
		{CodeStoreFailed, nil, false},
	} {
		err := fmt.Errorf("heartbeat of n1: %w", &ServerError{ErrCode: c.code})
		for _, word := range []error{events.ErrConflict, events.ErrNoStream, events.ErrUnknown} {
			if is, want := errors.Is(err, word), errors.Is(c.is, word); is != want {
				t.Errorf("%d is %v: %v, want %v", c.code, word, is, want)
			}
		}
		if Passes(err) != c.passes {
			t.Errorf("%d passes by itself: %v, want %v", c.code, Passes(err), c.passes)
		}
	}
}
