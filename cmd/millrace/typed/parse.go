package typed

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/joho/godotenv"

	"millrace/task"
)

// ParseSpan reads a duration in which days and weeks are units, too: 90s, 2h30m, 7d, 1w.
func ParseSpan(s string) (time.Duration, error) {
	for unit, length := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if head, ok := strings.CutSuffix(s, unit); ok {
			n, err := strconv.ParseFloat(head, 64)
			if err != nil || !(n >= 0 && n < 36500) {
				break
			}
			return time.Duration(n * float64(length)), nil
		}
	}
	d, err := time.ParseDuration(s)
	if positive, minus := strings.CutPrefix(s, "-"); minus {
		if _, err := ParseSpan(positive); err == nil && !strings.HasPrefix(positive, "-") {
			return 0, fmt.Errorf("%q is negative: want 0 or more, such as %s", s, positive)
		}
	}
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration: want a number with a unit, such as 90s, 2h30m or 7d", s)
	}
	return d, nil
}

// Span is a flag that parseSpan reads; set tells whether it was given.
type Span struct {
	D     time.Duration
	Given bool
}

func (f *Span) String() string {
	if !f.Given {
		return ""
	}
	return f.D.String()
}
func (f *Span) Type() string { return "duration" }
func (f *Span) Set(s string) (err error) {
	f.D, err = ParseSpan(s)
	f.Given = err == nil
	return err
}

// Wanted is the duration as a submission takes it, nil if it was not given.
func (f *Span) Wanted() *task.Duration {
	if !f.Given {
		return nil
	}
	d := task.Duration(f.D)
	return &d
}

// dayForms are the absolute times that are read, in the local zone where they name none.
var dayForms = []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04", time.DateOnly}

// Absolute reads a time that stands for itself; what lacks a date or a zone has those of now.
func Absolute(s string, now time.Time) (time.Time, error) {
	for _, form := range dayForms {
		if t, err := time.ParseInLocation(form, s, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, form := range []string{"15:04", time.TimeOnly} {
		if t, err := time.Parse(form, s); err == nil {
			return time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location()), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is no time: want 2026-03-01T12:00:00Z, \"2026-03-01 12:00\" or 12:00", s)
}

// Past reads a time that has been: so long ago (2h, 7d), or absolute.
func Past(s string, now time.Time) (time.Time, error) {
	if d, err := ParseSpan(s); err == nil {
		return now.Add(-d), nil
	}
	t, err := Absolute(s, now)
	if err != nil {
		return t, fmt.Errorf("%w, or so long ago: 2h, 7d", err)
	}
	return t, nil
}

// Future reads a time to come. A time of day that has passed is tomorrow's.
func Future(s string, now time.Time) (time.Time, error) {
	t, err := Absolute(s, now)
	if err == nil && !t.After(now) && strings.Contains(s, ":") && len(s) <= len("15:04:05") {
		t = time.Date(t.Year(), t.Month(), t.Day()+1, t.Hour(), t.Minute(), t.Second(), 0, t.Location())
	}
	return t, err
}

// Pairs reads k=v, of which a later one wins.
func Pairs(flag string, list []string) (map[string]string, error) {
	if len(list) == 0 {
		return nil, nil
	}
	m := make(map[string]string, len(list))
	for _, s := range list {
		k, v, ok := strings.Cut(s, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--%s %q: want name=value", flag, s)
		}
		m[k] = v
	}
	return m, nil
}

// Params adds up the parameters of --params (a text, @file, or - for in) and of each --param.
func Params(whole string, each []string, in io.Reader) (map[string]json.RawMessage, error) {
	params := map[string]json.RawMessage{}
	if whole != "" {
		body, err := Body(whole, in)
		if err == nil {
			params, err = readParams(body)
		}
		if err != nil {
			return nil, fmt.Errorf("--params: %w", err)
		}
	}
	set, err := Pairs("param", each)
	if err != nil {
		return nil, err
	}
	for k, v := range set {
		params[k] = paramValue(v)
	}
	if len(params) == 0 {
		return nil, nil
	}
	return params, nil
}

// readParams reads a JSON object, or lines name=value as a .env file has them.
func readParams(body []byte) (map[string]json.RawMessage, error) {
	wanted := errors.New("want a JSON object, such as {\"name\": \"World\"}, or lines name=value, as in a .env file")
	params := map[string]json.RawMessage{}
	if text := bytes.TrimSpace(body); json.Valid(text) || bytes.HasPrefix(text, []byte("{")) {
		if err := json.Unmarshal(text, &params); err != nil || params == nil {
			return nil, wanted
		}
		return params, nil
	}
	lines, err := godotenv.UnmarshalBytes(body)
	if err != nil || len(lines) == 0 {
		return nil, wanted
	}
	for k, v := range lines {
		if k == "" {
			return nil, wanted
		}
		params[k] = paramValue(v)
	}
	return params, nil
}

// Body is the text that s is, or that stands in the file or stream that it names.
func Body(s string, in io.Reader) ([]byte, error) {
	switch {
	case s == "-":
		return io.ReadAll(in)
	case strings.HasPrefix(s, "@"):
		return os.ReadFile(s[1:])
	}
	return []byte(s), nil
}

// paramValue takes v as the JSON that it is, or else as a string.
func paramValue(v string) json.RawMessage {
	if json.Valid([]byte(v)) && utf8.ValidString(v) {
		return json.RawMessage(v)
	}
	quoted, _ := json.Marshal(v) // a string always marshals
	return quoted
}

// Weights reads queues with their weights, crawl=3; one without has the weight 1.
func Weights(list []string) (queues []string, weights map[string]int, err error) {
	weights = map[string]int{}
	for _, item := range list {
		queue, text, given := strings.Cut(item, "=")
		if queues = append(queues, queue); !given {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > task.MaxWeight {
			return nil, nil, fmt.Errorf("queue %q: the weight is %q, want 1 to %d", queue, text, task.MaxWeight)
		}
		weights[queue] = n
	}
	return queues, weights, nil
}

// States reads states, also several with commas; "active" stands for all
// that are not terminal and "ended" for all that are.
func States(list []string) ([]task.State, error) {
	var states []task.State
	for _, item := range list {
		for name := range strings.SplitSeq(item, ",") {
			switch name = strings.TrimSpace(name); name {
			case "active", "ended":
				for _, s := range task.States() {
					if s.Terminal() == (name == "ended") {
						states = append(states, s)
					}
				}
			default:
				s, err := task.ParseState(name)
				if err != nil {
					return nil, fmt.Errorf("--state: no state is called %q; there are %s, and active and ended for several", name, StateNames())
				}
				states = append(states, s)
			}
		}
	}
	return states, nil
}

// StateNames lists all states.
func StateNames() string {
	var names []string
	for _, s := range task.States() {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

// ParseRate reads a number of starts, and the time for that after a /.
func ParseRate(text string) (r task.Rate, err error) {
	count, per, timed := strings.Cut(text, "/")
	if r.Limit, err = strconv.Atoi(count); err != nil || r.Limit < 1 {
		return r, fmt.Errorf("%q is no number of at least 1", count)
	}
	if !timed {
		return r, fmt.Errorf("the time is missing: %s/1s is so many in a second, %s/1m in a minute", count, count)
	}
	return r, r.Per.UnmarshalText([]byte(per))
}
