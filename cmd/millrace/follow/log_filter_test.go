package follow

import (
	"testing"
	"time"

	"millrace/task"
)

func TestLogFilter(t *testing.T) {
	noon := time.Date(2026, 11, 5, 12, 0, 0, 0, time.UTC)
	line := func(stream, level, text string) task.Line {
		return task.Line{At: noon, Stream: stream, Level: level, Text: text}
	}
	for _, c := range []struct {
		name string
		set  func(f *logFilter)
		line task.Line
		want bool
	}{
		{"all", func(*logFilter) {}, line(task.Stdout, "", "a"), true},
		{"another attempt", func(f *logFilter) { f.attempt = 2 }, line(task.Stdout, "", "a"), false},
		{"another stream", func(f *logFilter) { f.stream.Value = task.Stderr }, line(task.Stdout, "", "a"), false},
		{"graver", func(f *logFilter) { f.level.Value = "warn" }, line(task.Log, "error", "a"), true},
		{"as grave", func(f *logFilter) { f.level.Value = "warn" }, line(task.Log, "warn", "a"), true},
		{"less grave", func(f *logFilter) { f.level.Value = "warn" }, line(task.Log, "info", "a"), false},
		{"of no known level", func(f *logFilter) { f.level.Value = "info" }, line(task.Log, "notice", "a"), true},
		{"of no level", func(f *logFilter) { f.level.Value = "debug" }, line(task.Stdout, "", "a"), false},
		{"too early", func(f *logFilter) { f.since = "1m" }, line(task.Stdout, "", "a"), false},
		{"late enough", func(f *logFilter) { f.since = "2h" }, line(task.Stdout, "", "a"), true},
		{"found", func(f *logFilter) { f.grep = "b+$" }, line(task.Stdout, "", "abb"), true},
		{"found in the level", func(f *logFilter) { f.grep = "^WARN" }, line(task.Log, "warn", "abb"), true},
		{"not found", func(f *logFilter) { f.grep = "B" }, line(task.Stdout, "", "abb"), false},
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
