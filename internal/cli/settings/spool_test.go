package settings

import (
	"path/filepath"
	"slices"
	"testing"
)

func TestSpoolLimit(t *testing.T) {
	of := All[slices.IndexFunc(All, func(d Setting) bool { return d.Name == "spool_limit" })]
	for text, want := range map[string]struct {
		bytes int64
		shown string
	}{
		"256MiB": {256 << 20, "256MiB"}, "64 mib": {64 << 20, "64MiB"}, "2GB": {2e9, "2000000000"}, "1": {1, "1B"}, "1500": {1500, "1500"},
		"0": {}, "": {}, "much": {}, "-1": {}, "1ZB": {},
	} {
		var s Values
		err := of.read(&s, text)
		if (err == nil) != (want.bytes > 0) || s.SpoolLimit != want.bytes || err == nil && of.Text(&s) != want.shown {
			t.Errorf("%q: %d, shown as %q, %v; want %+v", text, s.SpoolLimit, of.Text(&s), err, want)
		}
	}
}

func TestSpool(t *testing.T) {
	var s Values
	if err := readSpool(&s, "here"); err != nil || !filepath.IsAbs(s.Spool) || filepath.Base(s.Spool) != "here" {
		t.Errorf("%q, %v", s.Spool, err)
	}
	if err := readSpool(&s, ownSpool); err != nil || s.Spool != "" {
		t.Errorf("%q, %v", s.Spool, err)
	}
}
