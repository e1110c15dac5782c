package output

import (
	"slices"
	"testing"
)

func TestLinesOneByOne(t *testing.T) {
	for _, c := range []struct {
		name  string
		given []Line
		then  []Line
	}{
		{"nothing", nil, nil},
		{"single lines", []Line{{N: 1, Text: "a"}, {N: 2, Text: "b\nc"}}, []Line{{N: 1, Text: "a"}, {N: 2, Text: "b\nc"}}},
		{
			"several", []Line{{N: 1, Text: "a"}, {N: 4, Stream: Stderr, Text: "b\n\nd", Several: 3}, {N: 5, Text: "e"}},
			[]Line{{N: 1, Text: "a"}, {N: 2, Stream: Stderr, Text: "b"}, {N: 3, Stream: Stderr}, {N: 4, Stream: Stderr, Text: "d"}, {N: 5, Text: "e"}},
		},
		{"a count that is wrong", []Line{{N: 7, Text: "a\nb", Several: 3}}, []Line{{N: 7, Text: "a\nb"}}},
		{"a count below zero", []Line{{N: 7, Text: "a\nb", Several: -3}}, []Line{{N: 7, Text: "a\nb", Several: -3}}},
	} {
		b := Lines{Lines: slices.Clone(c.given)}
		b.OneByOne()
		if !slices.EqualFunc(b.Lines, c.then, func(a, b Line) bool {
			return a.N == b.N && a.Stream == b.Stream && a.Text == b.Text && a.Several == b.Several
		}) {
			t.Errorf("%s: %+v, want %+v", c.name, b.Lines, c.then)
		}
	}
}
