package output

import "testing"

func TestShown(t *testing.T) {
	for _, c := range []struct {
		line, want string
		less       bool
	}{
		{"", "", false}, {"a", "a", false}, {"a\r", "a", false}, {"a\r\r", "a", false}, {"\r", "", false}, {"\ra", "a", false}, {"\r\ra\r", "a", false},
		{"\rstep 1\rstep 2\rfatal: disk full", "fatal: disk full", true}, {"1%\r2%\r", "2%", true}, {"1%\r  \r", "  ", true}, {"1%\r\x1b[K", "\x1b[K", true},
		{"1%\x1b[1G2%\x1b[2K\x1b[1Gdone", "done", true}, {"1%\x1b[Gdone\x1b[0G", "done", true}, {"\x1b[2K\rdone", "done", false}, {"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m", false},
		{"a\x1b[", "a\x1b[", false}, {"a\x1b[1", "a\x1b[1", false}, {"a\x1b[11Gb", "a\x1b[11Gb", false},
	} {
		if got, less := Shown(c.line); got != c.want || less != c.less {
			t.Errorf("%q is shown as %q, %v, want %q, %v", c.line, got, less, c.want, c.less)
		}
	}
}
