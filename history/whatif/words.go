package whatif

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/history/verify"
	"millrace/task/value"
)

// words describes the difference.
func words(c *Change, f *verify.Finding) string {
	switch {
	case c.Kind == Never:
		return "by then a decision would have been due that no component had to make: " + f.What
	case len(c.Fields) == 0:
		_, again, found := strings.Cut(f.What, "is another one: ")
		if !found {
			return f.What
		}
		return again
	case c.Type == events.AttemptFailed:
		if text := retried(c); text != "" {
			return text
		}
	}
	if text := missed(c); text != "" {
		return text
	}
	if i := slices.IndexFunc(c.Fields, func(d verify.Difference) bool { return d.Field == "type" }); i >= 0 {
		return textOf(c.Fields[i].Is) + " in place of it"
	}
	var all []string
	for _, d := range c.Fields {
		all = append(all, fmt.Sprintf("%s: %s in place of %s", d.Field, brief(d.Is), brief(d.Was)))
	}
	return strings.Join(all, "; ")
}

// retried describes what would have followed a failure.
func retried(c *Change) string {
	i := slices.IndexFunc(c.Fields, func(d verify.Difference) bool { return d.Field == "retry" })
	if i < 0 {
		return ""
	}
	was, is := planOf(c.Fields[i].Was), planOf(c.Fields[i].Is)
	switch {
	case was == nil && is == nil:
		return ""
	case is == nil:
		return fmt.Sprintf("no other attempt would have followed: the task would have ended here, and attempt %d would not have been", was.Attempt)
	case was == nil:
		return fmt.Sprintf("attempt %d would have followed, due at %s, in %v; the task ended here", is.Attempt, clock(is.Due), rounded(is.Due.Sub(c.At)))
	}
	by, word := is.Due.Sub(was.Due), "later"
	if by < 0 {
		by, word = -by, "sooner"
	}
	return fmt.Sprintf("attempt %d would have been due %v %s, at %s", is.Attempt, rounded(by), word, clock(is.Due))
}

// missed says that a skipped tick would have got its task, or the reverse.
func missed(c *Change) string {
	field := func(name string) (d verify.Difference) {
		if i := slices.IndexFunc(c.Fields, func(d verify.Difference) bool { return d.Field == name }); i >= 0 {
			d = c.Fields[i]
		}
		return d
	}
	many := ""
	if n := field("count").Was; n != nil {
		many = fmt.Sprintf("; %s planned runs from it on were left out", n)
	}
	switch {
	case c.Type == events.ScheduleSkipped && textOf(field("type").Is) == string(events.ScheduleAdmitted):
		return "the planned run would have got its task" + many
	case c.Type == events.ScheduleAdmitted && textOf(field("type").Is) == string(events.ScheduleSkipped):
		return fmt.Sprintf("the planned run would have been left out (%s)", textOf(field("reason").Is))
	}
	return ""
}

// plan is that of a retry.
type plan struct {
	Attempt int       `json:"attempt"`
	Due     time.Time `json:"due"`
}

func planOf(text json.RawMessage) *plan {
	var p *plan
	if len(text) == 0 || json.Unmarshal(text, &p) != nil {
		return nil
	}
	return p
}

// textOf is the value of a JSON string; "" for any other value.
func textOf(raw json.RawMessage) (text string) {
	_ = json.Unmarshal(raw, &text) // a value that is not a string stays empty
	return text
}

func clock(t time.Time) string               { return t.UTC().Format("15:04:05.000") }
func rounded(d time.Duration) value.Duration { return value.Duration(d.Round(time.Millisecond)) }

// brief is a short form of a JSON value for display.
func brief(text json.RawMessage) string {
	switch {
	case len(text) == 0:
		return "nothing"
	case len(text) > 200:
		return string(text[:200]) + "…"
	}
	return string(text)
}
