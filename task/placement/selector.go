package placement

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/task/value"
)

// Op is how a [Requirement] compares a label.
type Op string

// The operators.
const (
	OpIn           Op = "in"     // the label is set to one of the values
	OpNotIn        Op = "notin"  // it is unset, or set to none of the values
	OpExists       Op = "exists" // it is set, to any value
	OpNotExists    Op = "notexists"
	OpGreater      Op = ">" // it is set to a number above the value
	OpGreaterEqual Op = ">="
	OpLess         Op = "<"
	OpLessEqual    Op = "<="
)

// comparisons are the operators on numbers, the longer spelling first.
var comparisons = []Op{OpGreaterEqual, OpLessEqual, OpGreater, OpLess}

// Requirement is one rule about one label.
type Requirement struct {
	Key string `redact:"keep"`
	Op  Op     `redact:"keep"`
	// Values are the values of in and notin. A comparison has one value, a number.
	Values []string `redact:"values"`
}

// Selector chooses nodes by their labels: all of its requirements must hold. An empty one matches
// every node. In JSON it is a list of texts, such as
//
//	["zone in (eu,us)", "gpu", "!spot", "mem >= 16"]
//
// A mapping from labels to values can also be read: {"zone": ["eu", "us"], "mem": ">=16"}.
//
// Besides its given labels, each node has [LabelNode] and [LabelSlots].
type Selector []Requirement

// Labels of every node. They override labels given under these names.
const (
	LabelNode  = "node"  // the node's own name
	LabelSlots = "slots" // how many slots it has in total
)

// Bounds of a [Selector].
const (
	MaxRequirements = 32
	MaxValues       = 64
)

// ParseSelector reads requirements separated by commas:
//
//	zone in (eu,us), disk!=hdd, gpu, !spot, mem>=16
//
// The error names the unreadable part and the expected form.
func ParseSelector(text string) (Selector, error) {
	var s Selector
	for _, part := range splitOutside(text) {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		r, err := parseRequirement(part)
		if err != nil {
			return nil, err
		}
		s = append(s, r)
	}
	return s, s.Validate()
}

// splitOutside splits at commas outside parentheses.
func splitOutside(text string) []string {
	var parts []string
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth <= 0 {
				parts, from = append(parts, text[from:i]), i+1
			}
		}
	}
	return append(parts, text[from:])
}

func parseRequirement(text string) (Requirement, error) {
	if key, ok := strings.CutPrefix(text, "!"); ok {
		return Requirement{Key: strings.TrimSpace(key), Op: OpNotExists}, nil
	}
	end := keyEnd(text)
	if end == len(text) {
		return Requirement{Key: text, Op: OpExists}, nil
	}
	key, rest := text[:end], strings.TrimSpace(text[end:])
	return requirement(key, rest, fmt.Errorf("label selector %q: want key, !key, key=value, key!=value, key in (a,b), key notin (a,b) or key>=number", text))
}

// requirement parses the text behind a key, operator first.
func requirement(key, rest string, refusal error) (Requirement, error) {
	for _, op := range comparisons {
		if value, ok := strings.CutPrefix(rest, string(op)); ok {
			return Requirement{key, op, []string{strings.TrimSpace(value)}}, nil
		}
	}
	for _, o := range []struct {
		sign string
		op   Op
	}{{"!=", OpNotIn}, {"==", OpIn}, {"=", OpIn}} {
		if value, ok := strings.CutPrefix(rest, o.sign); ok {
			return Requirement{key, o.op, []string{strings.TrimSpace(value)}}, nil
		}
	}
	for _, op := range []Op{OpNotIn, OpIn} {
		list, ok := strings.CutPrefix(rest, string(op))
		list = strings.TrimSpace(list)
		if !ok || !strings.HasPrefix(list, "(") || !strings.HasSuffix(list, ")") {
			continue
		}
		r := Requirement{Key: key, Op: op}
		for value := range strings.SplitSeq(list[1:len(list)-1], ",") {
			r.Values = append(r.Values, strings.TrimSpace(value))
		}
		return r, nil
	}
	return Requirement{}, refusal
}

