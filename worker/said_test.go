package worker

import (
	"strings"
	"testing"
	"time"

	"millrace/task/output"
)

func TestLastLine(t *testing.T) {
	type piece struct {
		stream, text string
		more         bool
		after        time.Duration // since the piece before
	}
	long := strings.Repeat("é", 150)
	for name, c := range map[string]struct {
		pieces []piece
		want   string
	}{
		"nothing":                  {nil, ""},
		"one":                      {[]piece{{output.Stdout, "half way", false, 0}}, "half way"},
		"the last of several":      {[]piece{{output.Stdout, "a\nb\nc", false, 0}}, "c"},
		"blank lines do not count": {[]piece{{output.Stderr, "KeyError: 'x'", false, 0}, {output.Stdout, " \t", false, 0}, {output.Stdout, "", false, 0}}, "KeyError: 'x'"},
		"blank lines at the end":   {[]piece{{output.Stdout, "a\nb\n\n \n", false, 0}}, "b"},
		"in pieces":                {[]piece{{output.Stdout, "to", true, 0}, {output.Stdout, "geth", true, 0}, {output.Stdout, "er", false, 0}}, "together"},
		"pieces of two streams":    {[]piece{{output.Stdout, "to", true, 0}, {output.Stderr, "no", false, 0}}, "no"},
		"colours":                  {[]piece{{output.Stderr, "\x1b[1;31merror\x1b[0m:\tno \x1b]0;title\x07file\x00\xff", false, 0}}, "error: no file"},
		"a progress bar":           {[]piece{{output.Stderr, strings.Repeat("\rstep 10/900", 900) + "\rfatal: disk full", false, 0}}, "fatal: disk full"},
		"updates that end in CR":   {[]piece{{output.Stderr, "1%\r2%\r3%\r", false, 0}}, "3%"},
		"a bar that is wiped out":  {[]piece{{output.Stderr, "no such file\r", false, 0}, {output.Stderr, "1%\r2%\r    \r", false, 0}, {output.Stderr, "\r\n\r", false, 0}}, "no such file"},
		"nothing but wiped out":    {[]piece{{output.Stderr, "1%\rfatal: disk full\r\x1b[K", false, 0}}, "fatal: disk full"},
		"a bar of sequences":       {[]piece{{output.Stderr, "1%\x1b[2K\x1b[1G2%\x1b[2K\x1b[1Gfatal: disk full", false, 0}}, "fatal: disk full"},
		"nothing but a colour":     {[]piece{{output.Stderr, "\x1b[31mfatal: disk full\n\x1b[0m", false, 0}}, "fatal: disk full"},
		"a bar behind lines":       {[]piece{{output.Stderr, "a\r\nno such file\r\n1%\r2%\r    \r\n \r", false, 0}}, "no such file"},
		"a bar in pieces":          {[]piece{{output.Stdout, "\r1%\r2", true, 0}, {output.Stdout, "%\r3%\r", true, 0}, {output.Stdout, "4", true, 0}, {output.Stdout, "%", false, 0}}, "4%"},
		"a bar ends with a piece":  {[]piece{{output.Stdout, "\r1%\r2", true, 0}, {output.Stdout, "%\r", true, 0}, {output.Stdout, "\r", false, 0}}, "2%"},
		"long":                     {[]piece{{output.Stdout, long, false, 0}}, strings.Repeat("é", 100) + "…"},
		"setup is asked for apart": {[]piece{{output.Stdout, "x", false, 0}, {output.Setup, "make: no rule", false, 0}}, "x"},
		"read apart":               {[]piece{{output.Stderr, "no such file", false, 0}, {output.Stdout, "3 rows", false, 100 * time.Millisecond}}, "no such file"},
		"an old warning":           {[]piece{{output.Stderr, "deprecated", false, 0}, {output.Stdout, "FAILED", false, time.Second}}, "FAILED"},
	} {
		o, at := &Output{}, time.Now()
		for _, p := range c.pieces {
			at = at.Add(p.after + 1)
			o.said.hear(p.stream, []byte(p.text), p.more, at)
		}
		if got := o.LastLine(output.Stdout, output.Stderr, output.Log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	o := &Output{}
	for range 3 {
		o.said.hear(output.Stdout, []byte(strings.Repeat("x", maxSaid)), true, time.Now())
	}
	if n := len(o.said[0].text); n > maxSaid {
		t.Errorf("%d bytes are remembered", n)
	}
}
