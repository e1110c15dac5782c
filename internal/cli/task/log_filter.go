package task

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"millrace/internal/cli/settings"
	"millrace/projections/view"
	"millrace/task/output"
)

// logLevels are the levels of entries, from the least important.
var logLevels = []string{"debug", "info", "warn", "error"}

// logFilter chooses lines of a task's output.
type logFilter struct {
	attempt int
	stream  settings.Choice
	level   settings.Choice
	since   string
	grep    string

	from    time.Time      // the time of since
	until   time.Time      // later lines are left out; zero for any time
	pattern *regexp.Regexp // the expression of grep; nil for any text
}

func newLogFilter() logFilter {
	return logFilter{
		stream: settings.Choice{Of: []string{output.Stdout, output.Stderr, output.Log, output.Setup, output.Status, output.System}},
		level:  settings.Choice{Of: logLevels},
	}
}

func (f *logFilter) flags(fs *pflag.FlagSet) {
	settings.Count(fs, &f.attempt, "attempt", "", "only of the attempt with this `number`")
	fs.Var(&f.stream, "stream", "only this stream: stdout, stderr, log (entries with a level), setup, status (the program's progress) or system (Millrace's own)")
	fs.Var(&f.level, "level", "only log entries of at least this level: debug, info, warn or error")
	fs.StringVar(&f.since, "since", "", "only lines since a `time`: 5m ago, 12:00")
	fs.StringVar(&f.grep, "grep", "", "only lines in which a regular `expression` is found, such as '(?i)error'")
}

// parse parses what is not parsed yet.
func (f *logFilter) parse(now time.Time) (err error) {
	if f.attempt < 0 {
		return fmt.Errorf("--attempt is %d, want 1 or more", f.attempt)
	}
	if f.since != "" {
		if f.from, err = view.ParsePast(f.since, now); err != nil {
			return fmt.Errorf("--since: %w", err)
		}
	}
	if f.grep != "" {
		if f.pattern, err = regexp.Compile(f.grep); err != nil {
			return fmt.Errorf("--grep: %q is no regular expression (RE2): %s", f.grep, strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
	}
	return nil
}

// wants tells whether a line is shown. The expression is matched against all of its text but a CR at its end.
func (f *logFilter) wants(attempt int, l *output.Line) bool {
	return (f.attempt == 0 || f.attempt == attempt) &&
		(f.stream.Value == "" || f.stream.Value == l.Stream) &&
		(f.level.Value == "" || l.Stream == output.Log && grave(l.Level) >= grave(f.level.Value)) &&
		!l.At.Before(f.from) && !f.later(l) &&
		(f.pattern == nil || f.pattern.MatchString(strings.TrimRight(lineText(l), "\r")))
}

// later tells whether a line was printed after the chosen moment.
func (f *logFilter) later(l *output.Line) bool { return !f.until.IsZero() && l.At.After(f.until) }

// grave orders levels; an unknown one counts as info.
func grave(level string) int {
	if i := slices.Index(logLevels, level); i >= 0 {
		return i
	}
	return 1
}
