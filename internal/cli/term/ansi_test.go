package term

import "testing"

// Colours become classes; all other control sequences are dropped.
func TestPen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                 "",
		"a < b":                            "a &lt; b",
		"\x1b[31mred\x1b[0m plain":         `<span class="sgr-1">red</span> plain`,
		"\x1b[1;4;92mgood\x1b[22m\x1b[24m": `<span class="sgr-b sgr-u sgr-2">good</span>`,
		"\x1b[41m<b>\x1b[m":                `<span class="sgr-bg-1">&lt;b&gt;</span>`,
		"\x1b[38;5;200mx\x1b[38;2;1;2;3my": "xy",
		"\x1b[2J\x1b[Hclean\x1b[K":         "clean",
		"\x1b]8;;http://evil\x1b\\link":    "link",
		"\x1b]0;title\atext":               "text",
		"\x1b[31":                          "",
		"end\x1b":                          "end",
	} {
		var p Pen
		if got := string(p.Draw(text)); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	var p Pen
	p.Draw("\x1b[33mbegun")
	if got := string(p.Draw("on")); got != `<span class="sgr-3">on</span>` {
		t.Errorf("a colour does not go on in the next line: %s", got)
	}
}
