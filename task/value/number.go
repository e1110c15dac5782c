package value

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Number is a decimal number of any size, as it was written in JSON. It is compared exactly, which a
// float64 is not: 9007199254740993 has none of its own.
type Number string

// MarshalJSON writes the number as it was read.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// UnmarshalJSON reads a number of JSON.
func (n *Number) UnmarshalJSON(data []byte) error {
	if _, ok := Number(data).parse(); !ok || !json.Valid(data) {
		return fmt.Errorf("%s is no number", Cut(string(data), 60))
	}
	*n = Number(data)
	return nil
}

// ParseNumber reads a decimal number, also one that JSON writes otherwise, such as +1, .5 or 5.
func ParseNumber(text string) (Number, bool) {
	_, ok := Number(text).parse()
	return Number(text), ok
}

// decimal is ±0.digits × 10^exp. Its digits neither begin nor end with 0; zero has none.
type decimal struct {
	below  bool
	digits string
	exp    int64
}

func (n Number) parse() (d decimal, ok bool) {
	s := string(n)
	if s != "" && (s[0] == '-' || s[0] == '+') {
		d.below, s = s[0] == '-', s[1:]
	}
	if at := strings.IndexAny(s, "eE"); at >= 0 {
		if d.exp, ok = exponent(s[at+1:]); !ok {
			return d, false
		}
		s = s[:at]
	}
	whole, part, _ := strings.Cut(s, ".")
	all := whole + part
	if all == "" || strings.Trim(all, "0123456789") != "" {
		return d, false
	}
	d.digits = strings.TrimLeft(all, "0")
	d.exp += int64(len(whole) - (len(all) - len(d.digits)))
	if d.digits = strings.TrimRight(d.digits, "0"); d.digits == "" {
		d = decimal{}
	}
	return d, true
}

// exponent reads a power of ten. Beyond all sense it is the largest or the smallest.
func exponent(s string) (int64, bool) {
	digits, below := strings.CutPrefix(s, "-")
	if !below {
		digits = strings.TrimPrefix(s, "+")
	}
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return 0, false
	}
	e, err := strconv.ParseInt(s, 10, 32)
	if err != nil && below {
		return math.MinInt32, true
	} else if err != nil {
		return math.MaxInt32, true
	}
	return e, true
}

func (d decimal) sign() int {
	switch {
	case d.digits == "":
		return 0
	case d.below:
		return -1
	}
	return 1
}

func (d decimal) whole() bool { return d.exp >= int64(len(d.digits)) }

// Compare returns -1, 0 or 1: n is below m, the same number, or above it.
func (n Number) Compare(m Number) int {
	x, _ := n.parse()
	y, _ := m.parse()
	if x.sign() != y.sign() {
		return cmp.Compare(x.sign(), y.sign())
	}
	return x.sign() * cmp.Or(cmp.Compare(x.exp, y.exp), strings.Compare(x.digits, y.digits))
}

// Whole tells whether it is a whole number, also one that is written 1.0 or 1e3.
func (n Number) Whole() bool {
	d, ok := n.parse()
	return ok && d.whole()
}

// Int returns a whole number; false if it is none, or too large for an int.
func (n Number) Int() (int, bool) {
	if !n.Whole() {
		return 0, false
	}
	i, err := strconv.Atoi(n.Digits(20))
	return i, err == nil
}

// Plain returns the one spelling that equal numbers share: 1 for 1.0 and 1e0.
func (n Number) Plain() string { return n.Digits(40) }