// SelectLabel returns the requirement for a value of a mapping: the label has this value or, if the
// value begins with an operator, satisfies the comparison.
func SelectLabel(key, value string) Requirement {
	trimmed := strings.TrimSpace(value)
	if trimmed != "" && strings.ContainsRune("<>!=", rune(trimmed[0])) {
		if r, err := requirement(key, trimmed, errNoOperator); err == nil {
			return r
		}
	}
	return Requirement{key, OpIn, []string{value}}
}

var errNoOperator = errors.New("there is no operator")

func keyRune(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-./", c)
}

// handlerKey begins the labels of handlers, whose names may have a colon.
const handlerKey = "handler/"

// keyEnd is where a text no longer is the name of a label.
func keyEnd(text string) int {
	handler := strings.HasPrefix(text, handlerKey)
	end := strings.IndexFunc(text, func(c rune) bool { return !keyRune(c) && (c != ':' || !handler) })
	if end < 0 {
		return len(text)
	}
	return end
}

// Validate refuses requirements that cannot be written and read back.
func (s Selector) Validate() error {
	if len(s) > MaxRequirements {
		return fmt.Errorf("labels: %d requirements, want at most %d", len(s), MaxRequirements)
	}
	for _, r := range s {
		if err := r.validate(); err != nil {
			return fmt.Errorf("labels: %w", err)
		}
	}
	return nil
}

func (r Requirement) validate() error {
	if r.Key == "" || len(r.Key) > 128 || keyEnd(r.Key) < len(r.Key) {
		return fmt.Errorf("the label %q: want 1 to 128 letters, digits, or one of _ - . /", r.Key)
	}
	switch r.Op {
	case OpExists, OpNotExists:
		if len(r.Values) > 0 {
			return fmt.Errorf("%s %s takes no value", r.Key, r.Op)
		}
		return nil
	case OpIn, OpNotIn:
		if len(r.Values) == 0 || len(r.Values) > MaxValues {
			return fmt.Errorf("%s %s: %d values, want 1 to %d", r.Key, r.Op, len(r.Values), MaxValues)
		}
	default:
		if !r.Compares() {
			return fmt.Errorf("%s: there is no operator %q", r.Key, r.Op)
		}
		if len(r.Values) != 1 {
			return fmt.Errorf("%s %s: want one number", r.Key, r.Op)
		}
		if _, ok := value.ParseNumber(r.Values[0]); !ok {
			return fmt.Errorf("%s %s %s: want a number", r.Key, r.Op, r.Values[0])
		}
	}
	for _, v := range r.Values {
		if len(v) > 256 || v != strings.TrimSpace(v) || strings.ContainsAny(v, ",()\n\r\x00") {
			return fmt.Errorf("%s: the value %q: want at most 256 bytes, without commas, parentheses or spaces at its ends", r.Key, v)
		}
	}
	return nil
}

// Match tells whether the selector matches the labels. If not, why names the failed requirement and
// the value found.
func (s Selector) Match(labels map[string]string) (ok bool, why string) {
	if r := s.Refuses(labels); r != nil {
		value, there := labels[r.Key]
		if !there {
			return false, fmt.Sprintf("%s: the node has no label %q", r, r.Key)
		}
		return false, fmt.Sprintf("%s: its %s is %q", r, r.Key, value)
	}
	return true, ""
}

// Refuses returns the first requirement that does not hold, nil if all do.
func (s Selector) Refuses(labels map[string]string) *Requirement {
	for i := range s {
		value, there := labels[s[i].Key]
		if !s[i].holds(value, there) {
			return &s[i]
		}
	}
	return nil
}

