package value_test

import (
	"testing"

	"millrace/task/value"
)

func TestImpossible(t *testing.T) {
	for text, want := range map[string]bool{
		"2026-02-30": true, "2026-02-30 12:00": true, "2027-02-29T12:00:00Z": true, "2026-13-01": true, "2026-01-01 25:00": true, "25:00": true, "12:61:00": true,
		"02-30 12:00": true, "2026-06-31T00:00:00.5+02:00": true, "2026-02-28 24:00": true,
		"2026-02-28": false, "2028-02-29": false, "12:00": false, "2026": false, "99999": false, "": false, "noon": false, "2026-02-30x": false, "2h": false, "13-45": false,
	} {
		if got := value.Impossible(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}