// Digits is [Number.Plain] with a power of ten only for numbers of more than so many digits.
func (n Number) Digits(most int) string {
	d, _ := n.parse()
	sign := ""
	if d.below {
		sign = "-"
	}
	size := int64(len(d.digits))
	switch {
	case size == 0:
		return "0"
	case d.whole() && d.exp <= int64(most):
		return sign + d.digits + strings.Repeat("0", int(d.exp-size))
	case d.whole():
	case d.exp > 0 && size <= int64(most):
		return sign + d.digits[:d.exp] + "." + d.digits[d.exp:]
	case d.exp <= 0 && size-d.exp <= int64(most):
		return sign + "0." + strings.Repeat("0", int(-d.exp)) + d.digits
	}
	text := sign + d.digits[:1]
	if size > 1 {
		text += "." + d.digits[1:]
	}
	return text + "e" + strconv.FormatInt(d.exp-1, 10)
}

// MultipleOf tells whether it is a whole number of times m. Nothing is a multiple of 0.
func (n Number) MultipleOf(m Number) bool {
	x, _ := n.parse()
	y, _ := m.parse()
	if x.digits == "" || y.digits == "" {
		return y.digits != ""
	}
	// Of digits as whole numbers: x × 10^tens is a multiple of y.
	tens := x.exp - int64(len(x.digits)) - (y.exp - int64(len(y.digits)))
	if tens < 0 {
		return false // the digits of x do not end with 0
	}
	by, rest := new(big.Int), new(big.Int)
	by.SetString(y.digits, 10)
	for digits := range slices.Chunk([]byte(x.digits), 18) {
		part, _ := new(big.Int).SetString(string(digits), 10)
		rest.Mul(rest, big.NewInt(int64(math.Pow10(len(digits))))).Add(rest, part).Mod(rest, by)
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(tens), by)
	return rest.Mul(rest, power).Mod(rest, by).Sign() == 0
}

// Spell returns the one spelling of a value of JSON that equal values share: a text as it is,
// numbers by [Number.Plain], objects in order of their names. It is what keys are made of.
func Spell(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	is, err := Decode(value)
	if err != nil {
		return string(value)
	}
	return SpellOut(is)
}

// SpellOut is [Spell] for what [Decode] returns; a text is in quotes.
func SpellOut(value any) string {
	var b bytes.Buffer
	spell(&b, value)
	return b.String()
}

func spell(b *bytes.Buffer, value any) {
	switch is := value.(type) {
	case Number:
		b.WriteString(is.Plain())
	case []any:
		b.WriteByte('[')
		for i, one := range is {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(b, one)
		}
		b.WriteByte(']')
	case map[string]any:
		b.WriteByte('{')
		for i, name := range slices.Sorted(maps.Keys(is)) {
			if i > 0 {
				b.WriteByte(',')
			}
			spell(b, name)
			b.WriteByte(':')
			spell(b, is[name])
		}
		b.WriteByte('}')
	default:
		text, _ := json.Marshal(is) // text, true, false and null always marshal
		b.Write(text)
	}
}

// Same tells whether two values of JSON are equal: numbers by what they are, not by their spelling.
func Same(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, bad := Decode(a)
	y, worse := Decode(b)
	return bad == nil && worse == nil && Equal(x, y)
}

// Equal is [Same] for what [Decode] returns.
func Equal(a, b any) bool {
	switch x := a.(type) {
	case Number:
		y, ok := b.(Number)
		return ok && x.Compare(y) == 0
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, Equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, Equal)
	}
	switch b.(type) {
	case []any, map[string]any:
		return false
	}
	return a == b
}

// Decode reads one value of JSON: nil, bool, string, [Number], []any or map[string]any. All who look
// into a user's values read them so, because encoding/json makes float64 of numbers.
func Decode(data []byte) (any, error) {
	var is any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&is); err != nil {
		return nil, Plainly(err)
	}
	if d.More() {
		return nil, fmt.Errorf("%s has more than one value", Cut(string(data), 60))
	}
	return numbered(is), nil
}

// numbered makes a [Number] of each number.
func numbered(value any) any {
	switch is := value.(type) {
	case json.Number:
		return Number(is)
	case []any:
		for i := range is {
			is[i] = numbered(is[i])
		}
	case map[string]any:
		for name := range is {
			is[name] = numbered(is[name])
		}
	}
	return value
}
