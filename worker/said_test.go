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
