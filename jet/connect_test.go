package jet

import (
	"testing"
	"time"
)

// A client waits at least half and at most all of a delay that doubles from 0.1 s to 1 s.
func TestReconnectDelay(t *testing.T) {
	for attempts, most := range []time.Duration{
		100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, time.Second, time.Second, time.Second,
	} {
		low, high := most, time.Duration(0)
		for range 200 {
			d := reconnectDelay(attempts)
			low, high = min(low, d), max(high, d)
		}
		if low < most/2 || high >= most || high-low < most/8 {
			t.Errorf("after %d attempts: %v to %v, want from %v to less than %v, spread by chance", attempts, low, high, most/2, most)
		}
	}
}
