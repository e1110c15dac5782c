package value

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// Errors of JSON are explained without words of Go.
func TestPlainly(t *testing.T) {
	type of struct {
		Name  string
		Count uint
		Since time.Time
		Inner struct{ List []string }
	}
	for text, want := range map[string]string{
		`{"Name": 5}`:                `Name is a number, want a string`,
		`{"Count": -1}`:              `Count is a number -1, want a whole number from 0 on`,
		`{"Inner": {"List": "x"}}`:   `Inner.List is a string, want a list`,
		`{"Inner": true}`:            `Inner is true or false, want an object`,
		`{"Nam": "x"}`:               `there is no field "Nam"`,
		`{"Since": "yesterday"}`:     `"yesterday" is no time, want one such as "2026-03-01T12:00:00Z"`,
		`{"Since": "2026-13-01T00"}`: `"2026-13-01T00" is no time, want one such as "2026-03-01T12:00:00Z"`,
		`[]`:                         `it is a list, want an object`,
	} {
		d := json.NewDecoder(bytes.NewReader([]byte(text)))
		d.DisallowUnknownFields()
		err := d.Decode(new(of))
		if err == nil {
			t.Errorf("%s is taken", text)
		} else if got := Plainly(err).Error(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"": "", "four": "four", "fives": "five…", "ééé": "éé…", "aéé": "aé…"} {
		if got := Cut(text, 4); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestLegible(t *testing.T) {
	for text, want := range map[string]string{
		`{"a":"x\u0026y\u003cz\u003e"}`: `{"a":"x&y<z>"}`, `{"a":"\\u0026"}`: `{"a":"\\u0026"}`, `{"a":"\u0022\u0026"}`: `{"a":"\u0022&"}`, `{}`: `{}`, `"\u00`: `"\u00`, `"\`: `"\`,
	} {
		if got := string(Legible([]byte(text))); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
