package ipc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"millrace/task/value"
)

// Span is a duration, in JSON a text such as "90s" or a number of seconds.
type Span time.Duration

// UnmarshalJSON decodes either form and refuses negative values.
func (s *Span) UnmarshalJSON(data []byte) error {
	var text string
	var seconds float64
	switch kind(data) {
	case 'n':
		return nil
	case '"':
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		d, err := value.ParseDuration(text)
		if err != nil {
			return err
		}
		*s = Span(d)
	default:
		if err := json.Unmarshal(data, &seconds); err != nil {
			return errors.New("want a duration such as \"90s\", or seconds")
		}
		if seconds > math.MaxInt64/float64(2*time.Second) {
			return fmt.Errorf("%v seconds are too long", seconds)
		}
		*s = Span(seconds * float64(time.Second))
	}
	if *s < 0 {
		return fmt.Errorf("%s is below zero", data)
	}
	return nil
}

// MarshalJSON encodes the text, which has its unit.
func (s Span) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(s).String()) }

// Progress is the payload of a PROGRESS message.
type Progress struct {
	// Share is from 0 to 1.
	Share   float64
	Message string
}

// Progress reads the payload of a PROGRESS message: a number from 0 to 1, or an
// object with progress, or with done and total, and perhaps a message. It
// returns an error for anything else; that does not happen to a message from a [Reader].
func (m Message) Progress() (Progress, error) {
	var p struct {
		Progress, Done, Total *float64
		Message               string
	}
	var err error
	if kind(m.Payload) == '{' {
		err = json.Unmarshal(m.Payload, &p)
	} else {
		err = unmarshal(m.Payload, &p.Progress)
	}
	switch {
	case err != nil:
	case p.Progress != nil && *p.Progress >= 0 && *p.Progress <= 1:
		return Progress{*p.Progress, p.Message}, nil
	case p.Progress == nil && p.Done != nil && p.Total != nil && *p.Total > 0 && *p.Done >= 0:
		return Progress{min(*p.Done / *p.Total, 1), p.Message}, nil
	default:
		err = errors.New("want progress from 0 to 1, or done and total")
	}
	return Progress{}, fmt.Errorf("payload of %s: %w", m.Type, err)
}

// Metrics reads the payload of a METRIC message: an object {"name","value"}, or
// one of names and numbers. It returns an error for anything else, for more than
// [MaxMetrics] figures and names longer than [MaxName]; that does not happen to a
// message from a [Reader].
func (m Message) Metrics() (map[string]float64, error) {
	refuse := func(format string, args ...any) (map[string]float64, error) {
		return nil, fmt.Errorf("payload of %s: "+format, append([]any{m.Type}, args...)...)
	}
	if kind(m.Payload) != '{' {
		return refuse("want an object of names and numbers")
	}
	var one struct {
		Name  *string
		Value *float64
	}
	all := map[string]float64{}
	if json.Unmarshal(m.Payload, &one) == nil && one.Name != nil && one.Value != nil {
		all[*one.Name] = *one.Value
	} else if err := json.Unmarshal(m.Payload, &all); err != nil {
		return refuse("%w", value.Plainly(err))
	}
	switch n := len(all); {
	case n == 0:
		return refuse("it has no figures")
	case n > MaxMetrics:
		return refuse("%w", tooMuch("it has %d figures, want at most %d", n, MaxMetrics))
	}
	for name := range all {
		switch n := len(name); {
		case n == 0:
			return refuse("a figure has no name")
		case n > MaxName:
			return refuse("%w", tooMuch("the name of a figure has %d bytes, want at most %d", n, MaxName))
		}
	}
	return all, nil
}

// Levels of a LOG message, from the least important.
var Levels = []string{"debug", "info", "warn", "error"}

// Entry is the payload of a LOG message.
type Entry struct {
	Message string `json:"message"`
	// Level is one of [Levels]; info if the message has none.
	Level string `json:"level"`
	// Fields is a JSON object, or nil.
	Fields json.RawMessage `json:"fields"`
}

// Entry reads the payload of a LOG message: an object with a message, or a
// string that is the message. Other tools' spellings of levels (WARNING, fatal)
// are understood. It returns an error if the payload has another form; that does
// not happen to a message from a [Reader].
func (m Message) Entry() (Entry, error) {
	var e Entry
	if err := decode(m.Payload, &e.Message, &e); err != nil {
		return Entry{}, fmt.Errorf("payload of %s: %w", m.Type, err)
	}
	level, ok := level(e.Level)
	if !ok {
		return Entry{}, fmt.Errorf("payload of %s: there is no level %.40q; there are %s", m.Type, e.Level, value.List(Levels))
	}
	e.Level = level
	switch kind(e.Fields) {
	case '{':
	case 'n', 0:
		e.Fields = nil
	default:
		return Entry{}, fmt.Errorf("payload of %s: fields must be an object", m.Type)
	}
	return e, nil
}

// level returns the level for a word.
func level(word string) (string, bool) {
	switch word {
	case "debug", "DEBUG", "trace", "TRACE":
		return "debug", true
	case "", "info", "INFO", "notice", "NOTICE":
		return "info", true
	case "warn", "WARN", "warning", "WARNING":
		return "warn", true
	case "error", "ERROR", "fatal", "FATAL", "critical", "CRITICAL":
		return "error", true
	}
	return "", false
}

// Extension reads the payload of an EXTEND message: for how long from now the run timeout must not
// pass, as {"by": …} or alone, in the forms of a [Span]. It returns an error for any other or an
// empty payload; that does not happen to a message from a [Reader].
func (m Message) Extension() (time.Duration, error) {
	var e struct{ By Span }
	var err error
	if kind(m.Payload) == '{' {
		err = json.Unmarshal(m.Payload, &e)
	} else {
		err = unmarshal(m.Payload, &e.By)
	}
	if err == nil && e.By == 0 {
		err = errors.New("want by, a duration above zero")
	}
	if err != nil {
		return 0, fmt.Errorf("payload of %s: %w", m.Type, err)
	}
	return time.Duration(e.By), nil
}

// Spawn is the payload of a SPAWN message.
type Spawn struct {
	// Key identifies a child among the children of a task: the same key never makes a second child,
	// not even from a later attempt. With "" the order of asking identifies it.
	Key string `json:"key"`
	// Task is the whole payload: the child to run, in the form of a submission.
	Task json.RawMessage `json:"-"`
}

// Spawn reads the payload of a SPAWN message, an object. It does not check whether that describes a
// task. It returns an error if the payload is not an object or its key is longer than [MaxName];
// that does not happen to a message from a [Reader].
func (m Message) Spawn() (Spawn, error) {
	s := Spawn{Task: m.Payload}
	if kind(m.Payload) != '{' {
		return Spawn{}, fmt.Errorf("payload of %s: want an object", m.Type)
	}
	if err := json.Unmarshal(m.Payload, &s); err != nil {
		return Spawn{}, fmt.Errorf("payload of %s: %w", m.Type, value.Plainly(err))
	}
	if len(s.Key) > MaxName {
		return Spawn{}, fmt.Errorf("payload of %s: %w", m.Type, tooMuch("the key has %d bytes, want at most %d", len(s.Key), MaxName))
	}
	return s, nil
}

// unmarshal is json.Unmarshal for a payload that may be missing.
func unmarshal(payload json.RawMessage, v any) error {
	if len(payload) == 0 || kind(payload) == 'n' {
		return errors.New("it is missing")
	}
	return json.Unmarshal(payload, v)
}