// Names tells whether the selector names a node among those that it chooses.
func (s Selector) Names(node string) bool {
	return slices.ContainsFunc(s, func(r Requirement) bool {
		return r.Key == LabelNode && r.Op == OpIn && slices.Contains(r.Values, node)
	})
}

// Compares tells whether it compares a label with a number.
func (r Requirement) Compares() bool { return slices.Contains(comparisons, r.Op) }

func (r Requirement) holds(label string, there bool) bool {
	switch r.Op {
	case OpIn:
		return there && slices.Contains(r.Values, label)
	case OpNotIn:
		return !there || !slices.Contains(r.Values, label)
	case OpExists:
		return there
	case OpNotExists:
		return !there
	}
	have, ok := value.ParseNumber(label)
	if !there || !ok || len(r.Values) != 1 {
		return false
	}
	want, ok := value.ParseNumber(r.Values[0])
	switch c := have.Compare(want); r.Op {
	case OpGreater:
		return ok && c > 0
	case OpGreaterEqual:
		return ok && c >= 0
	case OpLess:
		return ok && c < 0
	case OpLessEqual:
		return ok && c <= 0
	}
	return false // an operator of a later version
}

// String writes the requirement in the form that [ParseSelector] reads.
func (r Requirement) String() string {
	values := r.sorted()
	switch {
	case r.Op == OpExists:
		return r.Key
	case r.Op == OpNotExists:
		return "!" + r.Key
	case r.Op == OpIn && len(values) == 1:
		return r.Key + "=" + values[0]
	case r.Op == OpNotIn && len(values) == 1:
		return r.Key + "!=" + values[0]
	case r.Op == OpIn || r.Op == OpNotIn:
		return fmt.Sprintf("%s %s (%s)", r.Key, r.Op, strings.Join(values, ","))
	}
	return r.Key + string(r.Op) + strings.Join(values, ",")
}

func (r Requirement) sorted() []string {
	values := slices.Sorted(slices.Values(r.Values))
	return slices.Compact(values)
}

// String writes the selector in the form that [ParseSelector] reads. Selectors with the same
// requirements have the same text.
func (s Selector) String() string {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), ",")
}

// MarshalJSON writes the list of requirements as texts.
func (s Selector) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(s))
	for i, r := range s {
		parts[i] = r.String()
	}
	return value.JSON(parts)
}

// UnmarshalJSON reads a list of texts, one text, or a mapping from labels to values.
func (s *Selector) UnmarshalJSON(data []byte) error {
	*s = nil
	var list []string
	if err := json.Unmarshal(data, &list); err == nil {
		for _, text := range list {
			part, err := ParseSelector(text)
			if err != nil {
				return err
			}
			*s = append(*s, part...)
		}
		return s.Validate()
	}
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*s, err = ParseSelector(text)
		return err
	}
	is, err := value.Decode(data)
	pairs, ok := is.(map[string]any)
	if err != nil || !ok {
		return errors.New(`labels: want a list such as ["zone in (eu,us)", "gpu"], or a mapping such as {"zone": "eu"}`)
	}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		r, err := selectValue(key, pairs[key])
		if err != nil {
			return err
		}
		*s = append(*s, r)
	}
	return s.Validate()
}

func selectValue(key string, v any) (Requirement, error) {
	if list, ok := v.([]any); ok {
		r := Requirement{Key: key, Op: OpIn}
		for _, item := range list {
			text, err := scalarText(key, item)
			if err != nil {
				return r, err
			}
			r.Values = append(r.Values, text)
		}
		return r, nil
	}
	text, err := scalarText(key, v)
	return SelectLabel(key, text), err
}

func scalarText(key string, v any) (string, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, value.Number:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("labels: %s: want text, a number, true, false, or a list of them", key)
}

// hashed is the name of a queue and a selector in a route.
func hashed(queue string, s Selector) string {
	sum := sha256.Sum256([]byte(queue + "\n" + s.String()))
	return hex.EncodeToString(sum[:12])
}
