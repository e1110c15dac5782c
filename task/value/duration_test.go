package value

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "2h30m": 150 * time.Minute, "7d": 7 * 24 * time.Hour, "1.5d": 36 * time.Hour, "1w": 7 * 24 * time.Hour, "0s": 0, "0": 0, "1d12h": 36 * time.Hour, "1w2d3h4m5s6ms": 219*time.Hour + 245*time.Second + 6*time.Millisecond, ".5h": 30 * time.Minute, "+1s": time.Second,
		"1d1d": 48 * time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "7", "d", "-1d", "-5s", "1e9d", "NaNd", "7 d", "soon", "1y", "1d 2h", "1d-2h", "200000d", "106751d24h", "--1s", "1.2.3d", "1D"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}
