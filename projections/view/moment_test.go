package view

import (
	"strings"
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	there := queryNoon.In(time.FixedZone("there", 2*3600))
	for text, want := range map[string]Moment{
		"": {}, End: {}, "7": {Seq: 7}, "#7": {Seq: 7},
		"-10m": {At: queryNoon.Add(-10 * time.Minute)}, "10m": {At: queryNoon.Add(-10 * time.Minute)}, "-0s": {At: queryNoon},
		"13:30": {At: queryNoon.Add(-30 * time.Minute)}, "2026-03-01T11:00:00Z": {At: queryNoon.Add(-time.Hour)}, "2999-01-01": {At: time.Date(2998, 12, 31, 22, 0, 0, 0, time.UTC)},
	} {
		got, err := ParseMoment(text, there)
		if err != nil || got.Seq != want.Seq || !got.At.Equal(want.At) || !got.At.IsZero() && got.At.Location() != there.Location() {
			t.Errorf("Moment(%q) = %v, %v, want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"0": "sequences begin with 1", "#0": "sequences begin with 1", "soon": "no moment", "+5m": "no moment", "--5m": "no moment", "-": "no moment", "-7": "no moment", "1.5": "no moment", "99999999999999999999": "no moment",
	} {
		if got, err := ParseMoment(text, there); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Moment(%q) = %v, %v, want an error with %q", text, got, err, want)
		}
	}
}

// A short id of digits alone looks like a sequence.
func TestTwofold(t *testing.T) {
	for text, want := range map[string]bool{
		"1048211": true, "123456": true, "12345": false, "#1048211": false, "104821A": false, "-10m": false, "01234567890123456789012345": true, "": false,
	} {
		if got := Twofold(text); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	const id = "01JNAT00000000000001048211"
	if err := Unclear("1048211", id, true); err == nil || !strings.Contains(err.Error(), "write #1048211, or more of the id") {
		t.Errorf("%v", err)
	}
	if err := Unclear("1048211", id, false); err != nil {
		t.Errorf("the log has no such fact: %v", err)
	}
}
