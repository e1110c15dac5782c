package value

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/url"
	"strconv"
	"strings"
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
		`{"Name": "x"`:               `it ends too early`,
		`{"Name": x}`:                `'x' does not belong there in JSON (byte 10)`,
		"\x01":                       `'\x01' does not belong there in JSON (byte 1)`,
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

// None of what the library says of texts that people type reaches them.
func TestPlainlyOfTexts(t *testing.T) {
	_, whole := strconv.Atoi("x")
	_, large := strconv.ParseInt("99999999999999999999", 10, 64)
	_, number := strconv.ParseFloat("1,5", 64)
	_, truth := strconv.ParseBool("yes")
	_, duration := time.ParseDuration("5 s")
	_, unit := time.ParseDuration("5")
	_, escape := url.ParseQuery("a=%zz")
	wrong := strings.Join([]string{"http://a", "b/"}, " ")
	_, address := url.Parse(wrong)
	_, base := base64.StdEncoding.DecodeString("a?")
	_, digit := hex.DecodeString("0g")
	for err, want := range map[error]string{
		whole: `"x" is no whole number`, large: "99999999999999999999 is a number that is too large or too small here", number: `"1,5" is no number`, truth: `"yes" is neither true nor false`,
		duration: `"5 s" is no duration, such as 90s or 2h30m`, unit: `"5" is no duration, such as 90s or 2h30m`, escape: `"%zz" is no escape of a URL, such as %20`,
		address: `"http://a b/" is no URL: invalid character " " in host name`, base: "it is no base64 at byte 2", digit: "'g' is no hexadecimal digit",
		json.Unmarshal([]byte("{"), new(int)): "the JSON ends too early", fs.ErrNotExist: "file does not exist",
	} {
		if got := Plainly(err).Error(); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
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
