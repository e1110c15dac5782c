package worker

import (
	"encoding/json"
	"testing"
	"time"

	"millrace/task/output"
)

// When an attempt that outlives its worker has to stop, whichever is unconfirmed for longer.
func TestUntil(t *testing.T) {
	now := time.Now()
	s := safety{ackWait: 30 * time.Second, nodeTTL: 15 * time.Second}
	for name, c := range map[string]struct {
		safety      safety
		lease, beat time.Duration // since when it was confirmed
		want        time.Duration // from now
	}{
		"both just now":                   {s, 0, 0, 10 * time.Second},
		"an older lease":                  {s, 15 * time.Second, 0, 5 * time.Second},
		"an older beat":                   {s, 0, 8 * time.Second, 2 * time.Second},
		"over":                            {s, 0, 11 * time.Second, -time.Second},
		"outliving, both just now":        {s.outliving(), 0, 0, 20 * time.Second},
		"outliving, a beat that ran out":  {s.outliving(), 0, 15 * time.Second, 15 * time.Second},
		"outliving, an older lease":       {s.outliving(), 10 * time.Second, 0, 10 * time.Second},
		"outliving, nothing for too long": {s.outliving(), 21 * time.Second, 40 * time.Second, -10 * time.Second},
	} {
		if got := c.safety.until(now.Add(-c.lease), now.Add(-c.beat)).Sub(now); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		// One rule: it is when the watch of a living worker stops it.
		at := -c.want
		if c.safety.atStake(c.lease, c.beat) != (at >= 0) {
			t.Errorf("%s: at stake is %v", name, c.safety.atStake(c.lease, c.beat))
		}
	}
	// The attempt is gone before another worker can have started its task: before the lease
	// expires, and before the silent node has had its AckWait to come back.
	o := s.outliving()
	if last := 30*time.Second*2/3 + o.watchEvery() + o.grace(); last >= 30*time.Second {
		t.Errorf("gone %v after the lease was confirmed", last)
	}
	if last := o.nodeTTL*2/3 + o.watchEvery() + o.grace(); last >= 45*time.Second {
		t.Errorf("gone %v after the last heartbeat", last)
	}
}

func TestPlaceSkipsWhatIsStored(t *testing.T) {
	p := &place{upto: 100}
	for i, c := range []struct {
		at     int64
		stream string
		skips  bool
		upto   int64
	}{
		{90, output.Stdout, true, 100},
		{95, output.System, false, 100}, // Millrace's own remark is no part of it
		{100, output.Log, true, 100},
		{110, output.Stderr, false, 110},
		{115, output.Status, false, 110},
		{120, output.Stdout, false, 120},
	} {
		l := output.Line{Stream: c.stream}
		p.at = c.at
		if skips := p.skips(&l); skips != c.skips || p.upto != c.upto || !skips && l.Upto != c.upto {
			t.Errorf("%d: %v, line %+v, place %+v", i, skips, l, p)
		}
	}
	items := []json.RawMessage{json.RawMessage("0"), json.RawMessage("1"), json.RawMessage("2")}
	p = &place{next: 4, records: 6}
	for i, want := range []int{1, 3} {
		if rest := p.rest(items); len(rest) != want {
			t.Errorf("batch %d: %d are left, want %d", i, len(rest), want)
		}
	}
	var none *place
	if none.skips(&output.Line{}) || len(none.rest(items)) != 3 {
		t.Error("one that ends with its worker skips something")
	}
}
