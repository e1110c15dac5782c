package wording

import (
	"math"
	"strings"
	"testing"
	"time"
)

var midday = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0ms", time.Microsecond: "0.1ms", 2340 * time.Microsecond: "2.3ms", 340 * time.Millisecond: "340ms", 1234 * time.Millisecond: "1.23s",
		12345 * time.Millisecond: "12.3s", 245 * time.Second: "4m05s", 3*time.Hour + 12*time.Minute: "3h12m", 127 * time.Hour: "5d07h", -time.Second: "-1s",
		math.MaxInt64: "292y", math.MinInt64: "-292y",
	} {
		if got := Span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for at, want := range map[time.Time]string{
		{}: "", midday: "0s", midday.Add(-59 * time.Second): "59s", midday.Add(-90 * time.Minute): "1h", midday.Add(-47 * time.Hour): "47h", midday.AddDate(0, 0, -3): "3d",
		midday.Add(time.Minute): "in 1m00s", midday.AddDate(90, 0, 0): "in 32872d00h", midday.AddDate(7000, 0, 0): "in 7000y",
	} {
		if got := Age(at, midday); got != want {
			t.Errorf("age(%v) = %q, want %q", at, got, want)
		}
	}
}

func TestMomentsFarAway(t *testing.T) {
	for at, want := range map[time.Time]string{
		midday.AddDate(7000, 0, 0): "(in 7000y)", midday.AddDate(-1000, 0, 0): "(1000y ago)", midday.Add(time.Hour): "(in 1h00m)",
	} {
		if got := Moment(at, midday); !strings.HasSuffix(got, want) {
			t.Errorf("moment(%v) = %q, want %q", at, got, want)
		}
	}
}

func TestByteCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 5 << 20: "5.0 MiB", 3 << 40: "3.0 TiB", 1 << 62: "4194304.0 TiB"} {
		if got := ByteCount(n); got != want {
			t.Errorf("byteCount(%d) = %q, want %q", n, got, want)
		}
	}
}
