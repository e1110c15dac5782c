package request

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestShifted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "clock")
	clock := Shifted(file)
	for _, c := range []struct {
		text string // "" for no file
		want time.Duration
	}{{"", 0}, {"-5m0s", -5 * time.Minute}, {"3h\n", 3 * time.Hour}, {"soon", 0}} {
		if c.text != "" {
			if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before, is, after := time.Now(), clock().Add(-c.want), time.Now()
		if is.Before(before.Round(0)) || is.After(after.Round(0)) {
			t.Errorf("with %q it is %v, %v from the machine's time", c.text, is, is.Sub(before))
		}
	}
}
