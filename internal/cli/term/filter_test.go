package term

import (
	"strings"
	"testing"
)

func TestScreenShowsTextAndColours(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text", "two\tcolumns, ünïcode 世界 👩‍💻\n", "two\tcolumns, ünïcode 世界 👩‍💻\n"},
		{"colours", "\x1b[31mred\x1b[0m \x1b[38;5;8mgrey\x1b[m\n", "\x1b[31mred\x1b[0m \x1b[38;5;8mgrey\x1b[m\n"},
		{"a colour ends with its line", "\x1b[1;31mred\nplain\n", "\x1b[1;31mred\x1b[0m\nplain\n"},
		{"the clipboard", "a\x1b]52;c;ZXZpbA==\ab\n", "ab\n"},
		{"the clipboard, ended otherwise", "a\x1b]52;c;ZXZpbA==\x1b\\b\n", "ab\n"},
		{"the title", "a\x1b]0;title\ab\n", "ab\n"},
		{"a text that has no end", "a\x1b]0;title\nnext line\n", "a·]0;title\nnext line\n"},
		{"a text that is too long", "\x1b]" + strings.Repeat("x", 2*maxHeld) + "\a\n", "·]" + strings.Repeat("x", 2*maxHeld) + "·\n"},
		{"a link", "\x1b]8;;file:///x\x1b\\name\x1b]8;;\x1b\\\n", "name\n"},
		{"the screen", "\x1b[2J\x1b[Ha\x1b[3J\x1bcb\n", "ab\n"},
		{"the cursor", "a\x1b[1A\x1b[2K\x1b[1;1Hb\x1b7\x1b8\n", "ab\n"},
		{"what grep and tput say", "\x1b[01;31m\x1b[Kx\x1b[m\x1b[K\x1b(B\x1b[m\n", "\x1b[01;31mx\x1b[m\x1b[m\n"},
		{"a device's text", "a\x1bPq#0\x1b\\b\x1b_x\x1b\\\n", "a·Pq#0b·_x\n"},
		{"eight bits", "a\u009b2Jb\u009d0;x\u009c\x9b2J\n", "a·2Jb·0;x··2J\n"},
		{"lines over others", "50%\r100%\r\nhidden\rshown\bX\x00\x07\x7f\n", "50%·100%\nhidden·shown·X···\n"},
		{"text that runs the other way", "a\u202eb\u2066c\u200b\n", "a·b·c·\n"},
		{"no UTF-8", "a\xff\xc3(\n", "a··(\n"},
		{"a colour that is none", "\x1b[?31mx\x1b[>4;1my\n", "xy\n"},
		{"an end in the midst", "a\x1b[3", "a"},
	} {
		f := Filter{Colours: true}
		if got := string(f.Pass([]byte(c.in))); got != c.want {
			t.Errorf("%s: %q is shown as %q, want %q", c.name, c.in, got, c.want)
		}
		for cut := range len(c.in) { // it may come in any pieces
			f := Filter{Colours: true}
			got := string(f.Pass([]byte(c.in[:cut]))) + string(f.Pass([]byte(c.in[cut:])))
			if got != c.want {
				t.Errorf("%s: %q, in two pieces from %d on, is shown as %q, want %q", c.name, c.in, cut, got, c.want)
			}
		}
	}
	f := Filter{}
	if got := string(f.Pass([]byte("\x1b[31mred\x1b[0m\n"))); got != "red\n" {
		t.Errorf("without colours it is %q", got)
	}
}

// FuzzScreen checks that no byte that a terminal would obey passes the filter, except in colours.
func FuzzScreen(f *testing.F) {
	f.Add("a\x1b[31m\x1b]52;c;x\a\r\u009b")
	f.Fuzz(func(t *testing.T, in string) {
		f := Filter{Colours: true}
		rest := string(f.Pass([]byte(in)))
		for {
			before, after, found := strings.Cut(rest, "\x1b[")
			if strings.ContainsFunc(before, func(r rune) bool { return r != '\n' && r != '\t' && !showable(r) }) {
				t.Fatalf("%q is shown as %q", in, before)
			}
			if !found {
				return
			}
			rest = strings.TrimLeft(after, "0123456789;:")
			if !strings.HasPrefix(rest, "m") {
				t.Fatalf("%q is shown with a sequence before %q", in, rest)
			}
			rest = rest[1:]
		}
	})
}
