package request

import (
	"errors"
	"fmt"
	"testing"

	"millrace/events"
)

// The server's errors match the log's own errors where there are some, and requests are repeated
// after errors that pass by themselves.
func TestWordsForTheServersCodes(t *testing.T) {
	for _, c := range []struct {
		code   int
		is     error // nil for none
		passes bool
	}{
		{codeWrongSequence, events.ErrConflict, false},
		{CodeWriteInFlight, events.ErrConflict, false},
		// A new leader of a cluster says that of any stream.
		{CodeNoSuchStream, events.ErrNoStream, true},
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
