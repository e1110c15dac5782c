package value

import (
	"encoding/json"
	"strings"
	"testing"
)

// Numbers of any size are compared by all their digits, and equal ones have one spelling.
func TestNumbers(t *testing.T) {
	for _, c := range []struct {
		a, b  Number
		want  int
		plain string // of a
	}{
		{"9007199254740993", "9007199254740992", 1, "9007199254740993"},
		{"1", "1.0", 0, "1"}, {"1e3", "1000", 0, "1000"}, {"1E+3", "1000.00", 0, "1000"}, {"100e-2", "1", 0, "1"},
		{"0", "-0.0", 0, "0"}, {"0e99", "0", 0, "0"}, {"-1", "1", -1, "-1"}, {"-2", "-1", -1, "-2"}, {"-1e3", "-1e2", -1, "-1000"},
		{"0.1", "0.10000000000000000001", -1, "0.1"}, {"1.50", "1.5", 0, "1.5"}, {"12.5", "2.5", 1, "12.5"}, {"-0.007", "-7e-3", 0, "-0.007"},
		{"1e400", "1e401", -1, "1e400"}, {"15e400", "1.5e401", 0, "1.5e401"}, {"1e-400", "0", 1, "1e-400"}, {"99", "100", -1, "99"},
		{"1e99999999999999999999", "1e5", 1, "1e2147483647"}, {"1e-99999999999999999999", "1e-5", -1, "1e-2147483648"},
		{".5", "0.5", 0, "0.5"}, {"5.", "5", 0, "5"}, {"+1", "1", 0, "1"},
	} {
		if got := c.a.Compare(c.b); got != c.want || c.b.Compare(c.a) != -c.want {
			t.Errorf("%s is to %s %d, want %d", c.a, c.b, got, c.want)
		}
		if got := c.a.Plain(); got != c.plain || c.want == 0 && c.b.Plain() != got {
			t.Errorf("%s is written %s and %s as %s, want %s", c.a, got, c.b, c.b.Plain(), c.plain)
		}
	}
	for _, text := range []string{"", "-", ".", "e5", "1e", "1e+-5", "1e5x", "0x10", "NaN", "1_000", "--1", "1 ", "1.2.3"} {
		if _, ok := ParseNumber(text); ok {
			t.Errorf("%q is a number", text)
		}
	}
	for text, want := range map[Number]bool{"1.0": true, "1e3": true, "1.5": false, "15e-1": false, "150e-1": true, "1e-400": false, "0.0": true} {
		if text.Whole() != want {
			t.Errorf("%s is whole: %v", text, !want)
		}
	}
	for text, want := range map[Number]int{"1e3": 1000, "-7.0": -7, "9223372036854775807": 9223372036854775807} {
		if got, ok := text.Int(); !ok || got != want {
			t.Errorf("%s is %d, %v", text, got, ok)
		}
	}
	if _, ok := Number("9223372036854775808").Int(); ok {
		t.Error("2^63 is an int")
	}
}

func TestMultipleOf(t *testing.T) {
	for _, c := range []struct {
		n, m Number
		want bool
	}{
		{"19.99", "0.01", true}, {"0.3", "0.1", true}, {"0.35", "0.1", false}, {"9007199254740993", "2", false}, {"9007199254740994", "2", true},
		{"1e1000", "7", false}, {"7e1000", "7", true}, {"0", "3", true}, {"3", "0", false}, {"-6", "4", false}, {"-8", "-4", true}, {"5", "1e1", false},
		{Number("1" + strings.Repeat("0", 50) + "1"), "3", false}, {Number("1" + strings.Repeat("0", 50) + "2"), "3", true},
	} {
		if got := c.n.MultipleOf(c.m); got != c.want {
			t.Errorf("%s is a multiple of %s: %v", c.n, c.m, got)
		}
	}
}

// Equal values have one spelling, whatever their numbers and the order of their fields look like.
func TestSpell(t *testing.T) {
	for text, want := range map[string]string{
		`"1.0"`: "1.0", `1.0`: "1", `1e0`: "1", `null`: "", `true`: "true", `[1.0, 2e1,"a"]`: `[1,20,"\"a\""]`, `{"b":1.50,"a":null}`: `{"a":null,"b":1.5}`,
		`9007199254740993`: "9007199254740993",
	} {
		want = strings.ReplaceAll(want, `"\"a\""`, `"a"`)
		if got := Spell(json.RawMessage(text)); got != want {
			t.Errorf("%s is spelled %s, want %s", text, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{`1`, `1.0`, true}, {`"1"`, `1`, false}, {`[1]`, `[1e0]`, true}, {`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1}`, true}, {`{"a":1}`, `{"a":1,"b":2}`, false},
		{`9007199254740993`, `9007199254740992`, false}, {`null`, `[]`, false}, {`1`, `{}`, false},
	} {
		if got := Same(json.RawMessage(c.a), json.RawMessage(c.b)); got != c.want {
			t.Errorf("%s is the same as %s: %v", c.a, c.b, got)
		}
	}
}

// A number is stored as it was written.
func TestNumberForms(t *testing.T) {
	for _, text := range []string{"9007199254740993", "1.50", "-1e400"} {
		var n Number
		err := json.Unmarshal([]byte(text), &n)
		if back, again := json.Marshal(n); err != nil || again != nil || string(back) != text {
			t.Errorf("%s is written %s: %v, %v", text, back, err, again)
		}
	}
	for _, text := range []string{`"1"`, `true`, `{}`} {
		if err := json.Unmarshal([]byte(text), new(Number)); err == nil {
			t.Errorf("%s is a number", text)
		}
	}
}
