package findings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/events"
	"millrace/task/schedule"
	"millrace/task/value"
)

// Difference is a field of a decision with another result, as JSON; nil where it is absent.
type Difference struct {
	// Field is its name. Was is what was recorded, and Is what comes out.
	Field string          `json:"field"`
	Was   json.RawMessage `json:"was"`
	Is    json.RawMessage `json:"is"`
}

// Differences are those of one decision.
type Differences []Difference

// differences returns the fields in which a decision differs from its repetition, also in words.
// Hidden values never differ.
func (b *Collector) differences(was, is *events.Fact) (string, Differences) {
	if is.Event == nil {
		return "nothing follows", nil
	}
	one, err := events.Encode(nil, was)
	if err != nil {
		return err.Error(), nil // no log holds it
	}
	two, err := events.Encode(nil, is)
	if err != nil {
		return err.Error(), nil
	}
	if bytes.Equal(one, two) {
		return "", nil
	}
	var had, has map[string]any
	if json.Unmarshal(one, &had) != nil || json.Unmarshal(two, &has) != nil {
		return "it cannot be read", nil
	}
	names := slices.Collect(maps.Keys(had))
	for name := range has {
		if _, both := had[name]; !both {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var all []string
	var fields Differences
	for _, name := range names {
		if !alike(had[name], has[name], b.hiding()) {
			all = append(all, fmt.Sprintf("%s is %s in the log, and should be %s", name, brief(had[name]), brief(has[name])))
			fields = append(fields, Difference{name, rawOf(had, name), rawOf(has, name)})
		}
	}
	return strings.Join(all, "; "), fields
}

// rawOf is a value of an object as JSON; nil if it is absent.
func rawOf(object map[string]any, name string) json.RawMessage {
	v, there := object[name]
	if !there {
		return nil
	}
	text, err := value.JSON(v)
	if err != nil {
		return nil // it came from JSON
	}
	return text
}

// alike compares JSON values, and times to the microsecond, because a verifier keeps no more. If a
// may hide values, a hidden one is like any other.
func alike(a, b any, hiding bool) bool {
	if hiding && events.Hidden(a) {
		return true
	}
	each := func(a, b any) bool { return alike(a, b, hiding) }
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, each)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, each)
	case string:
		text, ok := b.(string)
		if !ok || schedule.Reworded(a) == schedule.Reworded(text) {
			return ok
		}
		one, err := time.Parse(time.RFC3339Nano, a)
		two, wrong := time.Parse(time.RFC3339Nano, text)
		return err == nil && wrong == nil && one.Sub(two).Abs() < time.Microsecond
	}
	return a == b
}

// brief is a short form of a value for display.
func brief(v any) string {
	if v == nil {
		return "absent"
	}
	text, err := value.JSON(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) > 200 {
		text = append(text[:200], "…"...)
	}
	return string(text)
}
