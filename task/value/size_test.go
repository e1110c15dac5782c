package value

import "testing"

func TestSize(t *testing.T) {
	for text, want := range map[string]Size{
		"0": 0, "4096": 4096, "64MiB": 64 << 20, "64 mib": 64 << 20, "64M": 64 << 20, "1.5GB": 1.5e9, "1k": 1024, "2kB": 2000, "7B": 7, "1TiB": 1 << 40,
	} {
		got, err := ParseSize(text)
		if err != nil || got != want {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
		if again, err := ParseSize(got.String()); err != nil || again != got {
			t.Errorf("%d is written %q, which is read as %d, %v", got, got, again, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1X", "MiB", "1e30", "NaN", "1MiBs", "99999999TiB"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d, want an error", text, got)
		}
	}
}
