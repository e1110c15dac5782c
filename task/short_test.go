package task_test

import (
	"slices"
	"testing"

	"millrace/task"
)

func TestShorten(t *testing.T) {
	const a, b, c task.ID = "01JD6Z8V3M0QK4T7W2X9Y5ABCD", "01JD6Z8V3M0QK4T7W2X9Y5ABCE", "01JD6Z8V3M0QK4T7V2X9Y5ABCD"
	for _, x := range []struct {
		ids  []task.ID
		want []string
	}{
		{nil, nil},
		{[]task.ID{a}, []string{"9Y5ABCD"}},
		{[]task.ID{a, b, a}, []string{"9Y5ABCD", "9Y5ABCE", "9Y5ABCD"}},
		{[]task.ID{a, b, c}, []string{"W2X9Y5ABCD", "W2X9Y5ABCE", "V2X9Y5ABCD"}},
		{[]task.ID{"X"}, []string{"X"}},
	} {
		short := task.Shorten(x.ids)
		var got []string
		for _, id := range x.ids {
			got = append(got, short(id))
		}
		if !slices.Equal(got, x.want) {
			t.Errorf("%v become %v, want %v", x.ids, got, x.want)
		}
	}
}

func TestPart(t *testing.T) {
	for s, want := range map[string]bool{
		"9y5abcd": true, "ABCDEF": true, "ABCDE": false, "01JD6Z8V3M0QK4T7W2X9Y5ABCD": true, "01JD6Z8V3M0QK4T7W2X9Y5ABCDE": false,
		"deploy": false, "I23456": false, "": false, "ABC DEF": false,
	} {
		if got, ok := task.Part(s); ok != want || ok && len(got) != len(s) {
			t.Errorf("%q: %q, %v", s, got, ok)
		}
	}
}
