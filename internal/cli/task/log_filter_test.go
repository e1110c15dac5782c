package task

import (
	"testing"
	"time"

	"millrace/task/output"
)

func TestLogFilter(t *testing.T) {
	noon := time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)
	line := func(stream, level, text string) output.Line {
		return output.Line{At: noon, Stream: stream, Level: level, Text: text}
	}
	for _, c := range []struct {
		name string
		set  func(f *logFilter)
		line output.Line
		want bool
	}{
		{"all", func(*logFilter) {}, line(output.Stdout, "", "a"), true},
		{"another attempt", func(f *logFilter) { f.attempt = 2 }, line(output.Stdout, "", "a"), false},
		{"another stream", func(f *logFilter) { f.stream.Value = output.Stderr }, line(output.Stdout, "", "a"), false},
		{"graver", func(f *logFilter) { f.level.Value = "warn" }, line(output.Log, "error", "a"), true},
		{"as grave", func(f *logFilter) { f.level.Value = "warn" }, line(output.Log, "warn", "a"), true},
		{"less grave", func(f *logFilter) { f.level.Value = "warn" }, line(output.Log, "info", "a"), false},
		{"of no known level", func(f *logFilter) { f.level.Value = "info" }, line(output.Log, "notice", "a"), true},
		{"of no level", func(f *logFilter) { f.level.Value = "debug" }, line(output.Stdout, "", "a"), false},
		{"too early", func(f *logFilter) { f.since = "1m" }, line(output.Stdout, "", "a"), false},
		{"late enough", func(f *logFilter) { f.since = "2h" }, line(output.Stdout, "", "a"), true},
		{"found", func(f *logFilter) { f.grep = "b+$" }, line(output.Stdout, "", "abb"), true},
		{"found in the level", func(f *logFilter) { f.grep = "^WARN" }, line(output.Log, "warn", "abb"), true},
		{"not found", func(f *logFilter) { f.grep = "B" }, line(output.Stdout, "", "abb"), false},
	} {
		f := newLogFilter()
		c.set(&f)
		if err := f.parse(noon.Add(time.Hour)); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := f.wants(1, &c.line); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	for _, f := range []logFilter{{since: "yore"}, {grep: "("}} {
		if f.parse(noon) == nil {
			t.Errorf("%+v is accepted", f)
		}
	}
}
