package jet

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Servers of a cluster that start together are waited for; what will not pass is told at once.
func TestOnceFormed(t *testing.T) {
	t.Parallel()
	alone, refused := &jetstream.APIError{ErrorCode: codeNoPeers}, &jetstream.APIError{ErrorCode: codeStorageLimit}
	for _, c := range []struct {
		name    string
		answers []error // the last one stays
		calls   int
		want    error
	}{
		{"it is there", []error{nil}, 1, nil},
		{"servers are missing at first", []error{alone, &jetstream.APIError{ErrorCode: codeNoLeader}, alone, nil}, 4, nil},
		{"there is no room", []error{alone, refused}, 2, refused},
		{"they stay away", []error{alone}, int(formTime / formLook), alone},
	} {
		synctest.Test(t, func(t *testing.T) {
			calls, began := 0, time.Now()
			err := onceFormed(t.Context(), func() error {
				calls++
				return c.answers[min(calls, len(c.answers))-1]
			})
			if !errors.Is(err, c.want) || calls < c.calls || calls > c.calls+1 || time.Since(began) > formTime {
				t.Errorf("%s: %v after %d calls and %v; want %v after %d", c.name, err, calls, time.Since(began), c.want, c.calls)
			}
		})
	}
}
