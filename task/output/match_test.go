package output

import "testing"

// A match selects lines, and May never skips a batch with a matching line.
func TestMatch(t *testing.T) {
	t.Parallel()
	line := func(stream, level, text string) Line { return Line{N: 1, Stream: stream, Level: level, Text: text} }
	for _, c := range []struct {
		name string
		m    Match
		l    Line
		want bool
		may  bool
	}{
		{"all", Match{}, line(Stdout, "", "x"), true, true},
		{"a part", Match{Text: "refused"}, line(Stdout, "", "Connection REFUSED by peer"), true, true},
		{"capital letters", Match{Text: "REFUSED"}, line(Stdout, "", "connection refused"), true, true},
		{"not there", Match{Text: "refused"}, line(Stdout, "", "connection accepted"), false, false},
		{"quotes", Match{Text: `say "no"`}, line(Stdout, "", `they say "NO"`), true, true},
		{"signs of HTML", Match{Text: "<b>"}, line(Stdout, "", "<B>"), true, true},
		{"other letters", Match{Text: "ÜBER"}, line(Stdout, "", "über"), true, true},
		{"what only the batch has", Match{Text: "stdout"}, line(Stdout, "", "x"), false, true},
		{"the level", Match{Level: "warn"}, line(Log, "warn", "x"), true, true},
		{"a graver one", Match{Level: "warn"}, line(Log, "error", "x"), true, true},
		{"a lesser one", Match{Level: "warn"}, line(Log, "info", "x"), false, false},
		{"none", Match{Level: "debug"}, line(Stdout, "", "x"), false, false},
		{"stderr", Match{Level: "error"}, line(Stderr, "", "x"), true, true},
		{"both", Match{Level: "error", Text: "disk"}, line(Log, "error", "disk full"), true, true},
		{"one of both", Match{Level: "error", Text: "disk"}, line(Log, "info", "disk full"), false, false},
	} {
		b := Lines{Lines: []Line{c.l}}
		body, err := b.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		if is, may := c.m.Line(&c.l), c.m.May(body); is != c.want || may != c.may {
			t.Errorf("%s: chosen %t, may be %t; want %t, %t", c.name, is, may, c.want, c.may)
		}
	}
	if (Match{Level: "warm"}).Validate() == nil || (Match{Level: "warn"}).Validate() != nil {
		t.Error("a level that is none is one, or one is none")
	}
}
