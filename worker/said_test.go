package worker

import (
	"strings"
	"testing"
	"time"

	"millrace/task"
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
		"one":                      {[]piece{{task.Stdout, "half way", false, 0}}, "half way"},
		"the last of several":      {[]piece{{task.Stdout, "a\nb\nc", false, 0}}, "c"},
		"blank lines do not count": {[]piece{{task.Stderr, "KeyError: 'x'", false, 0}, {task.Stdout, " \t", false, 0}, {task.Stdout, "", false, 0}}, "KeyError: 'x'"},
		"blank lines at the end":   {[]piece{{task.Stdout, "a\nb\n\n \n", false, 0}}, "b"},
		"in pieces":                {[]piece{{task.Stdout, "to", true, 0}, {task.Stdout, "geth", true, 0}, {task.Stdout, "er", false, 0}}, "together"},
		"pieces of two streams":    {[]piece{{task.Stdout, "to", true, 0}, {task.Stderr, "no", false, 0}}, "no"},
		"colours":                  {[]piece{{task.Stderr, "\x1b[1;31merror\x1b[0m:\tno \x1b]0;title\x07file\x00\xff", false, 0}}, "error: no file"},
		"long":                     {[]piece{{task.Stdout, long, false, 0}}, strings.Repeat("é", 100) + "…"},
		"setup is asked for apart": {[]piece{{task.Stdout, "x", false, 0}, {task.Setup, "make: no rule", false, 0}}, "x"},
		"read apart":               {[]piece{{task.Stderr, "no such file", false, 0}, {task.Stdout, "3 rows", false, 100 * time.Millisecond}}, "no such file"},
		"an old warning":           {[]piece{{task.Stderr, "deprecated", false, 0}, {task.Stdout, "FAILED", false, time.Second}}, "FAILED"},
	} {
		o, at := &Output{}, time.Now()
		for _, p := range c.pieces {
			at = at.Add(p.after + 1)
			o.said.hear(p.stream, []byte(p.text), p.more, at)
		}
		if got := o.LastLine(task.Stdout, task.Stderr, task.Log); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	o := &Output{}
	for range 3 {
		o.said.hear(task.Stdout, []byte(strings.Repeat("x", maxSaid)), true, time.Now())
	}
	if n := len(o.said[0].text); n > maxSaid {
		t.Errorf("%d bytes are remembered", n)
	}
}
